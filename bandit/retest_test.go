package bandit_test

import (
	"fmt"
	"testing"
	"time"

	"precept/bandit"
	"precept/bandit/trial"
)

// addRewardedPicks adds picks from sessions on a model, half of them withheld. Except for every tenth pick, the session
// succeeds if the lesson is injected and fails if it is withheld.
func addRewardedPicks(c *bandit.Chooser, model string, picks int) {
	for i := range picks {
		y := float64(i % 2)
		if i%10 == 0 {
			y = 1 - y
		}
		a := &trial.Assignment{
			Decided: true, Category: "x", Model: c.TrialCounters().CountedModelName(model), Base: 0.5,
			Picks: []trial.Pick{{Slug: "a", Arm: "a@1", Eps: 0.5, Injected: i%2 == 1, Offset: 0.5, Centre: 0.5}},
		}
		c.Add(a.ClosingDeltas())
		c.Add(bandit.Contribution(a, y, 1))
		c.RaiseMaxima(time.Unix(20_000*86_400, 0))
	}
}

func epsilonFor(t *testing.T, cfg *bandit.Config, c *bandit.Chooser, model string) float64 {
	t.Helper()
	for i := range 50 {
		a := &trial.Assignment{Category: "x", Model: model}
		if picks := bandit.Decide(*cfg, c, a, fmt.Sprint(model, i), []bandit.Action{{Slug: "a", Arm: "a@1", Confidence: 0.5}}, 1); len(picks) == 1 {
			return picks[0].Eps
		}
	}
	t.Fatal("picks of the lesson in 50 sessions: got none, want at least one")
	return 0
}

// Lesson a is proven on model-a. With bandit.retest, the full share of picks is withheld in sessions on a new model,
// until there is evidence from this model.
func TestRetestRestoresHoldoutOnNewModel(t *testing.T) {
	for _, holdout := range []bandit.Holdout{bandit.Prove, bandit.Earn} {
		c := bandit.New()
		cfg := &bandit.Config{K: 3, Epsilon: 0.2, Holdout: holdout, Retest: true}
		addRewardedPicks(c, "model-a", 400)
		if a, b := epsilonFor(t, cfg, c, "model-a"), epsilonFor(t, cfg, c, "model-b"); a != 0.05 || b != 0.2 {
			t.Errorf("%s: epsilon = %g on the seen model and %g on the new model, want 0.05 and 0.2", holdout, a, b)
		}
		if unnamed := epsilonFor(t, cfg, c, ""); unnamed != 0.05 {
			t.Errorf("%s: epsilon without a model = %g, want 0.05", holdout, unnamed)
		}
		cfg.Retest = false
		if b := epsilonFor(t, cfg, c, "model-b"); b != 0.05 {
			t.Errorf("%s: epsilon on the new model without bandit.retest = %g, want 0.05", holdout, b)
		}
		cfg.Retest = true
		addRewardedPicks(c, "model-b", 60)
		if b, d := epsilonFor(t, cfg, c, "model-b"), epsilonFor(t, cfg, c, "model-d"); b != 0.05 || d != 0.2 {
			t.Errorf("%s: epsilon = %g on model-b with its own evidence and %g on the next model, want 0.05 and 0.2", holdout, b, d)
		}
	}
}

// Counters from an earlier release contain no models. A lesson that they prove keeps the small holdout.
func TestEvidenceWithoutModelsKeepsSmallHoldout(t *testing.T) {
	c := bandit.New()
	cfg := &bandit.Config{K: 3, Epsilon: 0.2, Retest: true}
	addRewardedPicks(c, "", 400)
	if b := epsilonFor(t, cfg, c, "model-b"); b != 0.05 {
		t.Errorf("epsilon = %g, want 0.05", b)
	}
}

func TestModelsBeyondLimitShareOneRetest(t *testing.T) {
	c := bandit.New()
	cfg := &bandit.Config{K: 3, Epsilon: 0.2, Retest: true}
	addRewardedPicks(c, "model-a", 400)
	for i := range 100 {
		c.TrialCounters().CountedModelName(fmt.Sprint("noise-", i))
	}
	if b := epsilonFor(t, cfg, c, "random-1"); b != 0.2 {
		t.Errorf("epsilon on an unknown model before any evidence = %g, want 0.2", b)
	}
	addRewardedPicks(c, "random-2", 60)
	if b := epsilonFor(t, cfg, c, "random-3"); b != 0.05 {
		t.Errorf("epsilon on an unknown model with evidence from other unknown models = %g, want 0.05", b)
	}
}
