package bandit_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"precept/bandit"
	"precept/bandit/trial"
)

type beliefsBySlug map[string]bandit.Posterior

func (b beliefsBySlug) Posterior(c bandit.Action) bandit.Posterior { return b[c.Slug] }
func (beliefsBySlug) Expected(*trial.Assignment) (float64, bool)   { return 0, false }
func (beliefsBySlug) IsModelUnseen(trial.Arm, string) bool         { return false }
func (b beliefsBySlug) Baseline(string) (float64, float64)         { return 90, 65 }
func (b beliefsBySlug) RawCounts(a trial.Arm) (float64, float64) {
	return 10 * b[a.Slug()].Mean, 10 * (1 - b[a.Slug()].Mean)
}

func lesson(slug string) bandit.Action {
	return bandit.Action{Slug: slug, Arm: trial.Arm(slug + "@1"), Confidence: 0.5}
}

func lessons(slugs ...string) (out []bandit.Action) {
	for _, s := range slugs {
		out = append(out, lesson(s))
	}
	return out
}

func slugs(ps []trial.Pick) (out []string) {
	for _, p := range ps {
		out = append(out, p.Slug)
	}
	return out
}

func neverWithhold() bandit.Config { return bandit.Config{K: 3, Objective: bandit.Uplift, Salt: "t"} }

// unitName returns the randomization unit for session i.
func unitName(i int) string { return fmt.Sprintf("session-%06d", i) }

func TestDecidePicksBestLessonsWithPositiveEffect(t *testing.T) {
	b := beliefsBySlug{"a": {Mean: 0.01}, "b": {Mean: 0.05}, "c": {Mean: 0.03}, "d": {Mean: 0.02}, "e": {Mean: -0.02, Benched: true}, "f": {}}
	for i := range 50 {
		a := trial.Assignment{}
		got := slugs(bandit.Decide(neverWithhold(), b, &a, unitName(i), lessons("a", "b", "c", "d", "f"), 1))
		if !slices.Equal(got, []string{"b", "c", "d"}) {
			t.Fatalf("picked %v, want b, c and d", got)
		}
		a = trial.Assignment{}
		if got = slugs(bandit.Decide(neverWithhold(), b, &a, unitName(i), lessons("f"), 1)); got != nil {
			t.Fatalf("expected effect 0: Decide picked %v, want no pick", got)
		}
	}
}

type fixedBaseline struct {
	beliefsBySlug
	n, sum float64
}

func (fixedBaseline) Expected(*trial.Assignment) (float64, bool) { return 0, false }
func (b fixedBaseline) Baseline(string) (float64, float64)       { return b.n, b.sum }

// Base is the reward that is expected for a session of this category, between 0 and 1. The count of rewarded sessions
// can be negative for a moment, if the correction of a reward arrives before the reward. Base ignores such a count.
func TestBaseFollowsCategory(t *testing.T) {
	for _, tc := range []struct{ n, sum, want float64 }{
		{0, 0, 0.5}, {10, 10, 0.75}, {10, 0, 0.25}, {990, 990, 0.995}, {-1, 0, 0.5}, {-100, 50, 0.5}, {math.NaN(), 3, 0.5}, {90, 5000, 1}, {90, -5000, 0},
	} {
		a := &trial.Assignment{Category: "c"}
		bandit.Decide(neverWithhold(), fixedBaseline{n: tc.n, sum: tc.sum}, a, "s", lessons("a"), 1)
		if a.Base != tc.want {
			t.Errorf("%v sessions with sum %v: Base = %v, want %v", tc.n, tc.sum, a.Base, tc.want)
		}
	}
}

func TestExpensiveLessonIsNotPicked(t *testing.T) {
	b := beliefsBySlug{"a": {Mean: 0.02}}
	c := lesson("a")
	c.Tokens = 100
	cfg := neverWithhold()
	for price, want := range map[float64]int{0: 1, 0.0001: 1, 0.0003: 0} {
		cfg.TokenCost = price
		a := trial.Assignment{}
		if got := len(bandit.Decide(cfg, b, &a, "s", []bandit.Action{c}, 1)); got != want {
			t.Errorf("TokenCost %v: got %d picks, want %d", price, got, want)
		}
	}
}

func TestNewLessonIsPickedInMostSessions(t *testing.T) {
	picked, n, chooser := 0.0, 20_000, bandit.New()
	cfg := bandit.Config{K: 3, Epsilon: 0.2}
	for i := range n {
		a := trial.Assignment{}
		picked += float64(len(bandit.Decide(cfg, chooser, &a, unitName(i), lessons("fresh"), 1)))
	}
	if share := picked / float64(n); math.Abs(share-0.8413) > 0.01 {
		t.Errorf("new lesson: picked share = %.3f, want 0.841", share)
	}
}

func TestWithholdingRateDependsOnHoldoutRule(t *testing.T) {
	const n = 20_000
	b := beliefsBySlug{"a": {Mean: 1}, "leaning": {Mean: 1, Leaning: true}, "proven": {Mean: 1, Leaning: true, Proven: true}, "concluded": {Mean: 1, Concluded: true}, "benched": {Mean: -0.1, Benched: true}, "tried": {Mean: -0.1, Benched: true}}
	tried := lesson("tried")
	tried.Epsilon = 0.5
	for rule, want := range map[bandit.Holdout][3]float64{"": {0.20, 0.20, 0.05}, bandit.Prove: {0.20, 0.20, 0.05}, bandit.Earn: {0.10, 0.05, 0.20}, bandit.Fixed: {0.20, 0.20, 0.20}} {
		for i, what := range []string{"leaning", "proven", "concluded"} {
			if got := (bandit.Config{Epsilon: 0.2, Holdout: rule}).NextEpsilon(bandit.Action{}, b[what]); got != want[i] {
				t.Errorf("holdout %q, %s lesson: epsilon = %v, want %v", rule, what, got, want[i])
			}
		}
	}
	cfg := bandit.Config{K: 5, Epsilon: 0.2, Holdout: bandit.Earn, Control: 0.05, Salt: "x"}
	control, picks, withheld := 0.0, map[string]float64{}, map[string]float64{}
	for i := range n {
		a := trial.Assignment{}
		ps := bandit.Decide(cfg, b, &a, unitName(i), append(lessons("a", "leaning", "proven", "benched"), tried), 1)
		if a.Control {
			control++
			if len(ps) > 0 || len(a.Picks) > 0 || len(a.Matched) != 5 {
				t.Fatalf("control session: assignment = %+v, want 5 matches and no pick", a)
			}
		}
		for _, p := range ps {
			picks[p.Slug]++
			if !p.Injected {
				withheld[p.Slug]++
			}
			if want := (1 - p.Eps) * 0.95; math.Abs(p.Propensity-want) > 1e-12 {
				t.Fatalf("%s: propensity = %v, want %v", p.Slug, p.Propensity, want)
			}
		}
	}
	checkShare := func(what string, got, n, want float64) {
		t.Helper()
		if sd := math.Sqrt(want * (1 - want) / n); math.Abs(got/n-want) > 4*sd {
			t.Errorf("%s: share = %.4f, want %.4f", what, got/n, want)
		}
	}
	checkShare("control", control, n, 0.05)
	treated := n - control
	checkShare("withheld", withheld["a"], picks["a"], 0.20)
	checkShare("withheld when leaning", withheld["leaning"], picks["leaning"], 0.10)
	checkShare("withheld when proven", withheld["proven"], picks["proven"], 0.05)
	checkShare("probed", picks["benched"], treated, 0.02)
	checkShare("withheld when probed", withheld["benched"], picks["benched"], 0.50)
	if picks["tried"] != treated {
		t.Errorf("lesson in a trial: %v picks in %v treated sessions, want a pick in each", picks["tried"], treated)
	}
	checkShare("withheld in a trial", withheld["tried"], picks["tried"], 0.50)
}

// Epsilon is the share of picks that are withheld. With every objective except uplift, the full share is withheld until
// the lesson is proven. During a trial, the trial's own share is withheld.
func TestOnlyUpliftReducesHoldoutBeforeProof(t *testing.T) {
	for objective, want := range map[bandit.Objective]float64{"": 0.1, bandit.Uplift: 0.1, bandit.Random: 0.2, bandit.Raw: 0.2, bandit.All: 0.2} {
		cfg := bandit.Config{K: 3, Epsilon: 0.2, Holdout: bandit.Earn, Objective: objective}
		if got := cfg.NextEpsilon(bandit.Action{}, bandit.Posterior{Leaning: true}); got != want {
			t.Errorf("objective %q, leaning lesson: epsilon = %v, want %v", objective, got, want)
		}
		if want < 0.2 {
			want = 0.05
		}
		if got := cfg.NextEpsilon(bandit.Action{}, bandit.Posterior{Leaning: true, Trusted: true}); got != want {
			t.Errorf("objective %q, trusted lesson: epsilon = %v, want %v", objective, got, want)
		}
		if got := cfg.NextEpsilon(bandit.Action{}, bandit.Posterior{Leaning: true, Trusted: true, Proven: true}); objective != bandit.All && got != 0.05 {
			t.Errorf("objective %q, proven lesson: epsilon = %v, want 0.05", objective, got)
		}
	}
	if got := (bandit.Config{Epsilon: 0.2}).NextEpsilon(bandit.Action{Epsilon: 0.5}, bandit.Posterior{Leaning: true, Trusted: true}); got != 0.5 {
		t.Errorf("lesson in a trial: epsilon = %v, want 0.5", got)
	}
}

// A benched lesson is a lesson that is expected to harm. It is picked only in a small share of sessions, the probes. A
// probe uses one of the session's slots.
// PickProbability agrees with how often Decide picks a lesson that matches alone.
func TestPickProbability(t *testing.T) {
	cfg := neverWithhold()
	cfg.TokenCost = 0.0001
	for name, tc := range map[string]struct {
		posterior bandit.Posterior
		action    func(*bandit.Action)
		objective bandit.Objective
		want      float64
	}{
		"benched":                    {posterior: bandit.Posterior{Mean: -0.1, Var: 0.01, Benched: true}, want: 0.02},
		"expected effect 0":          {posterior: bandit.Posterior{Var: 0.01}, want: 0.5},
		"effect below the cost":      {posterior: bandit.Posterior{Mean: 0.005, Var: 0.0001}, action: func(a *bandit.Action) { a.Tokens = 100 }, want: 0.02},
		"on trial":                   {posterior: bandit.Posterior{Mean: -0.1, Var: 0.01, Benched: true}, action: func(a *bandit.Action) { a.Epsilon = 0.5 }, want: 1},
		"not chosen by the effect":   {posterior: bandit.Posterior{Mean: -0.1, Var: 0.01, Benched: true}, objective: bandit.Random, want: 1},
		"clear help":                 {posterior: bandit.Posterior{Mean: 0.1, Var: 0.001}, want: 1},
		"known to have no effect":    {posterior: bandit.Posterior{Mean: -0.01}, want: 0},
		"expected effect of a point": {posterior: bandit.Posterior{Mean: 0.01, Var: 0.01}, want: 0.66},
	} {
		cfg, action := cfg, lesson("a")
		cfg.Objective = cmp.Or(tc.objective, cfg.Objective)
		if tc.action != nil {
			tc.action(&action)
		}
		picked := 0
		const sessions = 4000
		for i := range sessions {
			a := trial.Assignment{}
			picked += len(bandit.Decide(cfg, beliefsBySlug{"a": tc.posterior}, &a, unitName(i), []bandit.Action{action}, 1))
		}
		got, frequency := cfg.PickProbability(action, tc.posterior), float64(picked)/sessions
		if math.Abs(got-tc.want) > 0.01 || math.Abs(got-frequency) > 0.025 {
			t.Errorf("%s: PickProbability = %.3f, share of sessions with a pick %.3f, want %.2f", name, got, frequency, tc.want)
		}
	}
}

func TestProbesPreferUncertainLessons(t *testing.T) {
	b := beliefsBySlug{
		"a": {Mean: 0.1}, "b": {Mean: 0.2}, "known": {Mean: -0.03, Var: 1e-6, Benched: true},
		"x": {Mean: -0.02, Var: 0.001, Benched: true}, "y": {Mean: -0.02, Var: 0.001, Benched: true},
	}
	cfg := bandit.Config{K: 2}
	probed := map[string]int{}
	for i := range 20_000 {
		a := trial.Assignment{}
		ps := slugs(bandit.Decide(cfg, b, &a, unitName(i), lessons("a", "b", "known", "x", "y"), 1))
		if len(ps) != 2 || ps[0] != "b" {
			t.Fatalf("picks = %v, want two picks, of which the first is b", ps)
		}
		probed[ps[1]]++
	}
	// Lessons x and y are equally uncertain. In a probe, each of the two has the highest random draw with probability
	// (1 - 0.38*0.38)/2.
	if probed["x"] < 120 || probed["y"] < 120 || probed["known"] < 20 || probed["known"] > 100 || 20_000-probed["a"] > 500 {
		t.Errorf("second picks in 20,000 sessions: got %v, want at least 120 for each of x and y, 20 to 100 for known, and at least 19,500 for a", probed)
	}
}

type movedBaseline struct{ beliefsBySlug }

func (movedBaseline) Expected(*trial.Assignment) (float64, bool) { return 0, false }
func (movedBaseline) Baseline(string) (float64, float64)         { return 1000, 10 }

func TestBaseIsFixedAtFirstDecision(t *testing.T) {
	b := beliefsBySlug{"a": {Mean: 0.1}, "b": {Mean: 0.1}}
	a := trial.Assignment{Category: "x"}
	bandit.Decide(neverWithhold(), b, &a, "s", lessons("a"), 1)
	base := a.Base
	later := bandit.Decide(neverWithhold(), movedBaseline{b}, &a, "s", lessons("b"), 2)
	if a.Base != base || base != trial.Round(70.0/100) {
		t.Errorf("Base: got %v after the first decision and %v after the second decision, want %v after both", base, a.Base, trial.Round(70.0/100))
	}
	if len(later) != 1 || math.Abs(later[0].Offset-(base+0.1)) > 1e-6 {
		t.Errorf("second decision: picks = %+v, want one with offset %v", later, base+0.1)
	}
}

// The expected effect is below 0 but uncertain, so many random draws are above 0. Even so, the benched lesson is picked
// only by probes.
func TestBenchedLessonIsRarelyPicked(t *testing.T) {
	b := beliefsBySlug{"a": {Mean: -0.011, Var: 0.04 * 0.04, Benched: true}}
	tried := 0
	for i := range 5_000 {
		tried += len(bandit.Decide(bandit.Config{K: 3}, b, &trial.Assignment{}, unitName(i), lessons("a"), 1))
	}
	if tried < 60 || tried > 150 {
		t.Errorf("picks of the benched lesson in 5,000 sessions: got %d, want 60 to 150", tried)
	}
}

// Decide makes at most K picks at a time, and at most 2K in a session. A withheld pick uses a slot like an injected
// pick.
func TestWithheldPicksTakeSlots(t *testing.T) {
	b := beliefsBySlug{}
	var actions []bandit.Action
	for i := range 10 {
		s := string(rune('a' + i))
		b[s] = bandit.Posterior{Mean: 0.5 - float64(i)/100}
		actions = append(actions, lesson(s))
	}
	cfg := neverWithhold()
	cfg.Epsilon = 1 // withhold all
	a := trial.Assignment{}
	if got := bandit.Decide(cfg, b, &a, "s", actions, 1); len(got) != 3 || got[0].Injected {
		t.Fatalf("picks = %+v, want three picks, of which the first is withheld", got)
	}
	if got := bandit.Decide(cfg, b, &a, "s", actions, 2); got != nil {
		t.Fatalf("same lessons matched again: picked %v, want no pick", slugs(got))
	}
	more := lessons("k", "l", "m", "n")
	for _, c := range more {
		b[c.Slug] = bandit.Posterior{Mean: 0.1}
	}
	if got := bandit.Decide(cfg, b, &a, "s", more[:2], 3); len(got) != 2 || got[0].Turn != 3 {
		t.Fatalf("two new matches: picked %v, want two picks at turn 3", slugs(got))
	}
	if got := bandit.Decide(cfg, b, &a, "s", more[2:], 4); len(got) != 1 {
		t.Fatalf("after 5 of 2K = 6 picks: picked %v, want one pick", slugs(got))
	}
	if got := bandit.Decide(cfg, b, &a, "s", lessons("z"), 5); len(got) != 0 || len(a.Matched) != 15 {
		t.Fatalf("after 2K picks: picked %v, %d matches, want no pick and 15 matches", slugs(got), len(a.Matched))
	}
}

// The loop warning is a forced pick: it is picked once per session, even if it is expected to harm, but never in a
// control session. The warning is not recorded as a match.
func TestForcedPickTakesNoSlot(t *testing.T) {
	b := beliefsBySlug{"a": {Mean: 0.3, MatchEffect: 0.1 / bandit.Damping}, "loop-warning": {Mean: -0.5, MatchEffect: -0.2, Benched: true}}
	loop := bandit.Action{Slug: trial.LoopArm.Slug(), Arm: trial.LoopArm, Forced: true}
	cfg := neverWithhold()
	cfg.K = 1
	a := trial.Assignment{}
	bandit.Decide(cfg, b, &a, "s", lessons("a"), 1)
	before := a.Base
	got := bandit.Decide(cfg, b, &a, "s", []bandit.Action{loop, loop}, 2)
	if len(got) != 1 || got[0].Arm != trial.LoopArm || !got[0].Injected {
		t.Fatalf("picks = %+v, want one injected pick with arm %q", got, trial.LoopArm)
	}
	if want := before + 0.1 + 0.3; math.Abs(got[0].Offset-want) > 1e-6 || math.Abs(got[0].Centre-0.95) > 1e-6 && math.Abs(got[0].Centre-(want-0.2)) > 1e-6 {
		t.Errorf("pick = %+v, want offset %v and centre 0.95 or %v", got[0], want, want-0.2)
	}
	if len(a.Matched) != 1 {
		t.Errorf("Matched = %+v, want one match, without the loop warning", a.Matched)
	}
	if bandit.Decide(cfg, b, &a, "s", []bandit.Action{loop}, 3) != nil {
		t.Error("second Decide with the loop warning: got a pick, want none")
	}
	if p, ok := a.Pick("loop-warning"); !ok || p.Turn != 2 {
		t.Errorf("Pick(loop-warning) = %+v, %t, want a pick at turn 2", p, ok)
	}
	if got := bandit.Decide(cfg, b, &a, "s", lessons("a2"), 4); len(got) != 0 {
		t.Errorf("expected effect 0: picked %v, want no pick", slugs(got))
	}
	cfg.Control = 1
	a = trial.Assignment{}
	if bandit.Decide(cfg, b, &a, "s", []bandit.Action{loop}, 1) != nil || len(a.Picks) != 0 {
		t.Errorf("control session: picks = %+v, want none", a.Picks)
	}
}

func TestObjectiveDecidesLessonOrder(t *testing.T) {
	b := beliefsBySlug{"a": {Mean: 0.9}, "b": {Mean: 0.1}, "c": {Mean: -1, Benched: true}, "d": {Mean: 0.5, Proven: true}}
	actions := lessons("a", "b", "c", "d")
	actions[2].Confidence, actions[3].Confidence, actions[3].Epsilon = 0.9, 0.7, 0.5
	pickCounts := func(o bandit.Objective, k int) map[string]int {
		cfg := bandit.Config{K: k, Objective: o}
		out := map[string]int{}
		for i := range 2000 {
			a := trial.Assignment{}
			for _, p := range bandit.Decide(cfg, b, &a, unitName(i), actions, 1) {
				if !p.Injected && o == bandit.All {
					t.Fatalf("objective all with epsilon 0: pick = %+v, want it injected", p)
				}
				out[p.Slug]++
			}
		}
		return out
	}
	if got := pickCounts(bandit.All, 3); got["c"] != 2000 || got["d"] != 2000 || got["a"] != 2000 || got["b"] != 0 {
		t.Errorf("objective all: picks = %v, want c, d and a in all 2000 sessions and b in none", got)
	}
	if got := pickCounts(bandit.Random, 1); got["a"] < 400 || got["b"] < 400 || got["c"] < 400 || got["d"] < 400 {
		t.Errorf("objective random: picks = %v, want each lesson in at least 400 of 2000 sessions", got)
	}
	if got := pickCounts(bandit.Raw, 1); got["a"] < 1500 || got["b"] > 100 {
		t.Errorf("objective raw: picks = %v, want a in at least 1500 of 2000 sessions and b in at most 100", got)
	}
}

func TestGammaDrawHasMeanAndVariance(t *testing.T) {
	for _, shape := range []float64{1, 2.5, 40} {
		var sum, sq float64
		r := seededRand("gamma")
		const n = 40_000
		for range n {
			x := bandit.GammaDraw(r, shape)
			sum += x
			sq += x * x
		}
		m := sum / n
		if v := sq/n - m*m; math.Abs(m-shape) > 5*math.Sqrt(shape/n) || math.Abs(v/shape-1) > 0.1 {
			t.Errorf("shape %v: mean = %v, variance = %v, want both close to the shape", shape, m, v)
		}
	}
}

// If a lesson's text is edited during a session, the new text causes no second match and no second pick in the session.
func TestSessionKeepsFirstLessonText(t *testing.T) {
	b := beliefsBySlug{"a": {Mean: 0.1}}
	a := trial.Assignment{}
	bandit.Decide(neverWithhold(), b, &a, "s", lessons("a"), 1)
	edited := bandit.Action{Slug: "a", Arm: "a@2"}
	if got := bandit.Decide(neverWithhold(), b, &a, "s", []bandit.Action{edited}, 2); got != nil || len(a.Matched) != 1 {
		t.Errorf("edited lesson: picks = %v, matches = %+v, want no pick and one match", slugs(got), a.Matched)
	}
}

// A pick's offset is the expected reward without the lesson. It is the sum of the base, the damped match effects, and
// the effects of the other injected lessons.
func TestOffsetsMatchTheFormula(t *testing.T) {
	b := beliefsBySlug{
		"a": {Mean: 0.06, MatchEffect: -0.1 / bandit.Damping}, "b": {Mean: 0.04, MatchEffect: 0.05 / bandit.Damping},
		"c": {Mean: 0.001, MatchEffect: 0.02 / bandit.Damping}, "late": {Mean: 0.07, MatchEffect: 0.01 / bandit.Damping},
	}
	cfg := neverWithhold()
	cfg.K = 2
	a := trial.Assignment{Category: "x"}
	ps := bandit.Decide(cfg, b, &a, "s", lessons("a", "b", "c"), 1)
	base := (65 + 5.0) / (90 + 10)
	matchEffects := -0.1 + 0.05 + 0.02
	want := map[string]float64{"a": base + matchEffects + 0.1 + 0.04, "b": base + matchEffects - 0.05 + 0.06}
	checkPick := func(p trial.Pick, offset, matchEffect float64) {
		t.Helper()
		if centre := min(max(offset+matchEffect, 0.05), 0.95); math.Abs(p.Offset-offset) > 2e-6 || math.Abs(p.Centre-centre) > 2e-6 {
			t.Errorf("%s: offset = %v, centre = %v, want %v and %v", p.Slug, p.Offset, p.Centre, offset, centre)
		}
	}
	checkPick(ps[0], want["a"], -0.1)
	checkPick(ps[1], want["b"], 0.05)
	if math.Abs(a.Centre-(base+matchEffects)) > 2e-6 {
		t.Errorf("session centre = %v, want %v", a.Centre, base+matchEffects)
	}
	frozen := slices.Clone(a.Picks)
	ps = bandit.Decide(cfg, b, &a, "s", lessons("late"), 5)
	checkPick(ps[0], base+matchEffects+0.06+0.04, 0.01)
	if !reflect.DeepEqual(a.Picks[:2], frozen) || math.Abs(a.Centre-(base+matchEffects)) > 2e-6 {
		t.Errorf("after a later decision: first picks = %+v, session centre = %v, want %+v and %v", a.Picks[:2], a.Centre, frozen, base+matchEffects)
	}
}

func TestDecisionsAreFinalAndWithinLimits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := bandit.Config{
			K: rapid.IntRange(1, 4).Draw(t, "k"), Epsilon: rapid.Float64Range(0, 1).Draw(t, "eps"),
			Control: rapid.Float64Range(0, 0.5).Draw(t, "control"), Objective: rapid.SampledFrom([]bandit.Objective{bandit.Uplift, bandit.Raw, bandit.Random, bandit.All, ""}).Draw(t, "objective"),
		}
		b := beliefsBySlug{}
		mean := rapid.Float64Range(-0.2, 0.2)
		for i := range 12 {
			m := mean.Draw(t, "mean")
			b[fmt.Sprint("l", i)] = bandit.Posterior{Mean: m, Var: 0.001, MatchEffect: mean.Draw(t, "match"), Benched: m < 0, Proven: m > 0.15}
		}
		session := rapid.StringN(0, 40, 200).Draw(t, "session")
		a, replay := trial.Assignment{}, trial.Assignment{}
		for turn := range rapid.IntRange(1, 6).Draw(t, "turns") {
			var actions []bandit.Action
			for _, i := range rapid.SliceOfN(rapid.IntRange(0, 11), 0, 8).Draw(t, "matched") {
				actions = append(actions, lesson(fmt.Sprint("l", i)))
			}
			if rapid.Bool().Draw(t, "loop") {
				actions = append(actions, bandit.Action{Slug: "loop-warning", Arm: trial.LoopArm, Forced: true})
			}
			before := clone(t, a)
			ps := bandit.Decide(cfg, b, &a, session, actions, turn)
			if before.Decided && (a.Control != before.Control || a.Base != before.Base) || !a.Decided {
				t.Fatalf("assignment = %+v, want it decided, with Control and Base from the earlier %+v", a, before)
			}
			if len(before.Picks) > 0 && !reflect.DeepEqual(a.Picks[:len(before.Picks)], before.Picks) {
				t.Fatalf("picks after a later turn = %+v, want %+v first", a.Picks, before.Picks)
			}
			if len(a.Picks)-len(before.Picks) != len(ps) {
				t.Fatalf("Decide returned %d picks and added %d picks to the assignment, want equal numbers", len(ps), len(a.Picks)-len(before.Picks))
			}
			if bandit.Decide(cfg, b, &a, session, actions, turn) != nil {
				t.Fatal("repeated turn: Decide returned picks, want none")
			}
			bandit.Decide(cfg, b, &replay, session, actions, turn)
		}
		if !reflect.DeepEqual(a, replay) {
			t.Fatalf("replayed assignment = %+v, want %+v", replay, a)
		}
		seen := map[string]bool{}
		for _, p := range a.Picks {
			if seen[p.Slug] || p.Centre < 0.05 || p.Centre > 0.95 {
				t.Fatalf("pick = %+v, want only one pick of this lesson, with Centre from 0.05 to 0.95", p)
			}
			seen[p.Slug] = true
		}
		if bandit.Spent(&a) > 2*cfg.K || (a.Control && len(a.Picks) > 0) {
			t.Fatalf("got %d used slots and %d picks (K = %d, Control = %v), want at most 2K slots, and no pick if Control is true", bandit.Spent(&a), len(a.Picks), cfg.K, a.Control)
		}
	})
}

func clone(t *rapid.T, a trial.Assignment) (out trial.Assignment) {
	b, err := json.Marshal(a)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func BenchmarkDecide(b *testing.B) {
	c, cfg := chooserWithLessons(2000), bandit.Config{K: 3, Epsilon: 0.2, Control: 0.05, Salt: "salt"}
	var actions []bandit.Action
	for i := range 15 {
		actions = append(actions, lesson(fmt.Sprintf("lesson-%d", i*131)))
	}
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		a := trial.Assignment{Category: "x"}
		bandit.Decide(cfg, c, &a, unitName(i), actions, 1)
		i++
	}
}

// BenchmarkDecideAfterAdd measures Decide when each decision comes after a new reward for the same arms.
func BenchmarkDecideAfterAdd(b *testing.B) {
	c, cfg := chooserWithLessons(2000), bandit.Config{K: 3, Epsilon: 0.2, Control: 0.05, Salt: "salt"}
	var actions []bandit.Action
	for i := range 15 {
		actions = append(actions, lesson(fmt.Sprintf("lesson-%d", i*131)))
	}
	i := 0
	for b.Loop() {
		a := trial.Assignment{Category: "x", Day: 60}
		bandit.Decide(cfg, c, &a, unitName(i), actions, 1)
		b.StopTimer()
		c.Add(bandit.Contribution(&a, 1, 1))
		b.StartTimer()
		i++
	}
}
