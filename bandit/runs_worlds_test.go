//go:build !race

package bandit_test

import (
	"math"
	"testing"
)

// If a lesson that one agent gets helps all agents in the run, randomization by session measures an effect near 0, and
// randomization by run measures the true effect. With randomization by run, each run must be one observation, because
// intervals with each session as an observation are too narrow. docs/EXPERIMENT.md describes these results.
func TestRandomizationByRunIsUnbiased(t *testing.T) {
	const simulations = 100
	spilling := runWorld{runs: 250, agents: 4, share: 0.3, effect: 0.1, spills: true}
	if mean, _, _ := spilling.summarizeEstimates(simulations, false /* coinsByRun */, false /* countedByRun */); mean > 0.025 {
		t.Errorf("randomization by session, spillover, true effect 10 points: measured %+.1f, want at most 2.5", 100*mean)
	} else {
		t.Logf("randomization by session, spillover, true effect 10 points: measured %+.1f", 100*mean)
	}
	if mean, _, _ := spilling.summarizeEstimates(simulations, true, true); math.Abs(mean-0.1) > 0.01 {
		t.Errorf("randomization by run, true effect 10 points: measured %+.1f, want 9 to 11", 100*mean)
	} else {
		t.Logf("randomization by run, true effect 10 points: measured %+.1f", 100*mean)
	}
	for _, share := range []float64{0, 0.3, 0.7} {
		noEffect := runWorld{runs: 250, agents: 4, share: share}
		_, sdSingle, _ := runWorld{runs: 1000, agents: 1, share: share}.summarizeEstimates(simulations, true, true)
		_, sd, byRun := noEffect.summarizeEstimates(simulations, true, true)
		_, _, bySession := noEffect.summarizeEstimates(simulations, true /* coinsByRun */, false /* countedByRun */)
		designEffect := sd * sd / (sdSingle * sdSingle)
		t.Logf("share %.1f: design effect %.2f (1 + 3 x share = %.1f); 95%% intervals without the true effect: by run %.1f%%, by session %.1f%%", share, designEffect, 1+3*share, 100*byRun, 100*bySession)
		if want := 1 + 3*share; designEffect < 0.65*want || designEffect > 1.5*want {
			t.Errorf("share %.1f: design effect = %.2f, want %.2f to %.2f", share, designEffect, 0.65*want, 1.5*want)
		}
		if byRun > 0.1 {
			t.Errorf("share %.1f, observations by run: 95%% intervals without the true effect = %.0f%%, want at most 10%%", share, 100*byRun)
		}
		if share >= 0.7 && bySession < 0.15 {
			t.Errorf("share %.1f, observations by session: 95%% intervals without the true effect = %.0f%%, want at least 15%%", share, 100*bySession)
		}
	}
}
