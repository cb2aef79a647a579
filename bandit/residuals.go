package bandit

import (
	"cmp"
	"math"
	"slices"

	"precept/bandit/trial"
)

// Contribution returns all deltas (changes to counters) that a reward y adds: the trial's measurements and the
// residuals in the chooser's model. The deltas for one scope are consecutive.
func Contribution(a *trial.Assignment, y float64, tier int) []trial.Delta {
	d := trial.Deltas(a.Contribution(y, tier))
	if d == nil {
		return nil
	}
	addResiduals(&d, a, clip(y, 0, 1))
	slices.SortStableFunc(d, func(x, y trial.Delta) int { return cmp.Compare(x.Key.Scope, y.Key.Scope) })
	return d
}

// addResiduals adds three kinds of residuals. They are relative to the whole prediction, to the prediction without the
// category's baseline, and, for each matched or picked lesson, to the prediction without that lesson.
func addResiduals(d *trial.Deltas, a *trial.Assignment, y float64) {
	matchEffects, injectedEffects := expectedEffects(a)
	if y > 0 && y < 1 {
		d.Add("", fGraded, 0, 1)
	}
	if a.Decided {
		res := y - a.Base - matchEffects - injectedEffects
		d.Add("", fSquares, 0, res*res)
	}
	if a.Category != "" {
		d.Add(cellScope(a), fCategoryCount, 0, 1)
		d.Add(cellScope(a), fCategorySum, 0, y-matchEffects-injectedEffects)
	}
	for _, m := range a.Matched { // a match without a pick measures the match effect
		if !slices.ContainsFunc(a.Picks, func(p trial.Pick) bool { return p.Arm == m.Arm }) {
			d.Add(string(m.Arm), fSumUnpicked, a.Day, y-a.Base-(matchEffects-m.MatchEffect)-injectedEffects)
		}
	}
	for i := range a.Picks {
		p, field := &a.Picks[i], fSumWithheld
		if p.Arm.IsRule() {
			continue
		}
		if p.Injected {
			field = fSumInjected
		}
		d.Add(string(p.Arm), field, a.Day, y-p.Offset)
	}
}

// expectedEffects returns the sums of the effects that the assignment recorded.
func expectedEffects(a *trial.Assignment) (matchEffects, injectedEffects float64) {
	for i := range a.Matched {
		matchEffects += a.Matched[i].MatchEffect
	}
	for i := range a.Picks {
		if _, ok := a.Match(a.Picks[i].Arm); ok && a.Picks[i].Injected {
			injectedEffects += a.Picks[i].MeanEffect
		}
	}
	return matchEffects, injectedEffects
}

func clip(x, lo, hi float64) float64 { return math.Max(lo, math.Min(hi, x)) }
