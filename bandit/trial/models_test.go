package trial_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"precept/bandit/trial"
)

// addModelPicks adds picks from sessions on a model. The lesson raises the success rate from 0.4 to 0.4 + effect.
func addModelPicks(r *rand.Rand, c *trial.Counters, arm trial.Arm, model string, picks int, effect float64) {
	for range picks {
		p := trial.Pick{Slug: arm.Slug(), Arm: arm, Eps: 0.5, Injected: r.IntN(2) == 1, Centre: 0.5}
		chance := 0.4
		if p.Injected {
			chance += effect
		}
		y := 0.0
		if r.Float64() < chance {
			y = 1
		}
		a := &trial.Assignment{Decided: true, Day: 20_000, Model: c.CountedModelName(model), Picks: []trial.Pick{p}}
		c.Add(a.ClosingDeltas())
		c.Add(a.Contribution(y, 1))
	}
}

// includedByModel reports for each model whether the evidence for the arm includes this model.
func includedByModel(c *trial.Counters, arm trial.Arm, sign float64) map[string]bool {
	out := map[string]bool{}
	for _, e := range c.Models(arm) {
		out[e.Model] = e.IncludesModel(sign)
	}
	return out
}

// The evidence includes a model that has enough picks and an effect with the given sign. With sign 0, the effect does
// not matter.
func TestModelIsIncludedWithEnoughPicksAndSign(t *testing.T) {
	for _, tc := range []struct {
		name   string
		picks  int
		effect float64
		want   bool
	}{
		{"too few picks", 40, 0.5, false},
		{"same effect", 200, 0.5, true},
		{"no effect", 400, 0, false},
		{"opposite effect", 200, -0.3, false},
	} {
		r := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // the tests need repeatable numbers
		c := trial.NewCounters()
		addModelPicks(r, c, "in@1", "a", 600, 0.5)
		addModelPicks(r, c, "in@1", "b", tc.picks, tc.effect)
		if got := includedByModel(c, "in@1", 1); !got["a"] || got["b"] != tc.want {
			t.Errorf("%s on model b: IncludesModel(1) = %v, want true for model a and %v for model b", tc.name, got, tc.want)
		}
		if tc.picks >= trial.MinPicks && !includedByModel(c, "in@1", 0)["b"] {
			t.Errorf("%s on model b: IncludesModel(0) = false for model b, want true for at least %d picks", tc.name, trial.MinPicks)
		}
	}
}

// With few picks on a model, the estimated effect on the model is moved towards the effect of the lesson on all models.
// With many picks, it hardly changes.
func TestEffectOnModelIsShrunkTowardsLesson(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4)) //nolint:gosec // the tests need repeatable numbers
	c := trial.NewCounters()
	addModelPicks(r, c, "in@1", "large", 5000, 0.3)
	addModelPicks(r, c, "in@1", "small", 60, -0.1)
	for _, e := range c.Models("in@1") {
		own := c.Stats("in@1").Z / c.Stats("in@1").N
		moved := (e.Shrunken - e.Effect) / (own - e.Effect)
		if e.Model == "small" && (moved < 0.1 || moved > 0.9) {
			t.Errorf("model small: Effect = %g, Shrunken = %g, want Shrunken 10 to 90%% of the way from Effect to the lesson's effect, %g", e.Effect, e.Shrunken, own)
		}
		if e.Model == "large" && math.Abs(e.Shrunken-e.Effect) > 0.005 {
			t.Errorf("model large: Effect = %g, Shrunken = %g, want a difference of at most 0.005", e.Effect, e.Shrunken)
		}
	}
}

// Clients choose the model names, so the counters keep only a limited number of names. The limit also applies to
// clones, and to counters that are read from a store.
func TestModelNameCountIsLimited(t *testing.T) {
	c := trial.NewCounters()
	names, fields := map[string]bool{}, map[string]bool{}
	for i := range 1_000_000 {
		name := c.CountedModelName(fmt.Sprint("model-", i))
		if i%1000 != 0 && names[name] {
			continue
		}
		names[name] = true
		a := &trial.Assignment{Decided: true, Model: name, Picks: []trial.Pick{{Slug: "in", Arm: "in@1", Eps: 0.5, Centre: 0.5}}}
		for _, d := range append(a.ClosingDeltas(), a.Contribution(1, 1)...) {
			fields[d.Key.Field] = true
		}
		c.Add(a.ClosingDeltas())
	}
	if len(names) != 33 || !names[trial.OtherModels] || len(fields) > 33*6+100 || len(c.Models("in@1")) != 33 {
		t.Errorf("got %d names, %d fields and %d models, want 33 names (including the name other), at most %d fields, and 33 models", len(names), len(fields), len(c.Models("in@1")), 33*6+100)
	}
	copied := trial.NewCounters()
	for _, e := range c.Models("in@1") {
		a := &trial.Assignment{Decided: true, Model: e.Model, Picks: []trial.Pick{{Slug: "in", Arm: "in@1", Eps: 0.5}}}
		copied.Add(a.ClosingDeltas())
	}
	for subject, counters := range map[string]*trial.Counters{"stored counters": copied, "clone": c.Clone()} {
		if counters.CountedModelName("new") != trial.OtherModels || counters.CountedModelName("model-7") != "model-7" {
			t.Errorf("%s: CountedModelName = %q for a new model and %q for model-7, want %q and model-7", subject, counters.CountedModelName("new"), counters.CountedModelName("model-7"), trial.OtherModels)
		}
	}
}

func TestWithdrawnRewardLeavesModelUnchanged(t *testing.T) {
	c := trial.NewCounters()
	r := rand.New(rand.NewPCG(5, 6)) //nolint:gosec // the tests need repeatable numbers
	addModelPicks(r, c, "in@1", "a:b@c", 80, 0.2)
	before := c.Models("in@1")
	a := &trial.Assignment{Decided: true, Model: "a:b@c", Picks: []trial.Pick{{Slug: "in", Arm: "in@1", Eps: 0.2, Centre: 0.3, Injected: true}}}
	c.Add(a.Contribution(1, 1))
	if after := c.Models("in@1"); after[0].M1 != before[0].M1+1 {
		t.Errorf("after one more reward: models = %+v, want M1 one higher than before the reward: %+v", after, before)
	}
	c.Add(trial.Negate(a.Contribution(1, 1)))
	if after := c.Models("in@1"); len(after) != 1 || after[0] != before[0] {
		t.Errorf("after the reward was withdrawn: models = %+v, want %+v", after, before)
	}
}
