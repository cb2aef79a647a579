package bandit

import (
	"cmp"
	"math"
	"slices"

	"precept/bandit/trial"
)

// Contribution is all that a reward y of the given tier adds to the counters: what the trial
// measures (Assignment.Contribution), and the residuals of the chooser's model. It is pure, as its
// parts are. The deltas of one scope stand together.
func Contribution(a *trial.Assignment, y float64, tier int) []trial.Delta {
	d := trial.Deltas(a.Contribution(y, tier))
	if d == nil {
		return nil
	}
	residuals(&d, a, clip(y, 0, 1))
	slices.SortStableFunc(d, func(x, y trial.Delta) int { return cmp.Compare(x.Scope, y.Scope) })
	return d
}

// residuals adds what the reward was more than the session's frozen record let expect: in all, for
// the baseline of its category, and for each lesson that matched.
func residuals(d *trial.Deltas, a *trial.Assignment, y float64) {
	del, inj := expected(a)
	if y > 0 && y < 1 {
		d.Add("", fGraded, 0, 1)
	}
	if a.Decided {
		res := y - a.Base - del - inj
		d.Add("", fRes2, 0, res*res)
	}
	if a.Category != "" {
		d.Add(categoryScope(a.Category), fCN, 0, 1)
		d.Add(categoryScope(a.Category), fCS, 0, y-del-inj)
	}
	for _, m := range a.Matched { // one that was not picked tells what the match says of a session
		if !slices.ContainsFunc(a.Picks, func(p trial.Pick) bool { return p.Arm == m.Arm }) {
			d.Add(string(m.Arm), fSU, a.Day, y-a.Base-(del-m.Del)-inj)
		}
	}
	for i := range a.Picks {
		p, field := &a.Picks[i], fS0
		if p.Injected {
			field = fS1
		}
		d.Add(string(p.Arm), field, a.Day, y-p.Off)
	}
}

// expected sums what the session's frozen record says of it: the match effects, and the effects of
// what was injected.
func expected(a *trial.Assignment) (del, inj float64) {
	for i := range a.Matched {
		del += a.Matched[i].Del
	}
	for i := range a.Picks {
		if _, ok := a.Match(a.Picks[i].Arm); ok && a.Picks[i].Injected {
			inj += a.Picks[i].M
		}
	}
	return del, inj
}

func clip(x, lo, hi float64) float64 { return math.Max(lo, math.Min(hi, x)) }
