package bandit_test

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"precept/bandit"
	"precept/bandit/trial"
)

func almostEqual(got, want float64) bool { return math.Abs(got-want) < 1e-6 }

func key(scope, field string, day int32) trial.Key {
	return trial.Key{Scope: scope, Field: field, Day: day}
}

func delta(scope, field string, day int32, v int64) trial.Delta {
	return trial.Delta{Key: key(scope, field, day), Value: v}
}

func deltaValue(ds []trial.Delta, scope, field string, day int32) float64 {
	for _, d := range ds {
		if d.Key == key(scope, field, day) {
			return float64(d.Value) / trial.FixedScale
		}
	}
	return 0
}

// sampleAssignment returns an assignment with an injected, a withheld and an unpicked lesson, and a loop warning.
func sampleAssignment() trial.Assignment {
	return trial.Assignment{
		ControlP: 0.05, Category: "cat", Base: 0.6, Centre: 0.55, Decided: true, Day: 20000,
		Matched: []trial.Match{{Arm: "in@1", MatchEffect: -0.1}, {Arm: "out@1", MatchEffect: 0.05}, {Arm: "not@1", MatchEffect: 0}},
		Picks: []trial.Pick{
			{Slug: "in", Arm: "in@1", Eps: 0.2, Injected: true, MeanEffect: 0.04, Offset: 0.65, Centre: 0.55, Tokens: 30, Turn: 1},
			{Slug: "out", Arm: "out@1", Eps: 0.5, Injected: false, MeanEffect: 0.02, Offset: 0.54, Centre: 0.59, Tokens: 50, Turn: 1},
			{Slug: "loop-warning", Arm: trial.LoopArm, Eps: 0.2, Injected: true, MeanEffect: 0.01, Offset: 0.59, Centre: 0.4, Turn: 3},
		},
	}
}

// Contribution returns deltas for the residuals of the chooser (reward minus expected reward), and the same deltas for
// the trial counters as trial.Assignment.Contribution.
func TestContributionMatchesFormulas(t *testing.T) {
	a := sampleAssignment()
	ds := bandit.Contribution(&a, 1, 2)
	matchEffects, m := -0.1+0.05, 0.04
	for _, tc := range []struct {
		scope, field string
		day          int32
		want         float64
	}{
		{"", "graded", 0, 0},
		{"", "res2", 0, math.Pow(1-0.6-matchEffects-m, 2)},
		{"x:cat", "cn", 0, 1},
		{"x:cat", "cs", 0, 1 - matchEffects - m},
		{"in@1", "s1", 20000, 0.35},
		{"out@1", "s0", 20000, 0.46},
		{"not@1", "su", 20000, 1 - 0.6 - matchEffects - m},
		{string(trial.LoopArm), "s1", 20000, 0.41},
	} {
		if got := deltaValue(ds, tc.scope, tc.field, tc.day); math.Abs(got-tc.want) > 1e-6 {
			t.Errorf("scope %q, field %s = %v, want %v", tc.scope, tc.field, got, tc.want)
		}
	}
	for _, d := range a.Contribution(1, 2) {
		if got := deltaValue(ds, d.Key.Scope, d.Key.Field, d.Key.Day); got != float64(d.Value)/trial.FixedScale {
			t.Errorf("value = %v for the trial delta %v, want it equal", got, d)
		}
	}
	seen, last := map[string]bool{}, "none"
	for _, d := range ds {
		if d.Key.Scope != last && seen[d.Key.Scope] {
			t.Fatalf("scope %q: deltas in two groups, want one", d.Key.Scope)
		}
		seen[d.Key.Scope], last = true, d.Key.Scope
	}
	if deltaValue(bandit.Contribution(&a, 0.3, 3), "", "graded", 0) != 1 {
		t.Error(`reward 0.3: field "graded" is not 1`)
	}
	control := trial.Assignment{Control: true, ControlP: 0.05, Category: "c", Base: 0.6, Decided: true, Day: 7, Matched: []trial.Match{{Arm: "a@1", MatchEffect: -0.1}, {Arm: "b@1", MatchEffect: 0.02}}}
	if got := deltaValue(bandit.Contribution(&control, 1, 1), "a@1", "su", 7); math.Abs(got-(1-0.6-0.02)) > 1e-6 {
		t.Errorf("match in a control session: residual = %v, want %v", got, 1-0.6-0.02)
	}
	if got := bandit.Contribution(&trial.Assignment{}, 1, 1); len(got) != 2 {
		t.Errorf("undecided session: deltas = %v, want 2", got)
	}
	a.Excluded = true
	if bandit.Contribution(&a, 1, 1) != nil {
		t.Error("excluded session: got at least one delta, want none")
	}
}

// The beliefs do not depend on the order of the sessions or on corrections. A field in the wrong scope, such as cn in
// the scope of an arm, has no effect.
func TestBeliefsIgnoreOrderAndCorrections(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ordered, shuffled := bandit.New(), bandit.New()
		var steps [][]trial.Delta
		for i := range rapid.IntRange(1, 6).Draw(t, "sessions") {
			a := newOpenSession(t, ordered, i)
			a.Day = rapid.Int32Range(0, 5).Draw(t, "day")
			y := rapid.Float64Range(0, 1).Draw(t, "y")
			ordered.Add(bandit.Contribution(a, y, 1))
			steps = append(steps, bandit.Contribution(a, y, 1))
			for range rapid.IntRange(0, 2).Draw(t, "corrections") {
				wrong := bandit.Contribution(a, rapid.Float64Range(0, 1).Draw(t, "wrong"), 3)
				steps = append(steps, wrong, trial.Negate(wrong))
			}
		}
		for _, s := range rapid.Permutation(steps).Draw(t, "order") {
			shuffled.Add(s)
		}
		shuffled.Add([]trial.Delta{delta("a@1", "cn", 0, 1), delta("x:x", "n1", 0, 1), delta("", "s1", 0, 1), delta("t:x", "s1", 0, 1), delta("q:", "s1", 0, 1)})
		for _, action := range lessons("a", "b") {
			if got, want := shuffled.PosteriorFromCounters(action), ordered.PosteriorFromCounters(action); got != want {
				t.Fatalf("PosteriorFromCounters(%s) = %+v, want %+v", action.Slug, got, want)
			}
		}
		n, sum := ordered.Baseline("x")
		if n2, sum2 := shuffled.Baseline("x"); n2 != n || sum2 != sum {
			t.Fatalf("Baseline = %v, %v, want %v, %v", n2, sum2, n, sum)
		}
		if got, want := shuffled.Refit(), ordered.Refit(); got != want {
			t.Fatalf("Refit = %+v, want %+v", got, want)
		}
	})
}

func TestChooserCloneIsIndependent(t *testing.T) {
	c := bandit.New()
	a := sampleAssignment()
	c.Add(a.ClosingDeltas())
	c.Add(bandit.Contribution(&a, 1, 2))
	c.Advance(20001, 7)
	before := c.Posterior(lesson("in"))
	d := c.Clone()
	d.Add(bandit.Contribution(&a, 0, 2))
	if c.Posterior(lesson("in")) != before || d.Posterior(lesson("in")).Mean >= before.Mean || c.TrialCounters().Global().All.Rewarded != 1 || d.TrialCounters().Global().All.Rewarded != 2 {
		t.Errorf("Clone, then Add to the clone: original = %+v, clone = %+v, want an unchanged original and a lower mean in the clone", c.Posterior(lesson("in")), d.Posterior(lesson("in")))
	}
	if d.Posterior(bandit.Action{Slug: "in", Arm: "in@2"}) != d.Posterior(bandit.Action{Slug: "in", Arm: "in@2", Parent: "in@1"}) {
		t.Error("clone: got different beliefs about an edited lesson and about the same lesson with the earlier text as the parent, want equal beliefs")
	}
	if got := c.MeanBefore(lesson("in"), 20000); !almostEqual(got, 0.01) {
		t.Errorf("MeanBefore before the first session = %v, want the prior mean 0.01", got)
	}
	if got, want := c.MeanBefore(lesson("in"), 20001), before.Mean; got <= 0.01 || math.Abs(got-want) > 0.001 {
		t.Errorf("MeanBefore after the first day = %v, want %v", got, want)
	}
}
