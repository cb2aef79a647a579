package bandit

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// The dated fields, as places in a bucket.
const (
	iN1 = iota
	iS1
	iN0
	iS0
	iNU
	iSU
	iN
	iZ
	iZZ
	iClosed
	dated
)

// chosen is how many of the dated fields the chooser reads: the first ones.
const chosen = iSU + 1

// The undated fields, as places in arm.sum.
const (
	iM1 = iota
	iY1
	iM0
	iY0
	iMatched
	iPicked
	iTokens
	iSuccess
	iFailure
	iBetter
	iWorse
	iTold
	iSumY
	iGraded
	iRes2
	iCN
	iCS
	iSpent   // withheld: sessions, input, cached; the same injected
	iRefused = iSpent + 6
	undated  = iRefused + 2
)

// bucket holds the dated fields of one day.
type bucket struct {
	day int32
	v   [dated]int64
}

// stratum counts the coins of one propensity.
type stratum struct {
	eps      int64           // millionths
	assigned [2]int64        // closed sessions: withheld, injected
	told     [2][tiers]int64 // rewarded ones, by tier
	heard    [2][tiers]int64 // those that were rewarded when they closed, by the tier of then
	y        [2]int64        // sums of rewards
}

// arm is one scope of the counters: a lesson's arm, the global scope, or a category. Guarded by its
// own mutex, which is held for sums only, never while anything else is waited for.
type arm struct {
	mu      sync.Mutex
	buckets []bucket // by day
	total   [dated]int64
	sum     [undated]int64
	up, dn  [bets]int64 // W(+,k), W(-,k)
	strata  []stratum   // by eps
	any     []stratum   // global: was anything injected of what was picked, by the chance that nothing is

	emaxUp, emaxDown, provenAt, outUp, outDown, idleAt int64

	early [chosen]int64 // what open sessions have told so far: for the chooser alone
	marks marks         // how the evidence stood earlier

	narrowest float64 // the interval's half-width, as far as anybody asked; 0: nobody did

	stamp uint64   // the clock that seen was computed for; 0: stale
	seen  evidence // discounted
}

// datedField and undatedField find a field's place.
func datedField(f string) (int, bool) {
	switch f {
	case fN1:
		return iN1, true
	case fS1:
		return iS1, true
	case fN0:
		return iN0, true
	case fS0:
		return iS0, true
	case fNU:
		return iNU, true
	case fSU:
		return iSU, true
	case fN:
		return iN, true
	case fZ:
		return iZ, true
	case fZZ:
		return iZZ, true
	case fClosed:
		return iClosed, true
	}
	return 0, false
}

func undatedField(f string) (int, bool) {
	switch f {
	case fM1:
		return iM1, true
	case fY1:
		return iY1, true
	case fM0:
		return iM0, true
	case fY0:
		return iY0, true
	case fMatched:
		return iMatched, true
	case fPicked:
		return iPicked, true
	case fTokens:
		return iTokens, true
	case fSuccess:
		return iSuccess, true
	case fFailure:
		return iFailure, true
	case fBetter:
		return iBetter, true
	case fWorse:
		return iWorse, true
	}
	return globalField(f)
}

func globalField(f string) (int, bool) {
	switch f {
	case fTold:
		return iTold, true
	case fSumY:
		return iSumY, true
	case fGraded:
		return iGraded, true
	case fRes2:
		return iRes2, true
	case fCN:
		return iCN, true
	case fCS:
		return iCS, true
	}
	return spentField(f)
}

// add takes one delta in; the caller holds mu. Unknown fields are ignored: an older precept reads
// what a newer one wrote.
func (a *arm) add(d Delta) {
	if d.Monotone() {
		a.raise(d.Field, d.Value)
		return
	}
	if i, ok := datedField(d.Field); ok {
		a.bucket(d.Day).v[i] += d.Value
		a.total[i] += d.Value
		a.stamp = 0
		return
	}
	if i, ok := undatedField(d.Field); ok {
		a.sum[i] += d.Value
		return
	}
	if w, rest, ok := betField(d.Field); ok {
		if w == wUp {
			a.up[rest] += d.Value
		} else {
			a.dn[rest] += d.Value
		}
		return
	}
	a.addStratum(d)
}

// betField reads "w+3".
func betField(f string) (w string, k int, ok bool) {
	if len(f) != 3 || (f[:2] != wUp && f[:2] != wDown) || f[2] < '1' || f[2] > '0'+bets {
		return "", 0, false
	}
	return f[:2], int(f[2] - '1'), true
}

// addStratum reads "a1@200000", "y1@200000", "told0.2@200000" and "heard0.2@200000".
func (a *arm) addStratum(d Delta) {
	name, rate, ok := strings.Cut(d.Field, "@")
	of := &a.strata
	if rest, is := strings.CutPrefix(name, ofAny); is {
		name, of = rest, &a.any
	}
	eps, err := strconv.ParseInt(rate, 10, 64)
	if !ok || err != nil {
		return
	}
	switch {
	case name == "a0":
		find(of, eps).assigned[0] += d.Value
	case name == "a1":
		find(of, eps).assigned[1] += d.Value
	case name == fY0:
		find(of, eps).y[0] += d.Value
	case name == fY1:
		find(of, eps).y[1] += d.Value
	}
	if arm, tier, ok := byTier(name, fTold); ok {
		find(of, eps).told[arm][tier] += d.Value
	}
	if arm, tier, ok := byTier(name, fHeard); ok {
		find(of, eps).heard[arm][tier] += d.Value
	}
}

// byTier reads the arm and the tier of "told0.2".
func byTier(name, of string) (arm, tier int, ok bool) {
	rest, ok := strings.CutPrefix(name, of)
	if !ok || len(rest) != 3 || rest[0] != '0' && rest[0] != '1' || rest[1] != '.' || rest[2] < '0' || rest[2] >= '0'+tiers {
		return 0, 0, false
	}
	return int(rest[0] - '0'), int(rest[2] - '0'), true
}

func (a *arm) bucket(day int32) *bucket {
	i, ok := slices.BinarySearchFunc(a.buckets, day, func(b bucket, day int32) int { return cmp.Compare(b.day, day) })
	if !ok {
		a.buckets = slices.Insert(a.buckets, i, bucket{day: day})
	}
	return &a.buckets[i]
}

// find is the stratum of a propensity.
func find(of *[]stratum, eps int64) *stratum {
	i, ok := slices.BinarySearchFunc(*of, eps, func(s stratum, eps int64) int { return cmp.Compare(s.eps, eps) })
	if !ok {
		*of = slices.Insert(*of, i, stratum{eps: eps})
	}
	return &(*of)[i]
}

// raise merges a running maximum; the caller holds mu.
func (a *arm) raise(field string, v int64) {
	switch field {
	case fEmaxUp:
		a.emaxUp = max(a.emaxUp, v)
	case fEmaxDown:
		a.emaxDown = max(a.emaxDown, v)
	case fProvenAt:
		a.provenAt = max(a.provenAt, v)
	case fOutUp:
		a.outUp = max(a.outUp, v)
	case fOutDown:
		a.outDown = max(a.outDown, v)
	case fIdleAt:
		a.idleAt = max(a.idleAt, v)
	}
}

// discounted is the evidence as of a clock; it is computed once a day and after each change. The
// buckets are added in the order of days, so that two replicas with the same counters believe the
// same to the last bit; but for what open sessions told one of them, and for the moment at which
// each saw a turn.
func (a *arm) discounted(t *clock) evidence {
	if a.stamp != t.stamp {
		a.seen = a.history(t)
		a.stamp = t.stamp
	}
	return a.seen
}

// counted is the evidence of the counters alone: without what open sessions told, and with no turn
// but those that show between days.
func (a *arm) counted(t *clock) evidence {
	return (&arm{buckets: a.buckets, total: a.total}).history(t)
}

// history is the evidence as the sessions' records have it: by age, and where the lesson turned,
// hardly what lies before.
func (a *arm) history(t *clock) evidence {
	var s [chosen]float64
	for i := range a.buckets {
		w := t.weight(a.buckets[i].day)
		if w == 0 {
			continue
		}
		for f := range s {
			s[f] += w * float64(a.buckets[i].v[f])
		}
	}
	if at, turned := a.turn(); turned {
		gone := a.before(&at, t)
		for f := range s {
			s[f] -= (1 - turnKeep) * gone[f]
		}
	}
	for f := range s {
		s[f] += float64(a.early[f])
	}
	return evidence{s[iN1] / Unit, s[iS1] / Unit, s[iN0] / Unit, s[iS0] / Unit, s[iNU] / Unit, s[iSU] / Unit}
}
