package trial_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"precept/bandit/trial"
)

// closedPick returns a closed session with one pick and the given number of errors after the pick. The surrogate
// predicts the reward from outcomes (here only from errors), and weight is the surrogate's weight in the estimate.
func closedPick(injected bool, errors int64, weight float64) *trial.Assignment {
	w := trial.Measurement{Outcomes: trial.NewOutcomeSet(trial.Errors), Weight: weight}
	w.Centres[trial.Errors] = 0.2
	a := &trial.Assignment{Decided: true, Day: 20_000, Picks: []trial.Pick{{Slug: "in", Arm: "in@1", Eps: 0.5, Injected: injected, Centre: 0.5, Measurement: w}}}
	a.Observe(trial.Totals{Errors: errors})
	return a
}

// A reward that arrives after the session has closed (a late reward) also makes the session a rewarded session.
func TestLateRewardCountsAsRewarded(t *testing.T) {
	c := trial.NewCounters()
	a := closedPick(injected, 3, 0.5)
	c.Add(a.ClosingDeltas())
	before := c.Surrogate("in@1")
	if before.N1 != 1 || before.M1 != 0 {
		t.Errorf("sums after close = %+v, want N1 = 1 and M1 = 0", before)
	}
	c.Add(a.Contribution(1, 2))
	if s := c.Surrogate("in@1"); s.M1 != 1 || math.Abs(s.G+0.1) > 1e-6 || math.Abs(s.D-1.1) > 1e-6 {
		t.Errorf("sums after the late reward = %+v, want M1 = 1, G = -0.1 and D = 1.1", s)
	}
	if s := c.Stats("in@1"); s.Strata[0].Late != [2]int64{0, 1} || s.Rewards.M1 != 1 {
		t.Errorf("after the late reward: strata = %+v and M1 = %v, want one late injected reward and M1 = 1", s.Strata, s.Rewards.M1)
	}
	c.Add(trial.Negate(a.Contribution(1, 2)))
	if s := c.Surrogate("in@1"); s != before {
		t.Errorf("sums after subtracting the late reward = %+v, want the original sums %+v", s, before)
	}
	a.RewardAtClose = &trial.RewardAtClose{Y: 0, Tier: 2}
	c.Add(a.Contribution(0, 2))
	if s := c.Stats("in@1"); s.Strata[0].Late != [2]int64{} {
		t.Errorf("reward at close: strata = %+v, want no late reward", s.Strata)
	}
}

// The weight of the surrogate is estimated from rewarded picks. With fewer than 100 of them, the weight is 0.
func TestSurrogateWeightIsEstimatedFromRewardedPicks(t *testing.T) {
	for name, tc := range map[string]struct {
		picks  int
		reward func(errors int64) float64
		lo, hi float64
	}{
		"99 picks":              {picks: 99, reward: func(e int64) float64 { return 1 - float64(e)/10 }},
		"error costs 5 points":  {picks: 400, reward: func(e int64) float64 { return 1 - float64(e)/20 }, lo: 0.4, hi: 0.6},
		"error costs 50 points": {picks: 400, reward: func(e int64) float64 { return max(0, 1-float64(e)/2) }, lo: 0.9, hi: 1},
		"error adds 10 points":  {picks: 400, reward: func(e int64) float64 { return float64(e) / 10 }},
	} {
		r := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // the tests need repeatable numbers
		c := trial.NewCounters()
		for range tc.picks {
			errors := r.Int64N(9)
			a := closedPick(r.IntN(2) == 1, errors, 0)
			a.Picks[0].Centre, a.Picks[0].Measurement.Centres[trial.Errors] = tc.reward(4), 0.4
			c.Add(a.ClosingDeltas())
			c.Add(a.Contribution(tc.reward(errors), 1))
		}
		if w := c.NewMeasurement("other@1", 0.2, trial.NewOutcomeSet(trial.Errors), trial.Totals{}); w.Weight < tc.lo || w.Weight > tc.hi {
			t.Errorf("%s: weight = %g, want %g to %g", name, w.Weight, tc.lo, tc.hi)
		}
	}
}

func TestEstimateFromAllSessionsMatchesFormula(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4)) //nolint:gosec // the tests need repeatable numbers
	c := trial.NewCounters()
	type term struct{ d, g, rewarded float64 }
	var all []term
	var n, m, sumD, sumG float64
	for range 400 {
		a := closedPick(r.IntN(2) == 1, r.Int64N(9), 0.7)
		zs, _ := trial.Z(0.2-a.Picks[0].Measurement.Centres[trial.Errors]-(float64(a.Picks[0].Measurement.After[trial.Errors])/10-0.2), a.Picks[0].Injected, 0.5)
		x := term{g: 0.7 * zs}
		c.Add(a.ClosingDeltas())
		if r.IntN(4) == 0 {
			y := float64(r.IntN(2))
			zy, _ := trial.Z(y-0.5, a.Picks[0].Injected, 0.5)
			x.d, x.rewarded = zy-x.g, 1
			c.Add(a.Contribution(y, 1))
		}
		n, m, sumD, sumG, all = n+1, m+x.rewarded, sumD+x.d, sumG+x.g, append(all, x)
	}
	share, var2 := m/n, 0.0
	for _, x := range all {
		influence := x.rewarded*(x.d-sumD/m)/share + x.g - sumG/n
		var2 += influence * influence / n
	}
	s := c.Surrogate("in@1")
	effect, variance := s.Effect()
	if math.Abs(effect-(sumD/m+sumG/n)) > 1e-4 || math.Abs(variance-var2*share) > 1e-4 {
		t.Errorf("effect and variance: got %.5f and %.5f, want %.5f and %.5f", effect, variance, sumD/m+sumG/n, var2*share)
	}
}

// A session that was closed by an earlier release lacks the sums that are new in the current release.
func TestEarlierReleaseSessionHasNoNewSums(t *testing.T) {
	c := trial.NewCounters()
	a := closedPick(injected, 3, 0.5)
	a.Graded = false
	c.Add(a.Contribution(0.3, 2))
	if s := c.Stats("in@1"); s.Strata[0].GradedN != [2]float64{} || s.Strata[0].Late != [2]int64{} || s.Rewards.M1 != 1 {
		t.Errorf("strata = %+v and M1 = %v, want no graded reward, no late reward, and M1 = 1", s.Strata, s.Rewards.M1)
	}
	if s := c.Surrogate("in@1"); s != (trial.SurrogateStats{}) {
		t.Errorf("Surrogate = %+v, want zeros", s)
	}
}
