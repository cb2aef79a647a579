package bandit

import (
	"math"
	"slices"
)

// Stats is what the report reads of one scope: whole numbers of sessions, sums, and the coins by
// propensity. It holds nothing of the chooser but its buckets' counts.
type Stats struct {
	N, Z, ZZ         float64     // randomised sessions with a reward: count, sum of z, sum of z squared
	M1, Y1, M0, Y0   float64     // told sessions and the sum of their rewards: injected (treated), withheld (control)
	Matched, Picked  int64       // closed sessions, told or not
	Tokens           int64       // injected, all sessions together
	Success, Failure int64       // told injected sessions with a reward of at least .5, and below
	Spent            [2]Spending // withheld, injected
	Refused          [2]int64    // closed sessions of which the upstream refused the changed request: withheld, injected
	Better, Worse    float64     // sums of what their rewards were above and below the expected
	Told             int64       // global: all sessions with a reward, matched or not
	SumY             float64     // global: their rewards
	LogUp, LogDown   float64     // running maxima of the e-values, as logarithms
	ProvenAt         int64       // unix seconds; 0: not
	OutUp, OutDown   float64     // the smallest p at which its interval ever lay above and below 0, as logarithms of 1/p
	IdleAt           int64       // when its interval first lay within what matters; 0: never
	Recent           float64     // told picks per day over the last four weeks
	Strata           []Stratum
	Any              []Stratum  // global: was anything injected of what was picked, by the chance that nothing was
	Days             []DayStats // oldest first
}

// Stratum is the coins that were flipped with one propensity.
type Stratum struct {
	Eps      float64
	Assigned [2]int64        // closed sessions: withheld, injected
	Told     [2][tiers]int64 // of them with a reward, by tier; 0 holds unknown tiers
	Heard    [2][tiers]int64 // of them with a reward when they closed, by the tier of then
	Y        [2]float64      // sums of rewards
}

// DayStats is one day's part of the randomised comparison, for an effect over time.
type DayStats struct {
	Day      int32
	N, Z, ZZ float64
	N1, N0   float64 // told sessions injected (treated), withheld (control)
	S1, S0   float64 // global only: sums of rewards
}

// ToldArm sums a stratum's rewarded sessions of one arm.
func (s Stratum) ToldArm(injected int) (n int64) {
	for _, k := range s.Told[injected] {
		n += k
	}
	return n
}

// HeardArm sums a stratum's sessions of one arm that were rewarded when they closed.
func (s Stratum) HeardArm(injected int) (n int64) {
	for _, k := range s.Heard[injected] {
		n += k
	}
	return n
}

// Arms are all arms ever counted, sorted.
func (c *Chooser) Arms() []Arm {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.sorted()
}

// Stats reads one arm; all zero for one that was never counted.
func (c *Chooser) Stats(k Arm) Stats {
	a := c.scope(string(k), false)
	if k == "" || a == nil {
		return Stats{}
	}
	return a.stats(c.day())
}

// Global reads the comparison of treated sessions with control ones.
func (c *Chooser) Global() Stats { return c.global.stats(c.day()) }

func (c *Chooser) day() int32 {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.clock.day
}

func real64(v int64) float64 { return float64(v) / Unit }
func whole(v int64) int64    { return v / Unit }

// stats copies the arm out. Counts below zero (an undoing that came before its doing) read as zero.
func (a *arm) stats(day int32) Stats {
	a.mu.Lock()
	defer a.mu.Unlock()
	pos := func(i int) float64 { return math.Max(0, real64(a.sum[i])) }
	n := func(i int) int64 { return max(0, whole(a.sum[i])) }
	s := Stats{
		N: math.Max(0, real64(a.total[iN])), Z: real64(a.total[iZ]), ZZ: math.Max(0, real64(a.total[iZZ])),
		M1: pos(iM1), Y1: pos(iY1), M0: pos(iM0), Y0: pos(iY0), Matched: n(iMatched), Picked: n(iPicked), Tokens: n(iTokens),
		Success: n(iSuccess), Failure: n(iFailure), Better: pos(iBetter), Worse: pos(iWorse), Told: n(iTold), SumY: pos(iSumY),
		LogUp: math.Max(0, real64(a.emaxUp)), LogDown: math.Max(0, real64(a.emaxDown)), ProvenAt: a.provenAt,
		OutUp: math.Max(0, real64(a.outUp)), OutDown: math.Max(0, real64(a.outDown)), IdleAt: a.idleAt,
	}
	s.Spent, s.Refused = [2]Spending{a.spending(0), a.spending(1)}, [2]int64{n(iRefused), n(iRefused + 1)}
	s.Strata, s.Any = strata(a.strata), strata(a.any)
	for _, b := range a.buckets {
		v := b.v
		s.Days = append(s.Days, DayStats{
			Day: b.day, N: real64(v[iN]), Z: real64(v[iZ]), ZZ: real64(v[iZZ]),
			N1: real64(v[iN1]), N0: real64(v[iN0]), S1: real64(v[iS1]), S0: real64(v[iS0]),
		})
		if int64(b.day) > int64(day)-rateWindow {
			s.Recent += math.Max(0, real64(v[iN1]+v[iN0])) / rateWindow
		}
	}
	if k := len(a.buckets); k > 0 && day != math.MinInt32 {
		if span := float64(day) - float64(a.buckets[0].day) + 1; span > 0 && span < rateWindow {
			s.Recent *= rateWindow / span
		}
	}
	return s
}

func strata(of []stratum) (out []Stratum) {
	for _, x := range of {
		t := Stratum{Eps: real64(x.eps)}
		for arm := range 2 {
			t.Assigned[arm] = max(0, whole(x.assigned[arm]))
			for tier := range tiers {
				t.Told[arm][tier] = max(0, whole(x.told[arm][tier]))
				t.Heard[arm][tier] = max(0, whole(x.heard[arm][tier]))
			}
			t.Y[arm] = math.Max(0, real64(x.y[arm]))
		}
		out = append(out, t)
	}
	return out
}

// MeanAt is the posterior mean effect as it would be with only the sessions that started before a
// day: whether a lesson has been without promise for long is read off the buckets, so that nobody
// has to keep a diary.
func (c *Chooser) MeanAt(k Candidate, day int32) float64 {
	c.mu.RLock()
	defer c.mu.RUnlock()
	mu0 := c.prior(k, (*arm).counted)
	a := c.arms[k.Arm]
	if a == nil {
		return mu0
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	t := newClock(0, day, c.clock.halfLife)
	var s [6]float64
	for _, b := range a.buckets {
		if b.day >= day {
			break
		}
		for f := range s {
			s[f] += t.weight(b.day) * real64(b.v[f])
		}
	}
	return c.priors.update(evidence{s[iN1], s[iS1], s[iN0], s[iS0], s[iNU], s[iSU]}, mu0).m
}

// tightCaution is at how many sessions the failures of a lesson are told from chance best: fifteen
// that all fail where one in two would succeed make a caution.
const tightCaution = 100

// turnsCaution is the chance with which a lesson that does nothing may ever become a caution, or
// the opposite. It is small, because a caution begins a new arm: what was counted of the advice
// says nothing of it.
const turnsCaution = 0.002

// aloneCaution is how many sessions must have had a lesson before it is judged with no session to
// compare them with: where a fifth is withheld, one in a thousand lessons comes so far without any.
const aloneCaution = 30

// Published is what the sessions that had the lesson did above and below what the sessions that it
// matches do without it. Both are 0 while they differ by no more than chance makes them differ,
// however often one looks: a lesson that does nothing, looked at after every session, would soon
// stand among the cautions by a fixed number of standard errors, and there it would stay. A lesson
// is a caution when worse exceeds better. Raw counts of successes and failures would not do, nor
// what the kind of work lets expect: both measure how hard the sessions are in which the lesson
// fires, and good lessons fire in hard ones. Where nothing is ever withheld, what the kind of work
// lets expect is all there is.
func (c *Chooser) Published(k Arm) (better, worse float64) {
	a := c.scope(string(k), false)
	if k == "" || a == nil {
		return 0, 0
	}
	sigma2 := c.Priors().Sigma2
	a.mu.Lock()
	defer a.mu.Unlock()
	n, better, worse := real64(a.sum[iM1]), real64(a.sum[iBetter]), real64(a.sum[iWorse])
	if !(n > 0) {
		return 0, 0
	}
	looks, tight := n, float64(tightCaution)
	e := evidence{n0: real64(a.total[iN0]), s0: real64(a.total[iS0]), nu: real64(a.total[iNU]), su: real64(a.total[iSU])}.safe()
	switch without := e.n0 + e.nu; {
	case without > 0:
		mean := (e.s0 + e.su) / without
		better, worse = better-n*math.Max(0, mean), worse+n*math.Min(0, mean)
		looks, tight = n*without/(n+without), tight/5 // a difference of two means, the smaller of them of a fifth of the sessions
	case n < aloneCaution:
		return 0, 0
	}
	if Exclusion((worse-better)/n, looks, sigma2, tight) > turnsCaution {
		return 0, 0
	}
	return math.Max(0, better), math.Max(0, worse)
}

// Clone copies the counters, so that a provisional report can add sessions that are still open;
// what only the chooser knows is left out.
func (c *Chooser) Clone() *Chooser {
	out := New()
	c.mu.RLock()
	defer c.mu.RUnlock()
	out.clock, out.priors = c.clock, c.priors
	for k, a := range c.arms {
		out.arms[k] = a.clone()
		out.link(k)
	}
	for k, a := range c.cats {
		out.cats[k] = a.clone()
	}
	for scope, t := range c.trials {
		out.trials[scope] = t.clone()
	}
	out.global = c.global.clone()
	return out
}

func (t *planned) clone() *planned {
	t.mu.Lock()
	defer t.mu.Unlock()
	return &planned{list: slices.Clone(t.list), sorted: t.sorted}
}

func (a *arm) clone() *arm {
	a.mu.Lock()
	defer a.mu.Unlock()
	return &arm{
		buckets: append([]bucket(nil), a.buckets...), total: a.total, sum: a.sum, up: a.up, dn: a.dn,
		strata: append([]stratum(nil), a.strata...), any: append([]stratum(nil), a.any...), emaxUp: a.emaxUp, emaxDown: a.emaxDown,
		provenAt: a.provenAt, outUp: a.outUp, outDown: a.outDown, idleAt: a.idleAt,
	}
}
