//go:build !race

package bandit_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"precept/bandit"
	"precept/bandit/trial"
)

// newMeasuredChooser returns a chooser with n rewarded picks of lesson a, which is withheld with probability eps.
func newMeasuredChooser(n int, effect, eps float64) *bandit.Chooser {
	c, r := bandit.New(), rand.New(rand.NewPCG(1, 2)) //nolint:gosec // the tests need repeatable numbers
	for i := range n {
		injected, p := r.Float64() >= eps, 0.5
		if injected {
			p += effect
		}
		y := 0.0
		if r.Float64() < p {
			y = 1
		}
		a := trial.Assignment{Decided: true, Category: "x", Base: 0.5, Day: 1, Matched: []trial.Match{{Arm: "a@1"}}, Picks: []trial.Pick{{
			Slug: "a", Arm: "a@1", Eps: eps, Injected: injected, Offset: 0.5, Centre: 0.5,
		}}}
		c.Add(a.ClosingDeltas())
		c.Add(bandit.Contribution(&a, y, i%2+1))
	}
	return c
}

// The holdout rule "prove" withholds a lesson in 20% of the sessions until the measurement is concluded, and in 5%
// afterwards. A proof of harm does not conclude the measurement.
func TestHoldoutProveEndsAtConclusion(t *testing.T) {
	now := time.Unix(86_400, 0)
	for _, tc := range []struct {
		name   string
		picks  int
		effect float64
		eps    float64
		want   bool
	}{
		{name: "helps", picks: 2000, effect: 0.2, eps: 0.2, want: true},
		{name: "harms", picks: 2000, effect: -0.2, eps: 0.2},
		{name: "helps, not yet proven", picks: 200, effect: 0.1, eps: 0.2},
		{name: "too few picks", picks: 40, effect: 0.5, eps: 0.5},
		{name: "no effect, narrow interval", picks: 30_000, eps: 0.5, want: true},
		{name: "no effect, wide interval", picks: 3000, eps: 0.5},
	} {
		c := newMeasuredChooser(tc.picks, tc.effect, tc.eps)
		c.RaiseMaxima(now)
		cfg := bandit.Config{Epsilon: 0.2}
		got := c.Posterior(lesson("a"))
		if eps := cfg.NextEpsilon(bandit.Action{}, bandit.Posterior{Concluded: got.Concluded}); got.Concluded != tc.want || (eps == 0.05) != tc.want {
			t.Errorf("%s: Concluded = %v, next epsilon = %v, want Concluded = %v, and epsilon 0.05 only if concluded", tc.name, got.Concluded, eps, tc.want)
		}
		// Another replica computes the maxima again from the sums, whereas a clone copies them. Both must come to the
		// same conclusion.
		if again := newMeasuredChooser(tc.picks, tc.effect, tc.eps); len(again.RaiseMaxima(now)) > 0 && again.Posterior(lesson("a")).Concluded != tc.want {
			t.Errorf("%s, replica: Concluded = %v, want %v", tc.name, !tc.want, tc.want)
		}
		if c.Clone().Posterior(lesson("a")).Concluded != tc.want {
			t.Errorf("%s, clone: Concluded = %v, want %v", tc.name, !tc.want, tc.want)
		}
	}
}
