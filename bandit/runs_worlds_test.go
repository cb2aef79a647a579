//go:build !race

package bandit_test

import (
	"math"
	"testing"
)

// In a spilling world the lesson of one agent helps all agents of its run. With a coin for each session, the measured
// effect is then near 0. With one coin for a run and each session as an observation, the intervals are too narrow. With
// a run as the unit of both, the effect and the intervals are right, and the variance grows by the design effect.
// docs/EXPERIMENT.md describes these results.
func TestRunsAsUnitsMeasureWithoutBias(t *testing.T) {
	const plays = 100
	spilling := crewWorld{runs: 250, agents: 4, share: 0.3, effect: 0.1, spills: true}
	if mean, _, _ := spilling.spread(plays, false, false); mean > 0.025 {
		t.Errorf("coins by session, an effect of 10 points that spills over: got measured effect %+.1f, want at most 2.5", 100*mean)
	} else {
		t.Logf("coins by session, an effect of 10 points that spills over: measured %+.1f", 100*mean)
	}
	if mean, _, _ := spilling.spread(plays, true, true); math.Abs(mean-0.1) > 0.01 {
		t.Errorf("coins by run, an effect of 10 points: got measured effect %+.1f, want 9 to 11", 100*mean)
	} else {
		t.Logf("coins by run, an effect of 10 points: measured %+.1f", 100*mean)
	}
	for _, share := range []float64{0, 0.3, 0.7} {
		nothing := crewWorld{runs: 250, agents: 4, share: share}
		_, apart, _ := crewWorld{runs: 1000, agents: 1, share: share}.spread(plays, true, true)
		_, sd, right := nothing.spread(plays, true, true)
		_, _, wrong := nothing.spread(plays, true, false)
		deff := sd * sd / (apart * apart)
		t.Logf("share %.1f: design effect %.2f (1 + 3 x share = %.1f); outside of 95%%: as runs %.1f%%, one by one %.1f%%", share, deff, 1+3*share, 100*right, 100*wrong)
		if want := 1 + 3*share; deff < 0.65*want || deff > 1.5*want {
			t.Errorf("share %.1f: got design effect %.2f, want %.2f to %.2f", share, deff, 0.65*want, 1.5*want)
		}
		if right > 0.1 {
			t.Errorf("share %.1f, runs as units: got %.0f%% of the 95%% intervals without the true effect, want at most 10%%", share, 100*right)
		}
		if share >= 0.7 && wrong < 0.15 {
			t.Errorf("share %.1f, sessions as units: got %.0f%% of the 95%% intervals without the true effect, want at least 15%%", share, 100*wrong)
		}
	}
}
