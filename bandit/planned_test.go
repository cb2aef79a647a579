package bandit_test

import (
	"fmt"
	"testing"
	"time"

	"precept/bandit"
	"precept/bandit/trial"
)

type rewardedSession struct {
	name       string
	assignment trial.Assignment
	reward     float64
}

// trialSessions simulates n sessions in which lesson a is in a planned trial.
func trialSessions(n int, name string, effect float64, seed string) []rewardedSession {
	lessonA := lesson("a")
	lessonA.Epsilon, lessonA.Trial = 0.5, name
	c, cfg, r := bandit.New(), bandit.Config{K: 1, Epsilon: 0.2, Salt: seed}, seededRand(seed)
	var out []rewardedSession
	for i := range n {
		s := rewardedSession{name: fmt.Sprintf("%08x-session", i*7919), assignment: trial.Assignment{Category: "x", StartUnix: int64(1000 + i/3), Day: int32(i / 100)}}
		bandit.Decide(cfg, c, &s.assignment, s.name, []bandit.Action{lessonA}, 1)
		chance := 0.5
		if len(s.assignment.Picks) > 0 && s.assignment.Picks[0].Injected {
			chance += effect
		}
		if r.Float64() < chance {
			s.reward = 1
		}
		out = append(out, s)
	}
	return out
}

// A planned trial ends after a fixed number of rewarded picks, here 60. For the chooser, picks in open sessions also
// count, but for the report they do not.
func TestPlannedTrialEndsAtPlannedPicks(t *testing.T) {
	name := trial.PlannedName(time.Unix(900, 0), 60, "")
	lessonA := lesson("a")
	lessonA.Epsilon, lessonA.Trial = 0.5, name
	all := trialSessions(100, name, 0, "end")
	c, rewarded := bandit.New(), 0
	var provisional []bandit.Provisional
	for i := range all {
		if len(all[i].assignment.Picks) == 0 || rewarded == 60 {
			continue
		}
		if c.Posterior(lessonA).TrialEnded {
			t.Fatalf("trial ended after %d rewarded picks, want 60", rewarded)
		}
		rewarded++
		if rewarded > 40 {
			provisional = append(provisional, c.AddProvisional(&all[i].assignment, all[i].reward, 1))
			continue
		}
		c.Add(all[i].assignment.TrialEntries(all[i].name, all[i].reward))
	}
	if chooser, counted, evaluated := c.Posterior(lessonA).TrialEnded, c.PosteriorFromCounters(lessonA).TrialEnded, c.TrialCounters().Evaluations()[0].Evaluated; !chooser || counted || evaluated {
		t.Errorf("40 closed and 20 open sessions: Posterior.TrialEnded = %v, PosteriorFromCounters.TrialEnded = %v, Evaluated = %v, want true, false, false", chooser, counted, evaluated)
	}
	copied := c.Clone()
	if e := copied.TrialCounters().Evaluations()[0]; copied.PosteriorFromCounters(lessonA).TrialEnded || e.Entries != 40 {
		t.Errorf("clone: PosteriorFromCounters.TrialEnded = %v, Rewarded = %d, want false, 40", copied.PosteriorFromCounters(lessonA).TrialEnded, e.Entries)
	}
	reloaded := bandit.New()
	reloaded.Inherit(c)
	reloaded.Add(nil)
	for _, e := range provisional {
		reloaded.DropProvisional(e)
		c.DropProvisional(e)
	}
	if c.Posterior(lessonA).TrialEnded || reloaded.Posterior(lessonA).TrialEnded {
		t.Error("after DropProvisional: Posterior.TrialEnded = true, want false")
	}
	cfg := bandit.Config{K: 1, Epsilon: 0.2, Objective: bandit.All}
	a := trial.Assignment{}
	if p := bandit.Decide(cfg, c, &a, "all", []bandit.Action{lessonA}, 1); len(p) != 1 || p[0].Trial != "" || p[0].Eps != 0.2 {
		t.Errorf("objective all: picks = %+v, want one with epsilon 0.2 that is not in a trial", p)
	}
}

// If a loop warning comes before the first matching lesson, the session stays in the comparison. The centre (the
// expected reward that the first decision records) does not change afterwards. AnyInjected counts the later lessons,
// but not the warning.
func TestLoopWarningKeepsSessionInComparison(t *testing.T) {
	warning := bandit.Action{Slug: trial.LoopArm.Slug(), Arm: trial.LoopArm, Forced: true}
	treated, control := 0, 0
	for i := range 200 {
		c, name := bandit.New(), fmt.Sprint("warned", i)
		cfg := bandit.Config{K: 3, Epsilon: 0.5, Control: 0.3, Objective: bandit.All, Salt: "w"}
		a := trial.Assignment{Category: "x"}
		bandit.Decide(cfg, c, &a, name, []bandit.Action{warning}, 1)
		if !a.InComparison() || a.Centre == 0 {
			t.Fatalf("assignment after a loop warning = %+v, want it in the comparison, with a centre other than 0", a)
		}
		centre := a.Centre
		bandit.Decide(cfg, c, &a, name, []bandit.Action{lesson("a"), lesson("b")}, 2)
		c.Add(append(a.ClosingDeltas(), bandit.Contribution(&a, 1, 1)...))
		g := c.TrialCounters().Global()
		if a.Centre != centre || g.N != 1 {
			t.Fatalf("centre = %v, comparison = %+v, want %v and 1 session", a.Centre, g, centre)
		}
		if a.Control {
			control++
			continue
		}
		assigned := [2]int64{1, 0}
		if a.Picks[1].Injected || a.Picks[2].Injected {
			assigned = [2]int64{0, 1}
		}
		if len(g.All.AnyInjected) != 1 || g.All.AnyInjected[0].Eps != 0.25 || g.All.AnyInjected[0].Assigned != assigned {
			t.Fatalf("strata = %+v for picks %+v, want one with Eps = 0.25 and Assigned = %v", g.All.AnyInjected, a.Picks, assigned)
		}
		treated++
	}
	if treated < 50 || control < 20 {
		t.Errorf("%d treated and %d control sessions, want at least 50 and 20", treated, control)
	}
}

// The room is the number of bytes for all lessons in a request. Lessons use it in the order of their ranks, before some
// of them are withheld at random, so a withheld lesson uses room as well.
func TestDecidePicksOnlyLessonsThatFitRoom(t *testing.T) {
	list := lessons("a", "b", "c", "d")
	for i, size := range []int{600, 700, 500, 100} {
		list[i].Size, list[i].Confidence = size, 1-float64(i)/10
	}
	for room, want := range map[int]string{0: "[a b c]", bandit.NoRoom: "[]", 99: "[]", 700: "[a]", 1300: "[a b]", 1200: "[a c]", 5000: "[a b c]"} {
		for _, eps := range []float64{0, 1} {
			a := trial.Assignment{}
			var got []string
			for _, p := range bandit.Decide(bandit.Config{K: 3, Epsilon: eps, Objective: bandit.All, Room: room}, bandit.New(), &a, "s", list, 1) {
				got = append(got, p.Slug)
			}
			if fmt.Sprint(got) != want || len(a.Matched) != 4 {
				t.Errorf("Room %d, epsilon %v: picked %v from %d matches, want %s from 4", room, eps, got, len(a.Matched), want)
			}
		}
	}
}
