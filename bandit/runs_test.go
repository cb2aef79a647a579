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

// flatBeliefs has the baseline 0.5 for every category, and predicts no reward from other facts.
type flatBeliefs struct{ beliefsBySlug }

func (flatBeliefs) Expected(*trial.Assignment) (float64, bool) { return 0, false }

func (flatBeliefs) Baseline(string) (float64, float64) { return 2000, 1000 }

// crewWorld is a fleet of runs of a few agents each. The rewards of one run are correlated: share
// is the part of a session's variance that the run explains.
type crewWorld struct {
	runs, agents int
	share        float64
	effect       float64 // effect of the lesson on an agent that is shown the lesson
	spills       bool    // the effect is on all agents of a run with such an agent
}

// estimate plays the world once. coinsByRun and countedByRun say whether runs or sessions are
// randomised, and which of the two is one observation.
func (w crewWorld) estimate(seed uint64, coinsByRun, countedByRun bool) (effect, se float64) {
	r := rand.New(rand.NewPCG(seed, 7)) //nolint:gosec // a simulation
	cfg := bandit.Config{K: 3, Epsilon: 0.5, Objective: bandit.All, Salt: fmt.Sprint("world ", seed)}
	var n, z, zz float64
	take := func(a *trial.Assignment, y float64) {
		for _, d := range bandit.Contribution(a, y, 1) {
			if d.Key.Scope != "l@1" {
				continue
			}
			switch d.Key.Field {
			case "n":
				n += float64(d.Value) / trial.One
			case "z":
				z += float64(d.Value) / trial.One
			case "zz":
				zz += float64(d.Value) / trial.One
			}
		}
	}
	for run := range w.runs {
		common := r.NormFloat64() * 0.2 * math.Sqrt(w.share)
		unit := fmt.Sprint("run ", run)
		as := make([]trial.Assignment, w.agents)
		shown := make([]bool, w.agents)
		for i := range as {
			name := unit
			if !coinsByRun {
				name = fmt.Sprint(unit, "/", i)
			}
			bandit.Decide(cfg, flatBeliefs{}, &as[i], name, lessons("l"), 1)
			shown[i] = as[i].Picks[0].Injected
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
			take(&as[0], sum/float64(w.agents))
			continue
		}
		for i := range as {
			take(&as[i], ys[i])
		}
	}
	effect = z / n
	return effect, math.Sqrt((zz/n - effect*effect) / n)
}

// spread returns the standard deviation of the estimates over many plays, and the share of plays
// with 0 outside of two standard errors.
func (w crewWorld) spread(plays int, coinsByRun, countedByRun bool) (mean, sd, outside float64) {
	var s, ss float64
	for seed := range uint64(plays) { //nolint:gosec // not negative
		e, se := w.estimate(seed+1, coinsByRun, countedByRun)
		s, ss = s+e, ss+e*e
		if math.Abs(e) > 1.96*se {
			outside++
		}
	}
	k := float64(plays)
	return s / k, math.Sqrt(ss/k - s/k*s/k), outside / k
}

// Share gives each member session the arms of the unit (the run), in whatever order the members
// match, within the limits of each member.
func TestShareGivesTheArmsOfTheUnit(t *testing.T) {
	cfg := bandit.Config{K: 2, Epsilon: 0.5, Objective: bandit.Random, Salt: "s"}
	all := []string{"a", "b", "c", "d", "e", "f", "g", "h"}
	for run := range 300 {
		unit := fmt.Sprint("run ", run)
		var a trial.Assignment
		r := rand.New(rand.NewPCG(uint64(run), 1)) //nolint:gosec // a simulation
		injected := map[string]bool{}
		for range 6 { // members, each with two decisions
			spent := 0
			for range 2 {
				var some []bandit.Action
				for _, s := range all {
					if r.IntN(2) == 0 {
						some = append(some, lesson(s))
					}
				}
				before := len(a.Picks)
				given, fresh := bandit.Share(cfg, beliefsBySlug{}, &a, unit, some, spent)
				if len(a.Picks)-before != len(fresh) || len(given)+len(fresh) > cfg.K || spent+len(given)+len(fresh) > 2*cfg.K {
					t.Fatalf("got %d picks of the unit and %d new after %d, want at most K a turn and 2K in all", len(given), len(fresh), spent)
				}
				spent += len(given) + len(fresh)
				for _, p := range append(given, fresh...) {
					if was, ok := injected[p.Slug]; ok && was != p.Injected {
						t.Fatalf("unit %s: %s is injected: %v in one member and %v in another, want one coin", unit, p.Slug, was, p.Injected)
					}
					injected[p.Slug] = p.Injected
				}
			}
		}
		seen := map[string]bool{}
		for _, p := range a.Picks {
			if seen[p.Slug] {
				t.Fatalf("%s was picked twice, want once", p.Slug)
			}
			seen[p.Slug] = true
		}
		if a.Picks != nil && a.Picks[0].Turn == a.Picks[len(a.Picks)-1].Turn && len(a.Picks) > cfg.K {
			t.Fatal("the picks of several turns have one turn number, want the turn of each decision")
		}
	}
}

// An edited lesson is another arm: the pick of the old text does not apply to the new text.
func TestShareTreatsAnEditedLessonAsNew(t *testing.T) {
	cfg := bandit.Config{K: 3, Objective: bandit.All, Salt: "s"}
	var a trial.Assignment
	bandit.Share(cfg, beliefsBySlug{}, &a, "u", lessons("x"), 0)
	given, fresh := bandit.Share(cfg, beliefsBySlug{}, &a, "u", []bandit.Action{{Slug: "x", Arm: "x@2"}}, 0)
	if len(given)+len(fresh) != 0 || len(a.Picks) != 1 {
		t.Errorf("got given %v, fresh %v, want no pick, and one entry in Picks", given, fresh)
	}
	given, _ = bandit.Share(cfg, beliefsBySlug{}, &a, "u", lessons("x"), 0)
	if len(given) != 1 || given[0].Arm != "x@1" {
		t.Errorf(`got %v, want one entry in given and Arm = "x@1"`, given)
	}
}

// Withheld picks take the same share of the budget of a member as injected ones.
func TestShareCountsWithheldPicksInTheBudget(t *testing.T) {
	cfg := bandit.Config{K: 3, Epsilon: 1, Objective: bandit.All, Salt: "s"}
	var a trial.Assignment
	sized := func(slug string, size int) bandit.Action {
		return bandit.Action{Slug: slug, Arm: trial.Arm(slug + "@1"), Size: size, Confidence: 0.5}
	}
	bandit.Share(cfg, beliefsBySlug{}, &a, "u", []bandit.Action{sized("x", 60)}, 0)
	cfg.Room = 100
	given, fresh := bandit.Share(cfg, beliefsBySlug{}, &a, "u", []bandit.Action{sized("x", 60), sized("y", 50), sized("z", 40)}, 0)
	if len(given) != 1 || len(fresh) != 1 || fresh[0].Slug != "z" {
		t.Errorf(`got given %v, fresh %v, want one entry in given, one entry in fresh and Slug = "z"`, given, fresh)
	}
}

// A unit has its own limit of matches: beyond the limit no new lesson is picked, and no earlier pick
// is lost.
func TestShareStopsAtTheLimitOfTheUnit(t *testing.T) {
	cfg := bandit.Config{K: 3, Objective: bandit.All, Salt: "s"}
	var a trial.Assignment
	for i := range 2 * bandit.MaxShared {
		bandit.Share(cfg, beliefsBySlug{}, &a, "u", lessons(fmt.Sprint("l", i)), 0)
	}
	if len(a.Matched) != bandit.MaxShared || len(a.Picks) != bandit.MaxShared {
		t.Errorf("got %d matches and %d picks, want %d of each", len(a.Matched), len(a.Picks), bandit.MaxShared)
	}
	if given, _ := bandit.Share(cfg, beliefsBySlug{}, &a, "u", lessons("l0"), 0); len(given) != 1 {
		t.Errorf("at the limit a member gets %v of the first pick, want one lesson", slugs(given))
	}
}

// Merging two copies in either order, and repeatedly, gives the same result without losing a pick
// of either.
func TestMergeIsCommutativeAndIdempotent(t *testing.T) {
	cfg := bandit.Config{K: 3, Epsilon: 0.5, Control: 0.3, Objective: bandit.Random, Salt: "s"}
	for run := range 200 {
		unit := fmt.Sprint("run ", run)
		a, b := trial.Assignment{Category: "a", Day: 1}, trial.Assignment{Category: "b", Day: 1}
		bandit.Share(cfg, beliefsBySlug{}, &a, unit, lessons("p", "q", "r", "s"), 0)
		if run%5 > 0 {
			bandit.Share(cfg, beliefsBySlug{}, &b, unit, lessons("r", "s", "t", "u"), 0)
		}
		ab, ba := a.Clone(), b.Clone()
		ab.Merge(&b, true)
		ba.Merge(&a, false)
		twice := ab.Clone()
		twice.Merge(&b, true)
		twice.Merge(&a, true)
		if text := fmt.Sprintf("%+v", ab); text != fmt.Sprintf("%+v", ba) || text != fmt.Sprintf("%+v", twice) {
			t.Fatalf("run %d: Merge depends on the order or on repetition, want three equal results:\n%+v\n%+v\n%+v", run, ab, ba, twice)
		}
		for _, p := range append(slices.Clone(a.Picks), b.Picks...) {
			if q, ok := ab.Pick(p.Slug); !ok || q.Injected != p.Injected {
				t.Fatalf("run %d: the merge lost the pick %s", run, p.Slug)
			}
		}
	}
}
