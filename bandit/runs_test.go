package bandit_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"precept/bandit"
	"precept/bandit/trial"
)

// flatBeliefs are beliefs that expect the reward 0.5 in every session.
type flatBeliefs struct{ beliefsBySlug }

func (flatBeliefs) Expected(*trial.Assignment) (float64, bool) { return 0, false }

func (flatBeliefs) Baseline(string) (float64, float64) { return 2000, 1000 }

// runWorld describes simulated runs. In a run, there are several agents with one session each, and the rewards of these
// sessions are correlated.
type runWorld struct {
	runs, agents int
	share        float64 // share of the variance of the rewards that the run explains
	effect       float64 // effect on the agent that gets the lesson
	spills       bool    // the lesson has its effect on all agents in the run
}

// estimate returns the measured effect and its standard error. If coinsByRun is true, the lesson is injected or
// withheld at random for a whole run, and otherwise for each session. If countedByRun is true, a run counts as one
// observation, and otherwise each session counts as one.
func (w runWorld) estimate(seed uint64, coinsByRun, countedByRun bool) (effect, se float64) {
	r := rand.New(rand.NewPCG(seed, 7)) //nolint:gosec // a simulation
	cfg := bandit.Config{K: 3, Epsilon: 0.5, Objective: bandit.All, Salt: fmt.Sprint("world ", seed)}
	var n, z, zz float64
	addContribution := func(a *trial.Assignment, y float64) {
		for _, d := range bandit.Contribution(a, y, 1) {
			if d.Key.Scope != "l@1" {
				continue
			}
			switch d.Key.Field {
			case "n":
				n += float64(d.Value) / trial.FixedScale
			case "z":
				z += float64(d.Value) / trial.FixedScale
			case "zz":
				zz += float64(d.Value) / trial.FixedScale
			}
		}
	}
	for run := range w.runs {
		common := r.NormFloat64() * 0.2 * math.Sqrt(w.share)
		unit := fmt.Sprint("run ", run)
		assignments := make([]trial.Assignment, w.agents)
		shown := make([]bool, w.agents)
		for i := range assignments {
			name := unit
			if !coinsByRun {
				name = fmt.Sprint(unit, "/", i)
			}
			bandit.Decide(cfg, flatBeliefs{}, &assignments[i], name, lessons("l"), 1)
			shown[i] = assignments[i].Picks[0].Injected
		}
		ys, sum := make([]float64, w.agents), 0.0
		for i := range ys {
			ys[i] = 0.5 + common + r.NormFloat64()*0.2*math.Sqrt(1-w.share)
			if shown[i] || w.spills && slices.Contains(shown, true) {
				ys[i] += w.effect
			}
			ys[i] = min(max(ys[i], 0), 1)
			sum += ys[i]
		}
		if countedByRun {
			addContribution(&assignments[0], sum/float64(w.agents))
			continue
		}
		for i := range assignments {
			addContribution(&assignments[i], ys[i])
		}
	}
	effect = z / n
	return effect, math.Sqrt((zz/n - effect*effect) / n)
}

// summarizeEstimates simulates many experiments. It returns the mean and the standard deviation of the estimated
// effects, and the share of estimates that are more than 1.96 standard errors away from 0.
func (w runWorld) summarizeEstimates(simulations int, coinsByRun, countedByRun bool) (mean, sd, outside float64) {
	var s, ss float64
	for seed := range uint64(simulations) { //nolint:gosec // not negative
		e, se := w.estimate(seed+1, coinsByRun, countedByRun)
		s, ss = s+e, ss+e*e
		if math.Abs(e) > 1.96*se {
			outside++
		}
	}
	k := float64(simulations)
	return s / k, math.Sqrt(ss/k - s/k*s/k), outside / k
}

// The unit is a run with several member sessions. DecideShared either injects a lesson for all members or withholds it
// for all members.
func TestDecideSharedGivesMembersSamePicks(t *testing.T) {
	cfg := bandit.Config{K: 2, Epsilon: 0.5, Objective: bandit.Random, Salt: "s"}
	all := []string{"a", "b", "c", "d", "e", "f", "g", "h"}
	for run := range 300 {
		unit := fmt.Sprint("run ", run)
		var a trial.Assignment
		r := rand.New(rand.NewPCG(uint64(run), 1)) //nolint:gosec // a simulation
		injected := map[string]bool{}
		for range 6 { // members with two decisions each
			spent := 0
			for range 2 {
				var actions []bandit.Action
				for _, s := range all {
					if r.IntN(2) == 0 {
						actions = append(actions, lesson(s))
					}
				}
				before := len(a.Picks)
				given, fresh := bandit.DecideShared(cfg, beliefsBySlug{}, &a, unit, actions, spent)
				if len(a.Picks)-before != len(fresh) || len(given)+len(fresh) > cfg.K || spent+len(given)+len(fresh) > 2*cfg.K {
					t.Fatalf("member with %d picks: DecideShared returned %d earlier and %d new picks, and added %d picks to the unit, want at most K per turn and 2K in total, and as many added picks as new ones", spent, len(given), len(fresh), len(a.Picks)-before)
				}
				spent += len(given) + len(fresh)
				for _, p := range append(given, fresh...) {
					if was, ok := injected[p.Slug]; ok && was != p.Injected {
						t.Fatalf("unit %s: got Injected = %v for %s in one member and %v in another, want the same in all members", unit, was, p.Slug, p.Injected)
					}
					injected[p.Slug] = p.Injected
				}
			}
		}
		seen := map[string]bool{}
		for _, p := range a.Picks {
			if seen[p.Slug] {
				t.Fatalf("unit %s: two picks for %s, want one", unit, p.Slug)
			}
			seen[p.Slug] = true
		}
		if a.Picks != nil && a.Picks[0].Turn == a.Picks[len(a.Picks)-1].Turn && len(a.Picks) > cfg.K {
			t.Fatalf("unit %s: got Turn = %d for all %d picks, want a later turn for the picks of a later decision", unit, a.Picks[0].Turn, len(a.Picks))
		}
	}
}

// The unit keeps the text of the lesson that matched first. A member that matches a later text of the lesson gets no
// pick.
func TestDecideSharedKeepsFirstLessonText(t *testing.T) {
	cfg := bandit.Config{K: 3, Objective: bandit.All, Salt: "s"}
	var a trial.Assignment
	bandit.DecideShared(cfg, beliefsBySlug{}, &a, "u", lessons("x"), 0)
	given, fresh := bandit.DecideShared(cfg, beliefsBySlug{}, &a, "u", []bandit.Action{{Slug: "x", Arm: "x@2"}}, 0)
	if len(given)+len(fresh) != 0 || len(a.Picks) != 1 {
		t.Errorf("edited text: DecideShared = %v, new picks %v, want no pick, and still one pick in the unit", given, fresh)
	}
	given, _ = bandit.DecideShared(cfg, beliefsBySlug{}, &a, "u", lessons("x"), 0)
	if len(given) != 1 || given[0].Arm != "x@1" {
		t.Errorf("first text: DecideShared = %v, want one pick with x@1", given)
	}
}

func TestWithheldPicksUseSharedBudget(t *testing.T) {
	cfg := bandit.Config{K: 3, Epsilon: 1, Objective: bandit.All, Salt: "s"}
	var a trial.Assignment
	sizedLesson := func(slug string, size int) bandit.Action {
		return bandit.Action{Slug: slug, Arm: trial.Arm(slug + "@1"), Size: size, Confidence: 0.5}
	}
	bandit.DecideShared(cfg, beliefsBySlug{}, &a, "u", []bandit.Action{sizedLesson("x", 60)}, 0)
	cfg.Room = 100
	given, fresh := bandit.DecideShared(cfg, beliefsBySlug{}, &a, "u", []bandit.Action{sizedLesson("x", 60), sizedLesson("y", 50), sizedLesson("z", 40)}, 0)
	if len(given) != 1 || len(fresh) != 1 || fresh[0].Slug != "z" {
		t.Errorf("DecideShared = %v and new picks %v, want one earlier pick and [z]", slugs(given), slugs(fresh))
	}
}

// If a unit has MaxShared picks, DecideShared adds no more, but still returns the earlier picks.
func TestDecideSharedStopsAtMaxShared(t *testing.T) {
	cfg := bandit.Config{K: 3, Objective: bandit.All, Salt: "s"}
	var a trial.Assignment
	for i := range 2 * bandit.MaxShared {
		bandit.DecideShared(cfg, beliefsBySlug{}, &a, "u", lessons(fmt.Sprint("l", i)), 0)
	}
	if len(a.Matched) != bandit.MaxShared || len(a.Picks) != bandit.MaxShared {
		t.Errorf("got %d matches and %d picks in the unit, want %d of each", len(a.Matched), len(a.Picks), bandit.MaxShared)
	}
	if given, _ := bandit.DecideShared(cfg, beliefsBySlug{}, &a, "u", lessons("l0"), 0); len(given) != 1 {
		t.Errorf("at the limit: DecideShared(first lesson) = %v, want [l0]", slugs(given))
	}
}

func TestAssignmentMergeIsCommutativeAndIdempotent(t *testing.T) {
	cfg := bandit.Config{K: 3, Epsilon: 0.5, Control: 0.3, Objective: bandit.Random, Salt: "s"}
	for run := range 200 {
		unit := fmt.Sprint("run ", run)
		a, b := trial.Assignment{Category: "a", Day: 1}, trial.Assignment{Category: "b", Day: 1}
		bandit.DecideShared(cfg, beliefsBySlug{}, &a, unit, lessons("p", "q", "r", "s"), 0)
		if run%5 > 0 {
			bandit.DecideShared(cfg, beliefsBySlug{}, &b, unit, lessons("r", "s", "t", "u"), 0)
		}
		ab, ba := a.Clone(), b.Clone()
		ab.Merge(&b, true /* aIsOlder */)
		ba.Merge(&a, false /* aIsOlder */)
		twice := ab.Clone()
		twice.Merge(&b, true)
		twice.Merge(&a, true)
		if text := fmt.Sprintf("%+v", ab); text != fmt.Sprintf("%+v", ba) || text != fmt.Sprintf("%+v", twice) {
			t.Fatalf("run %d: merged assignments =\n%+v\nin the other order =\n%+v\nrepeated =\n%+v\nwant all equal", run, ab, ba, twice)
		}
		for _, p := range append(slices.Clone(a.Picks), b.Picks...) {
			if q, ok := ab.Pick(p.Slug); !ok || q.Injected != p.Injected {
				t.Fatalf("run %d: merged pick = %+v, %v, want %+v", run, q, ok, p)
			}
		}
	}
}
