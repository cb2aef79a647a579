package trial

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// A planned trial is evaluated once, after a number of rewarded picks that is set before the start. Each session that
// has a reward when it closes adds one entry. The evaluation uses the entries with the earliest session starts, so the
// result is identical on every replica and can be recomputed from an export.
//
// Feedback that arrives after a session has closed does not change the evaluation.

// Epsilon is the default share of picks withheld in a trial. An even split needs the fewest picks.
const Epsilon = 0.50

// plannedPrefix is the prefix of a planned trial's scope. No arm or category has this prefix.
const plannedPrefix = "t:"

// PlannedScope returns the scope for a trial's entries.
func PlannedScope(k Arm, name string) string { return plannedPrefix + string(k) + "#" + name }

// PlannedName returns a planned trial's name: the start, the number of picks, and the outcome if any. If picks is 0,
// the name is empty.
func PlannedName(started time.Time, picks int64, outcome string) string {
	if picks <= 0 {
		return ""
	}
	name := strconv.FormatInt(max(started.Unix(), 0), 10) + "." + strconv.FormatInt(picks, 10)
	if outcome != "" {
		name += "." + outcome
	}
	return name
}

// PlannedPicks returns the number of picks in a trial name; 0 for an invalid name.
func PlannedPicks(name string) int64 { return NewEvaluation("", name).Planned }

// entry is one pick in a planned trial: a rewarded pick or, in a trial on an outcome, a closed pick.
type entry struct {
	at         int64  // session start, in seconds since 1970
	tieBreaker string // first digits of the session id, to order sessions within a second
	z          int64  // in millionths
	injected   bool
}

type plannedTrial struct {
	mu       sync.Mutex
	entries  []entry
	isSorted bool
}

// tieBreakerDigits is enough digits to order the sessions that start within a second, but too few to identify a
// session.
const tieBreakerDigits = 8

// TrialEntries returns the deltas that a session adds to its picks' planned trials when it closes. Without a reward, y
// is NaN, and only trials on an outcome get a delta. A delta encodes z and whether the pick was injected. It is never
// 0.
func (a *Assignment) TrialEntries(session string, y float64) []Delta {
	if a.Excluded {
		return nil
	}
	var d []Delta
	for i := range a.Picks {
		p := &a.Picks[i]
		if p.Trial == "" {
			continue
		}
		z, ok := p.trialZ(y)
		if !ok {
			continue
		}
		v := 4*Fixed(z) + 2
		if p.Injected {
			v++
		}
		field := fmt.Sprintf("%d.%s", a.StartUnix, session[:min(len(session), tieBreakerDigits)])
		d = append(d, Delta{Key{Scope: PlannedScope(p.Arm, p.Trial), Field: field, Day: a.Day}, v})
	}
	return d
}

// trialZ returns z in the planned trial; ok is false if the pick was not randomised, or has no reward or outcome.
func (p *Pick) trialZ(y float64) (z float64, ok bool) {
	o, hasOutcome := NewEvaluation(p.Arm, p.Trial).TestedOutcome()
	if !hasOutcome {
		if math.IsNaN(y) {
			return 0, false
		}
		return Z(clip(y, 0, 1)-p.Centre, p.Injected, p.Eps)
	}
	if y, ok = p.Measurement.Value(o); !ok {
		return 0, false
	}
	return Z(y-p.Measurement.Centres[o], p.Injected, p.Eps)
}

func readEntry(d *Delta) (e entry, ok bool) {
	began, tie, ok := strings.Cut(d.Key.Field, ".")
	at, err := strconv.ParseInt(began, 10, 64)
	return entry{at, tie, (d.Value - 2 - d.Value&1) / 4, d.Value&1 == 1}, ok && err == nil && d.Value != 0
}

func (t *plannedTrial) count() int64 {
	if t == nil {
		return 0
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return int64(len(t.entries))
}

func (t *plannedTrial) clone() *plannedTrial {
	t.mu.Lock()
	defer t.mu.Unlock()
	return &plannedTrial{entries: slices.Clone(t.entries), isSorted: t.isSorted}
}

// Evaluation is a planned trial's evaluation: the plan, the progress, and the sums over the planned number of entries.
// With fewer entries, the sums support no conclusion.
type Evaluation struct {
	Arm       Arm
	Trial     string // name
	Began     int64  // seconds since 1970
	Planned   int64
	Outcome   string  // empty: a trial on the reward
	Entries   int64   // entries so far
	Evaluated bool    // the evaluation is final, because there are as many entries as planned
	LastStart int64   // start of the last session in the sums
	Z, ZZ     float64 // sums of z and of z squared
	Injected  int64
	Withheld  int64
}

// NewEvaluation returns an evaluation without entries, with the plan from the trial's name.
func NewEvaluation(k Arm, name string) Evaluation {
	out := Evaluation{Arm: k, Trial: name}
	began, picks, _ := strings.Cut(name, ".")
	picks, outcome, hasOutcome := strings.Cut(picks, ".")
	if _, known := ParseOutcome(outcome); known {
		out.Outcome = outcome
	} else if hasOutcome {
		picks = ""
	}
	if n, err := strconv.ParseInt(began, 10, 64); err == nil {
		out.Began = n
	}
	if n, err := strconv.ParseInt(picks, 10, 64); err == nil {
		out.Planned = max(n, 0)
	}
	return out
}

// TestedOutcome returns the outcome under test, if the trial is on an outcome.
func (e Evaluation) TestedOutcome() (o Outcome, ok bool) { return ParseOutcome(e.Outcome) }

func (t *plannedTrial) evaluate(k Arm, name string) Evaluation {
	out := NewEvaluation(k, name)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sort()
	out.Entries = int64(len(t.entries))
	out.Evaluated = out.Planned > 0 && out.Entries >= out.Planned
	for _, e := range t.entries[:min(out.Entries, out.Planned)] {
		z := fromFixed(e.z)
		out.Z += z
		out.ZZ += z * z
		out.LastStart = e.at
		if e.injected {
			out.Injected++
		} else {
			out.Withheld++
		}
	}
	return out
}

// The caller holds mu.
func (t *plannedTrial) sort() {
	if !t.isSorted {
		slices.SortFunc(t.entries, func(x, y entry) int { return cmp.Or(cmp.Compare(x.at, y.at), cmp.Compare(x.tieBreaker, y.tieBreaker)) })
		t.isSorted = true
	}
}

// PicksFor returns how many rewarded picks the two-sided test at the given level needs to find the effect with the
// given power: (z(1-level/2) + z(power))^2 V / effect^2, where V = variance VarianceFactor(epsilon), and z(p) is the
// normal quantile (Lachin, Introduction to sample size determination and power analysis for clinical trials, 1981).
func PicksFor(effect, power, level, epsilon, variance float64) int64 {
	if !(effect > 0 && power > 0 && power < 1 && level > 0 && level < 1 && epsilon > 0 && epsilon < 1 && variance > 0) {
		return 0
	}
	k := (NormalQuantile(1-level/2) + NormalQuantile(power)) / effect
	return int64(math.Ceil(math.Min(k*k*variance*VarianceFactor(epsilon), 1e12)))
}

// MinTrialPicks returns the minimum number of picks in a planned trial. With fewer picks in total or in one arm, the
// interval would be invalid.
func MinTrialPicks(epsilon float64) int64 {
	const minPerArm = 20
	rareShare := 0.5
	if epsilon > 0 && epsilon < 1 {
		rareShare = math.Min(epsilon, 1-epsilon)
	}
	return max(MinPicks, int64(math.Ceil(minPerArm/rareShare)))
}

// DetectableEffect returns the smallest effect that the picks detect: the inverse of PicksFor.
func DetectableEffect(picks int64, power, level, epsilon, variance float64) float64 {
	return (NormalQuantile(1-level/2) + NormalQuantile(power)) * math.Sqrt(variance*VarianceFactor(epsilon)/float64(max(picks, 1)))
}

// PlannedHalfWidth returns the half-width of a planned trial's 95% interval.
func PlannedHalfWidth(n, variance float64) float64 {
	return NormalQuantile(1-Alpha/2) * math.Sqrt(variance/n)
}

// PlannedP returns a planned trial's two-sided p-value.
func PlannedP(effect, n, variance float64) float64 {
	return math.Erfc(math.Abs(effect) * math.Sqrt(n/(2*variance)))
}
