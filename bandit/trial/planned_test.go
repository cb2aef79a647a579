package trial_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"precept/bandit/trial"
)

type rewardedSession struct {
	name       string
	assignment trial.Assignment
	reward     float64
}

// trialSessions simulates n sessions with a lesson that raises the success probability from 0.5 to 0.5 + effect.
func trialSessions(n int, name string, effect float64, seed uint64) []rewardedSession {
	r := rand.New(rand.NewPCG(seed, 1)) //nolint:gosec // the tests need repeatable numbers
	var out []rewardedSession
	for i := range n {
		s := rewardedSession{name: fmt.Sprintf("%08x-session", i*7919), assignment: trial.Assignment{Category: "x", StartUnix: int64(1000 + i/3), Day: int32(i / 100)}}
		salt := fmt.Sprint(seed)
		s.assignment.FlipControl(salt, s.name, 0)
		s.assignment.Flip(salt, s.name, trial.Pick{Slug: "a", Arm: "a@1", Eps: 0.5, Centre: 0.5, Trial: name})
		chance := 0.5
		if s.assignment.Picks[0].Injected {
			chance += effect
		}
		if r.Float64() < chance {
			s.reward = 1
		}
		out = append(out, s)
	}
	return out
}

// The evaluation of a planned trial uses the 200 rewarded picks whose sessions began first, even if a replica counts
// the sessions in a different order.
func TestPlannedEvaluationIsSameOnEveryReplica(t *testing.T) {
	name := trial.PlannedName(time.Unix(900, 0), 200, "")
	all := trialSessions(500, name, 0.2, 7)
	var z, zz float64
	var n, injected int64
	for _, s := range all { // computes the expected sums of z and z squared
		for _, p := range s.assignment.Picks {
			if n == 200 {
				continue
			}
			x := -(s.reward - p.Centre) / p.Eps
			if p.Injected {
				x = (s.reward - p.Centre) / (1 - p.Eps)
				injected++
			}
			n, z, zz = n+1, z+x, zz+x*x
		}
	}
	r := rand.New(rand.NewPCG(3, 1)) //nolint:gosec // the tests need repeatable numbers
	for round := range 5 {
		r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		c, parts := trial.NewCounters(), [2][]trial.Delta{}
		for i := range all {
			parts[i%2] = append(parts[i%2], all[i].assignment.TrialEntries(all[i].name, all[i].reward)...)
			if l := c.Evaluations(); i == 20 && len(l) > 0 && l[0].Evaluated {
				t.Fatalf("evaluation after %d sessions = %+v, want Evaluated = false", i, l[0])
			}
			c.Add(all[i].assignment.TrialEntries(all[i].name, all[i].reward))
		}
		if round == 4 { // a third replica loads the merged counts
			c = trial.NewCounters()
			c.Add(mergeDeltas(parts[0], parts[1]))
		}
		l := c.Evaluations()
		if len(l) != 1 || !l[0].Evaluated || l[0].Planned != 200 || l[0].Injected+l[0].Withheld != 200 || l[0].Injected != injected ||
			math.Abs(l[0].Z-z) > 1e-3 || math.Abs(l[0].ZZ-zz) > 1e-3 {
			t.Fatalf("round %d: evaluations = %+v, want one with %v picks, %v injected, Z = %v and ZZ = %v", round, l, n, injected, z, zz)
		}
	}
}

// The scope of a planned trial is the arm, "#" and the name of the trial. The arm of a section in a rules file may
// itself contain "#".
func TestSectionPlannedTrialIsEvaluated(t *testing.T) {
	const arm = trial.Arm("rule:CLAUDE.md#Unit #1 tests@0123456789ab")
	name, c := trial.PlannedName(time.Unix(100, 0), 2, ""), trial.NewCounters()
	for i, id := range []string{"00000001", "00000002"} {
		a := trial.Assignment{StartUnix: 101, Picks: []trial.Pick{{Slug: "rule:CLAUDE.md#Unit #1 tests", Arm: arm, Eps: 0.5, Injected: i == 0, Trial: name}}}
		c.Add(a.TrialEntries(id, 1))
	}
	if l := c.Evaluations(); len(l) != 1 || l[0].Arm != arm || l[0].Trial != name || !l[0].Evaluated || l[0].Injected != 1 || l[0].Withheld != 1 {
		t.Errorf("evaluations = %+v, want one for %s with one injected and one withheld session", l, arm)
	}
}

// The formula for PicksFor gives (1.96 + 0.84)^2 * 0.24 * 4 / 0.05^2 = 3014 picks.
func TestPlanningFunctionsMatchFormulas(t *testing.T) {
	n := trial.PicksFor(0.05, 0.8, 0.05, 0.5, 0.24)
	if n < 3010 || n > 3018 {
		t.Errorf("PicksFor = %d, want 3010 to 3018", n)
	}
	if d := trial.DetectableEffect(n, 0.8, 0.05, 0.5, 0.24); math.Abs(d-0.05) > 1e-4 {
		t.Errorf("DetectableEffect(%d picks) = %v, want 0.05", n, d)
	}
	// effect, power, level, epsilon, variance
	for _, bad := range [][5]float64{{0, 0.8, 0.05, 0.5, 0.24}, {0.05, 1, 0.05, 0.5, 0.24}, {0.05, 0.8, 0, 0.5, 0.24}, {0.05, 0.8, 0.05, 0, 0.24}, {0.05, 0.8, 0.05, 0.5, 0}} {
		if n := trial.PicksFor(bad[0], bad[1], bad[2], bad[3], bad[4]); n != 0 {
			t.Errorf("PicksFor(%v) = %d, want 0", bad, n)
		}
	}
	if w, always := trial.PlannedHalfWidth(1000, 1), trial.HalfWidth(1000, 1, trial.LessonTightestAt); w/always < 0.6 || w/always > 0.7 {
		t.Errorf("half-width after 1000 picks: got %v for one evaluation and %v for any number of evaluations, want a ratio from 0.6 to 0.7", w, always)
	}
	if p := trial.PlannedP(0.1, 400, 1); math.Abs(p-0.0455) > 1e-4 { // two standard errors
		t.Errorf("PlannedP(two standard errors) = %v, want 0.0455", p)
	}
	if p := trial.PlannedP(-0.1, 400, 4); math.Abs(p-0.3173) > 1e-4 { // one standard error, below 0
		t.Errorf("PlannedP(minus one standard error) = %v, want 0.3173", p)
	}
}

// A planned trial finds an existing effect in about 80% of the runs. If there is no effect, it reports one in about 5%
// of the runs.
func TestPlannedEvaluationHasStatedPower(t *testing.T) {
	const runs = 300
	n := trial.PicksFor(0.15, 0.8, 0.05, 0.5, 0.25)
	for _, tc := range []struct{ effect, minShare, maxShare float64 }{{0.15, 0.72, 0.88}, {0, 0.01, 0.09}} {
		found := 0
		for run := range uint64(runs) {
			all, k := trialSessions(int(n)+20, trial.PlannedName(time.Unix(1, 0), n, ""), tc.effect, run), trial.NewCounters()
			for i := range all {
				k.Add(all[i].assignment.TrialEntries(all[i].name, all[i].reward))
			}
			l := k.Evaluations()[0]
			e := l.Z / float64(n)
			if l.Evaluated && trial.PlannedP(e, float64(n), l.ZZ/float64(n)-e*e) <= 0.05 {
				found++
			}
		}
		if share := float64(found) / runs; share < tc.minShare || share > tc.maxShare {
			t.Errorf("effect %v: share of runs (%d picks each) with a reported effect: got %v, want %v to %v", tc.effect, n, share, tc.minShare, tc.maxShare)
		}
	}
}

// The trial is planned for 60 rewarded picks. Picks in sessions that are still open also count: their number is the
// last argument of Progress.
func TestPlannedTrialEndsWithEnoughRewardedPicks(t *testing.T) {
	name := trial.PlannedName(time.Unix(900, 0), 60, "")
	c := trial.NewCounters()
	for _, s := range trialSessions(40, name, 0, 5) {
		c.Add(s.assignment.TrialEntries(s.name, s.reward))
	}
	for open, want := range map[int64]bool{0: false, 19: false, 20: true, 21: true} {
		if got := c.Progress("a@1", 0, name, open).TrialEnded; got != want {
			t.Errorf("40 counted and %d open picks: TrialEnded = %v, want %v", open, got, want)
		}
	}
	if c.Progress("a@1", 0, "", 100).TrialEnded || c.Progress("b@1", 0, name, 0).TrialEnded || !c.Progress("b@1", 0, name, 60).TrialEnded {
		t.Errorf("TrialEnded = %v without a trial, %v for b without open picks and %v for b with 60 open picks; want false, false and true",
			c.Progress("a@1", 0, "", 100).TrialEnded, c.Progress("b@1", 0, name, 0).TrialEnded, c.Progress("b@1", 0, name, 60).TrialEnded)
	}
	if l := c.Clone().Evaluations(); len(l) != 1 || l[0].Entries != 40 {
		t.Errorf("clone: Evaluations = %+v, want one with 40 rewarded picks", l)
	}
}

// A trial by width ends when the interval is narrow enough. The trial stays ended if the interval widens again. Inherit
// copies this state to another Counters.
func TestTrialByWidthStaysEnded(t *testing.T) {
	c := trial.NewCounters()
	addRewards := func(n int, eps float64) {
		for i := range n {
			a := trial.Assignment{Picks: []trial.Pick{{Arm: "a@1", Eps: eps, Injected: i%2 == 0, Centre: 0.5}}}
			c.Add(a.Contribution(float64(i/2%2), 1))
		}
	}
	addRewards(500, 0.5)
	if c.Progress("a@1", 0.1, "", 0).TrialEnded {
		t.Error("after 500 picks: TrialEnded = true, want false, because the half-width of the interval is above 0.1")
	}
	addRewards(700, 0.5)
	if with, without := c.Progress("a@1", 0.1, "", 0).TrialEnded, c.Progress("a@1", 0, "", 0).TrialEnded; !with || without {
		t.Errorf("after 1,200 picks: TrialEnded: got %v for width 0.1 and %v without a width, want true and false",
			with, without)
	}
	addRewards(100, 0.01)
	if !c.Progress("a@1", 0.1, "", 0).TrialEnded {
		t.Error("after the interval has widened again: TrialEnded = false, want true")
	}
	clone := c.Clone()
	if clone.Progress("a@1", 0.1, "", 0).TrialEnded {
		t.Error("clone without Inherit: TrialEnded = true, want false")
	}
	clone = c.Clone()
	clone.Inherit(c)
	if !clone.Progress("a@1", 0.1, "", 0).TrialEnded {
		t.Error("after Inherit: TrialEnded = false, want true")
	}
}

func TestTrialNameContainsStartAndPicks(t *testing.T) {
	for name, want := range map[string]struct{ began, planned int64 }{
		"900.200": {900, 200}, "0.1": {0, 1}, "1.0": {1, 0}, "": {}, "900": {900, 0}, ".5": {0, 5}, "x.7": {0, 7}, "900.x": {900, 0}, "900.-3": {900, 0}, "900.2.3": {900, 0},
	} {
		if got := trial.NewEvaluation("a@1", name); got != (trial.Evaluation{Arm: "a@1", Trial: name, Began: want.began, Planned: want.planned}) {
			t.Errorf("NewEvaluation(%q) = %+v, want Began = %d and Planned = %d", name, got, want.began, want.planned)
		}
		if got := trial.PlannedPicks(name); got != want.planned {
			t.Errorf("PlannedPicks(%q) = %d, want %d", name, got, want.planned)
		}
	}
	for picks, want := range map[int64]string{1: "900.1", 200: "900.200", 0: "", -4: ""} {
		if got := trial.PlannedName(time.Unix(900, 5), picks, ""); got != want {
			t.Errorf("PlannedName for %d picks = %q, want %q", picks, got, want)
		}
	}
	if got := trial.PlannedName(time.Unix(-7, 0), 3, ""); got != "0.3" {
		t.Errorf("PlannedName for a time before 1970 = %q, want 0.3", got)
	}
}

// The trial is planned for three picks. The sums in the evaluation contain the picks so far, and at most three. If a
// late pick comes from a session that began earlier than one of the three sessions, the late pick replaces the pick
// from the session that began last.
func TestPlannedEvaluationWaitsForLastPick(t *testing.T) {
	name := trial.PlannedName(time.Unix(50, 0), 3, "")
	c := trial.NewCounters()
	addReward := func(session string, at int64, injected bool, y float64) {
		a := sessionWithPick(0.2, injected, 0.5)
		a.StartUnix, a.Picks[0].Trial = at, name
		c.Add(a.TrialEntries(session, y))
	}
	checkEvaluation := func(w trial.Evaluation) {
		t.Helper()
		w.Arm, w.Trial, w.Began, w.Planned = "a@1", name, 50, 3
		got := c.Evaluations()
		if len(got) != 1 || math.Abs(got[0].Z-w.Z) > 1e-9 || math.Abs(got[0].ZZ-w.ZZ) > 1e-9 {
			t.Fatalf("evaluations = %+v, want %+v", got, w)
		}
		if got[0].Z, got[0].ZZ = w.Z, w.ZZ; got[0] != w {
			t.Fatalf("evaluation = %+v, want %+v", got[0], w)
		}
	}
	with, without := 0.5/0.8, -0.5/0.2
	addReward("bbbbbbbb-1", 100, true, 1)
	checkEvaluation(trial.Evaluation{Entries: 1, LastStart: 100, Z: with, ZZ: with * with, Injected: 1})
	addReward("cccccccc-2", 102, false, 1)
	checkEvaluation(trial.Evaluation{Entries: 2, LastStart: 102, Z: with + without, ZZ: with*with + without*without, Injected: 1, Withheld: 1})
	addReward("dddddddd-3", 103, true, 0)
	checkEvaluation(trial.Evaluation{Entries: 3, Evaluated: true, LastStart: 103, Z: without, ZZ: 2*with*with + without*without, Injected: 2, Withheld: 1})
	addReward("eeeeeeee-4", 104, false, 0) // began after the third session
	checkEvaluation(trial.Evaluation{Entries: 4, Evaluated: true, LastStart: 103, Z: without, ZZ: 2*with*with + without*without, Injected: 2, Withheld: 1})
	addReward("aaaaaaaa-5", 102, false, 0) // began at the same time as the second session, but its name sorts first
	checkEvaluation(trial.Evaluation{Entries: 5, Evaluated: true, LastStart: 102, Z: with, ZZ: with*with + 2*without*without, Injected: 1, Withheld: 2})
}

// z is what one session contributes to the effect estimate. It is stored in millionths.
func TestPlannedEntryContainsZAndInjection(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		eps, injected := rapid.Float64Range(0.001, 0.999).Draw(t, "eps"), rapid.Bool().Draw(t, "injected")
		y, centre := rapid.Float64Range(-1, 2).Draw(t, "y"), rapid.Float64Range(0, 1).Draw(t, "c")
		a := sessionWithPick(eps, injected, centre)
		a.Picks[0].Trial = "7.1"
		ds := a.TrialEntries(rapid.SampledFrom([]string{"", "s", "a-long-name-of-a-session"}).Draw(t, "session"), y)
		if len(ds) != 1 || ds[0].Value == 0 || len(ds[0].Key.Field) > len("0.")+8 {
			t.Fatalf("entries = %v, want one entry, with a value other than 0 and a field name of at most 10 bytes", ds)
		}
		c := trial.NewCounters()
		c.Add(ds)
		l := c.Evaluations()[0]
		z := trial.Round(weightedReward(min(max(y, 0), 1), centre, eps, injected))
		if math.Abs(l.Z-z) > 2e-6 || math.Abs(l.ZZ-z*z) > 1e-2 || l.Injected == 1 != injected || l.Withheld == 0 != injected || !l.Evaluated {
			t.Fatalf("evaluation = %+v, want Z = %v, ZZ = Z squared, one pick (injected: %v) and Evaluated = true", l, z, injected)
		}
	})
}

func TestTrialEntriesNeedRandomRewardedPick(t *testing.T) {
	a := sessionWithPick(0.5, injected, 0.5)
	if got := a.TrialEntries("s", 1); got != nil {
		t.Errorf("entries without a trial = %v, want none", got)
	}
	a.Picks = append(a.Picks, trial.Pick{Arm: "sure@1", Trial: "7.1", Injected: true}, trial.Pick{Arm: "never@1", Trial: "7.1", Eps: 1}, trial.Pick{Arm: "b@1", Trial: "7.1", Eps: 0.5})
	if got := a.TrialEntries("s", 1); len(got) != 1 || got[0].Key.Scope != trial.PlannedScope("b@1", "7.1") {
		t.Errorf("entries = %v, want one in scope %q", got, trial.PlannedScope("b@1", "7.1"))
	}
	if got := a.TrialEntries("s", math.NaN()); got != nil {
		t.Errorf("NaN reward: entries = %v, want none", got)
	}
	a.Excluded = true
	if got := a.TrialEntries("s", 1); got != nil {
		t.Errorf("excluded session: entries = %v, want none", got)
	}
}

// Evaluations are ordered by the start of the trial, then by the name of the trial, and then by the arm.
func TestEvaluationsAreOrderedByStart(t *testing.T) {
	c := trial.NewCounters()
	var want []string
	for _, tc := range []struct{ arm, name string }{{"c@1", "8.5"}, {"a@1", "9.10"}, {"b@1", "9.10"}, {"a@1", "9.2"}, {"a@1", "10.1"}} {
		want = append(want, tc.arm+" "+tc.name)
	}
	for _, i := range []int{3, 0, 4, 2, 1} {
		arm, name, _ := strings.Cut(want[i], " ")
		a := moveToArm(sessionWithPick(0.5, i%2 == 0, 0.5), trial.Arm(arm))
		a.Picks[0].Trial = name
		c.Add(a.TrialEntries("s", 1))
	}
	var got []string
	for _, l := range c.Evaluations() {
		got = append(got, string(l.Arm)+" "+l.Trial)
	}
	if !slices.Equal(got, want) {
		t.Errorf("trials = %v, want %v", got, want)
	}
}

// PicksFor returns 0 if the arguments are impossible, such as a negative effect. It never returns more than 1e12.
func TestPicksForReturnsZeroForImpossibleArguments(t *testing.T) {
	good := [5]float64{0.05, 0.8, 0.05, 0.5, 0.24} // detect, power, level, epsilon, variance
	for i, bad := range [][]float64{{0, -0.1}, {0, 1}, {0, 1}, {0, 1}, {0, -1}} {
		for _, x := range append(bad, math.NaN()) {
			g := good
			g[i] = x
			if n := trial.PicksFor(g[0], g[1], g[2], g[3], g[4]); n != 0 {
				t.Errorf("PicksFor(%v) = %d, want 0", g, n)
			}
		}
	}
	if n := trial.PicksFor(1e-9, 0.8, 0.05, 0.5, 0.24); n != 1e12 {
		t.Errorf("PicksFor(effect 1e-9) = %d, want 1e12", n)
	}
	if one, none := trial.DetectableEffect(1, 0.8, 0.05, 0.5, 0.24), trial.DetectableEffect(0, 0.8, 0.05, 0.5, 0.24); one != none || math.IsInf(none, 0) {
		t.Errorf("DetectableEffect: got %v for one pick and %v for no pick, want equal and finite numbers", one, none)
	}
}

// A trial by width ends after 50 rewarded picks at the earliest. If the width is 0 or NaN, the trial never ends.
func TestTrialByWidthEndsAtWidth(t *testing.T) {
	for _, until := range []float64{0.9, 0.3, 0.14} {
		p := &countedPicks{Counters: trial.NewCounters()}
		ended := 0
		for i := 1; i <= 1000; i++ {
			p.addSession(0.5, i%2 == 0, float64(i/2%2), 0.5)
			_, v := trial.Moments(p.n, p.z, p.zz)
			want := i >= 50 && trial.HalfWidth(p.n, v, 1000) <= until
			if got := p.Progress("a@1", until, "", 0).TrialEnded; got != want {
				t.Fatalf("width %v, after %d picks: TrialEnded = %v, want %v", until, i, got, want)
			}
			if p.Progress("a@1", 0, "", 0).TrialEnded || p.Progress("a@1", math.NaN(), "", 0).TrialEnded {
				t.Fatalf("width 0 or NaN, after %d picks: TrialEnded = true, want false", i)
			}
			if want && ended == 0 {
				ended = i
			}
		}
		t.Logf("half-width %v after %d picks", until, ended)
		if ended == 0 || until == 0.9 && ended != 50 {
			t.Errorf("width %v: the trial ended after %d picks (0: never), want an end, and for the width 0.9 an end after 50 picks", until, ended)
		}
	}
}
