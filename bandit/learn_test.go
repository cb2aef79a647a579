//go:build !race

package bandit_test

import (
	"testing"

	"precept/bandit"
)

// If helpful lessons match hard sessions, the raw success rate is misleading, so the objective uplift must gain more
// than the objective raw.
func TestUpliftObjectiveGainsMoreThanRaw(t *testing.T) {
	if testing.Short() {
		t.Skip("simulates 36,000 sessions")
	}
	gain := map[bandit.Objective]float64{}
	for _, o := range []bandit.Objective{bandit.Uplift, bandit.Raw, bandit.Random} {
		w := newWorld(12, true /* contrary */, "contrary")
		gain[o] = w.simulate(bandit.Config{K: 1, Epsilon: 0.2, Control: 0.05, Objective: o, Salt: "w"}, bandit.New(), 12_000)
	}
	t.Logf("gain per session: %v", gain)
	if gain[bandit.Uplift] < 0.02 {
		t.Errorf("uplift gain = %.4f per session, want at least 0.02", gain[bandit.Uplift])
	}
	if gain[bandit.Raw] > gain[bandit.Uplift]/2 {
		t.Errorf("gain per session: got %.4f with raw and %.4f with uplift, want at most half as much with raw", gain[bandit.Raw], gain[bandit.Uplift])
	}
}

func TestDiscountedEvidenceDropsHarmfulLesson(t *testing.T) {
	w := newWorld(3, false /* contrary */, "drift")
	w.lessons[0].effect, w.lessons[1].effect, w.lessons[2].effect = 0.15, 0, 0
	cfg, c := bandit.Config{K: 1, Epsilon: 0.2, Salt: "w"}, bandit.New()
	before := w.simulate(cfg, c, 6000)
	w.lessons[0].effect = -0.15
	fading, lasting := c.Clone(), c.Clone()
	fading.Advance(40, 7)
	lasting.Advance(0, 1000)
	with, without := w.simulateLater(cfg, fading, 3000), w.simulateLater(cfg, lasting, 3000)
	t.Logf("gain before the change %.3f; after it %.3f with fading evidence, %.3f without", before, with, without)
	if before < 0.02 || with <= without {
		t.Errorf("gain before the change = %v, want at least 0.02; after it = %v with fading evidence and %v without, want more with fading evidence", before, with, without)
	}
}
