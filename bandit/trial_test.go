package bandit_test

import (
	"fmt"
	"testing"

	"precept/bandit"
	"precept/bandit/trial"
)

// During the trial, the lesson is withheld in half of the sessions. The trial ends as soon as the half-width of the
// interval is at most Until.
func TestTrialEndsAtIntervalWidth(t *testing.T) {
	c := bandit.New()
	cfg := bandit.Config{K: 1, Epsilon: 0.2, Salt: "trial"}
	lessonA := lesson("a")
	lessonA.Epsilon, lessonA.Until = 0.5, 0.1
	r := seededRand("trial")
	picks, ended := 0, 0
	for i := range 4000 {
		a := trial.Assignment{Category: "x"}
		for _, p := range bandit.Decide(cfg, c, &a, fmt.Sprint("s", i), []bandit.Action{lessonA}, 1) {
			picks++
			if p.Eps != 0.5 && ended == 0 {
				ended = picks
			}
			if p.Eps == 0.5 && ended > 0 && !c.Posterior(lessonA).Benched { // a benched lesson also has epsilon 0.5
				t.Fatalf("after the trial: pick = %+v, want an epsilon other than 0.5", p)
			}
			if ended > 0 && !c.Posterior(lessonA).TrialEnded {
				t.Fatal("after the trial: TrialEnded = false, want true")
			}
		}
		y := 0.0
		if r.Float64() < 0.5 {
			y = 1
		}
		c.Add(bandit.Contribution(&a, y, 1))
	}
	// The variance is 0.25 * (1/.5 + 1/.5) = 1, so a half-width of 0.1 needs about 950 picks.
	if ended < 700 || ended > 1200 {
		t.Errorf("trial ended after %d picks (%d in total), want 700 to 1200", ended, picks)
	}
	lessonA.Until = 0
	if p := c.Posterior(lessonA); p.TrialEnded || cfg.NextEpsilon(lessonA, p) != 0.5 {
		t.Errorf("trial without a width: TrialEnded = %v, next epsilon = %v, want false, 0.5", p.TrialEnded, cfg.NextEpsilon(lessonA, p))
	}
}
