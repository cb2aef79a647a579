//go:build !race

package bandit_test

import (
	"math"
	"testing"
)

// docs/EXPERIMENT.md on runs: sessions of a run with separate coins have no measurable effect if
// the knowledge of one agent helps the others. Sessions with a common coin that count one by one
// give intervals that are too narrow. A run as one unit has neither fault, and costs the design
// effect.
func TestRunsAsUnitsMeasureWithoutBias(t *testing.T) {
	const plays = 100
	spilling := crewWorld{runs: 250, agents: 4, share: 0.3, effect: 0.1, spills: true}
	if mean, _, _ := spilling.spread(plays, false, false); mean > 0.025 {
		t.Errorf("with coins by session, an effect of 10 points that spills over is measured as %+.1f, want at most 2.5", 100*mean)
	} else {
		t.Logf("10 points that spill over: coins by session read %+.1f", 100*mean)
	}
	if mean, _, _ := spilling.spread(plays, true, true); math.Abs(mean-0.1) > 0.01 {
		t.Errorf("with coins by run, an effect of 10 points is measured as %+.1f, want 10", 100*mean)
	} else {
		t.Logf("coins by run read %+.1f", 100*mean)
	}
	for _, share := range []float64{0, 0.3, 0.7} {
		nothing := crewWorld{runs: 250, agents: 4, share: share}
		_, apart, _ := crewWorld{runs: 1000, agents: 1, share: share}.spread(plays, true, true)
		_, sd, right := nothing.spread(plays, true, true)
		_, _, wrong := nothing.spread(plays, true, false)
		deff := sd * sd / (apart * apart)
		t.Logf("share %.1f: design effect %.2f (1 + 3 x share = %.1f); outside of 95%%: as runs %.1f%%, one by one %.1f%%", share, deff, 1+3*share, 100*right, 100*wrong)
		if want := 1 + 3*share; deff < 0.65*want || deff > 1.5*want {
			t.Errorf("share %.1f: design effect %.2f, want about %.1f", share, deff, want)
		}
		if right > 0.1 {
			t.Errorf("share %.1f: with units of runs %.0f%% of the effects are outside of a 95%% interval, want at most 10%%", share, 100*right)
		}
		if share >= 0.7 && wrong < 0.15 {
			t.Errorf("share %.1f: with units of sessions %.0f%% of the effects are outside, want at least 15%%", share, 100*wrong)
		}
	}
}
