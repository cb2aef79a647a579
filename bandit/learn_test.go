package bandit_test

import (
	"testing"

	"precept/bandit"
)

// If good lessons match hard sessions, the raw success rate is misleading: the raw objective must
// lose here and uplift must win, or the chooser ignores the holdout.
func TestUpliftLearnsWhereRawFails(t *testing.T) {
	if testing.Short() {
		t.Skip("plays 40,000 sessions")
	}
	gain := map[bandit.Objective]float64{}
	for _, o := range []bandit.Objective{bandit.Uplift, bandit.Raw, bandit.Random} {
		w := newWorld(12, true, "contrary")
		gain[o] = w.play(bandit.Config{K: 1, Epsilon: 0.2, Control: 0.05, Objective: o, Salt: "w"}, bandit.New(), 12_000)
	}
	t.Logf("gain per session: %v", gain)
	if gain[bandit.Uplift] < 0.02 {
		t.Errorf("uplift gains %.4f of reward per session, want at least 0.02", gain[bandit.Uplift])
	}
	if gain[bandit.Raw] > gain[bandit.Uplift]/2 {
		t.Errorf("raw gains %.4f and uplift %.4f, want raw at most half of uplift", gain[bandit.Raw], gain[bandit.Uplift])
	}
}

// After a lesson turns harmful, a chooser with fading evidence gains more than one without.
func TestChooserDropsALessonThatTurnsHarmful(t *testing.T) {
	w := newWorld(3, false, "drift")
	w.lessons[0].effect, w.lessons[1].effect, w.lessons[2].effect = 0.15, 0, 0
	cfg, c := bandit.Config{K: 1, Epsilon: 0.2, Salt: "w"}, bandit.New()
	before := w.play(cfg, c, 6000)
	w.lessons[0].effect = -0.15
	fading, lasting := c.Clone(), c.Clone()
	fading.Advance(40, 7)
	lasting.Advance(0, 1000)
	with, without := w.later(cfg, fading, 3000), w.later(cfg, lasting, 3000)
	t.Logf("before %.3f, after the turn: %.3f with fading evidence, %.3f without", before, with, without)
	if before < 0.02 || with <= without {
		t.Errorf("the gain is %v before the lesson turns harmful, then %v with fading evidence and %v without, want at least 0.02, then more with than without", before, with, without)
	}
}
