package bandit_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"precept/bandit"
	"precept/bandit/trial"
)

// armSums holds the counters of an arm. The numbers of sessions are n1 (lesson injected), n0 (withheld) and nu (not
// picked), and the sums of the residuals in these sessions are s1, s0 and su.
type armSums struct{ n1, s1, n0, s0, nu, su float64 }

func (s armSums) addTo(c *bandit.Chooser, arm string, day int32) {
	for field, v := range map[string]float64{"n1": s.n1, "s1": s.s1, "n0": s.n0, "s0": s.s0, "nu": s.nu, "su": s.su} {
		c.Add([]trial.Delta{delta(arm, field, day, trial.Fixed(v))})
	}
}

// solve returns the mean and the variance of the lesson's effect and of the match effect, computed with the formulas in
// the specification. A residual is a reward minus the predicted reward. In a session with a match, the expected
// residual is the match effect, and if the lesson was injected, the match effect plus the lesson's effect.
func (s armSums) solve(p bandit.Priors, mu0 float64) (mean, variance, matchEffect, matchVariance float64) {
	a := 1/p.MatchVariance + (s.n0+s.nu+s.n1)/p.RewardVariance
	b := s.n1 / p.RewardVariance
	d := 1/p.EffectVariance + s.n1/p.RewardVariance
	r0, r1 := (s.s0+s.su+s.s1)/p.RewardVariance, mu0/p.EffectVariance+s.s1/p.RewardVariance
	det := a*d - b*b
	return (a*r1 - b*r0) / det, a / det, (d*r0 - b*r1) / det, d / det
}

func genArmSums(t *rapid.T) armSums {
	n, r := rapid.Float64Range(0, 300), rapid.Float64Range(-0.3, 0.3)
	e := armSums{
		n1: trial.Round(n.Draw(t, "n1")),
		n0: trial.Round(n.Draw(t, "n0")),
		nu: trial.Round(n.Draw(t, "nu")),
	}
	e.s1, e.s0, e.su = trial.Round(
		e.n1*r.Draw(t, "r1"),
	), trial.Round(
		e.n0*r.Draw(t, "r0"),
	), trial.Round(
		e.nu*r.Draw(t, "ru"),
	)
	return e
}

// assertNear fails the test if two numbers differ by more than a rounding error.
func assertNear(t *rapid.T, subject string, got, want float64) {
	t.Helper()
	if math.Abs(got-want) > 1e-9+1e-6*math.Abs(want) {
		t.Fatalf("%s = %v, want %v", subject, got, want)
	}
}

// Posterior treats a negative count as 0. A count can be negative if the correction of a reward arrives before the
// reward.
func TestPosteriorMatchesFormulas(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := genArmSums(t)
		observed, want := e, e
		for _, pair := range [][4]*float64{{&observed.n1, &observed.s1, &want.n1, &want.s1}, {&observed.n0, &observed.s0, &want.n0, &want.s0}, {&observed.nu, &observed.su, &want.nu, &want.su}} {
			if rapid.IntRange(0, 2).Draw(t, "negative") == 0 {
				*pair[0], *pair[2], *pair[3] = -*pair[0], 0, 0
			}
		}
		c := bandit.New()
		observed.addTo(c, "a@1", 0)
		p := c.Posterior(lesson("a"))
		mean, variance, matchEffect, _ := want.solve(bandit.DefaultPriors(), 0.01)
		assertNear(t, "the mean", p.Mean, mean)
		assertNear(t, "the variance", p.Var, variance)
		assertNear(t, "the match effect", p.MatchEffect, matchEffect)
		if enough := want.n1+want.n0 >= 200; p.Benched != (enough && mean < 0 || !enough && mean < -0.25*math.Sqrt(variance)) {
			t.Fatalf("mean %v, variance %v, %v picks: Benched = %v, want the opposite", mean, variance, want.n1+want.n0, p.Benched)
		}
	})
}

// Refit uses the lessons with at least five injected picks, and ten pseudo-lessons that have the default priors.
func TestRefitMatchesThreeEMSteps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := bandit.New()
		var all []armSums
		for i := range rapid.IntRange(0, 6).Draw(t, "lessons") {
			e := genArmSums(t)
			e.addTo(c, fmt.Sprintf("l%d@1", i), 0)
			if e.n1 >= 5 {
				all = append(all, e)
			}
		}
		want := bandit.DefaultPriors()
		k := float64(len(all)) + 10
		for range 3 {
			mu0 := 10 * 0.01
			for _, e := range all {
				mean, _, _, _ := e.solve(want, want.MeanEffect)
				mu0 += mean
			}
			mu0 = max(0.01, mu0/k)
			t02, w2 := 10*0.0016, 10*0.01
			for _, e := range all {
				mean, variance, matchEffect, matchVariance := e.solve(want, want.MeanEffect)
				t02, w2 = t02+(mean-mu0)*(mean-mu0)+variance, w2+matchEffect*matchEffect+matchVariance
			}
			want.MeanEffect, want.EffectVariance, want.MatchVariance = mu0, max(0.0002, t02/k), max(0.0005, w2/k)
		}
		got := c.Refit()
		assertNear(t, "MeanEffect", got.MeanEffect, want.MeanEffect)
		assertNear(t, "EffectVariance", got.EffectVariance, want.EffectVariance)
		assertNear(t, "MatchVariance", got.MatchVariance, want.MatchVariance)
		if got.Version != 1 || c.Priors().Version != 0 {
			t.Fatalf("Refit version = %d, version in use = %d, want 1 and 0", got.Version, c.Priors().Version)
		}
	})
}

func TestMeanBeforeUsesOnlyEarlierDays(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		allDays, before := bandit.New(), bandit.New()
		at := rapid.Int32Range(100, 140).Draw(t, "day")
		for day := int32(100); day <= 140; day += 10 {
			e := genArmSums(t)
			e.n1, e.s1 = e.n1/50, e.s1/50 // too few sessions for the detection of a change
			e.addTo(allDays, "a@1", day)
			if day < at {
				e.addTo(before, "a@1", day)
			}
		}
		allDays.Advance(140, 20)
		before.Advance(at, 20)
		assertNear(t, "the mean", allDays.MeanBefore(lesson("a"), at), before.PosteriorFromCounters(lesson("a")).Mean)
		if got := allDays.Clone().MeanBefore(lesson("a"), at); got != allDays.MeanBefore(lesson("a"), at) {
			t.Fatalf("clone: MeanBefore = %v, want %v", got, allDays.MeanBefore(lesson("a"), at))
		}
		if got, want := allDays.Clone().
			PosteriorFromCounters(lesson("a")),
			allDays.PosteriorFromCounters(
				lesson("a"),
			); got != want {
			t.Fatalf("clone: PosteriorFromCounters = %+v, want %+v", got, want)
		}
	})
	if got := bandit.New().MeanBefore(lesson("a"), 100); got != 0.01 {
		t.Errorf("unknown lesson: MeanBefore = %v, want 0.01", got)
	}
}

func TestInheritKeepsProvisionalRewards(t *testing.T) {
	c := bandit.New()
	a := &trial.Assignment{
		Decided:  true,
		Category: "x",
		Base:     0.5,
		Day:      3,
		Matched:  []trial.Match{{Arm: "a@1"}},
		Picks: []trial.Pick{
			{Slug: "a", Arm: "a@1", Eps: 0.5, Injected: true, Offset: 0.5, Centre: 0.5, Trial: "7.2"}, // a trial with two planned picks
		},
	}
	one, two := c.AddProvisional(a, 1, 1), c.AddProvisional(a, 1, 1)
	lessonA := lesson("a")
	lessonA.Epsilon, lessonA.Trial = 0.5, "7.2"
	if p := c.Posterior(lessonA); !p.TrialEnded || !one.Rewarded() {
		t.Fatalf("both picks rewarded: belief = %+v, want TrialEnded = true", p)
	}
	reloaded := bandit.New()
	reloaded.Inherit(c)
	n, sum := reloaded.Baseline("x")
	if got, want := reloaded.Posterior(lessonA), c.Posterior(lessonA); got != want || n != 2 || sum != 2 {
		t.Errorf("after Inherit: belief = %+v, baseline = %v sessions with sum %v, want %+v, 2 and 2", got, n, sum, want)
	}
	reloaded.DropProvisional(one)
	if p := reloaded.Posterior(lessonA); p.TrialEnded {
		t.Errorf("one reward withdrawn: belief = %+v, want TrialEnded = false", p)
	}
	reloaded.DropProvisional(two)
	empty := bandit.New()
	if got, want := reloaded.Posterior(lessonA), empty.Posterior(lessonA); got != want {
		t.Errorf("without provisional rewards: belief = %+v, want %+v", got, want)
	}
}

// RaiseMaxima moves the chooser to the current day. MergeMaxima adds the strongest evidence that another replica has
// seen.
func TestRaiseMaximaAdvancesDay(t *testing.T) {
	c := bandit.New()
	armSums{n1: 100, s1: 20}.addTo(c, "a@1", 100)
	before := c.Posterior(lesson("a")).Mean
	c.RaiseMaxima(time.Unix(2100*86_400, 0))
	if got := c.Posterior(lesson("a")).Mean; got >= before-0.005 {
		t.Errorf("mean after 2,000 days = %v, want less than %v", got, before-0.005)
	}
	c.TrialCounters().MergeMaxima([]trial.Delta{delta("a@1", "emax+", 0, trial.Fixed(4))})
	if got := c.TrialCounters().Stats("a@1").Maxima.LogEHelps; got != 4 {
		t.Errorf("after MergeMaxima: LogEHelps = %v, want 4", got)
	}
}

// A unit is a run with several sessions. All sessions of a unit share one budget of picks. A withheld lesson uses the
// budget like an injected one.
func TestDecideSharedRespectsSlotsAndBudget(t *testing.T) {
	decided := func() *trial.Assignment {
		return &trial.Assignment{
			Decided: true,
			Matched: []trial.Match{{Arm: "a@1"}, {Arm: "b@1"}, {Arm: "c@1"}},
			Picks: []trial.Pick{
				{
					Slug:     "a",
					Arm:      "a@1",
					Eps:      0.5,
					Injected: true,
					Turn:     1,
				},
				{Slug: "b", Arm: "b@1", Eps: 0.5, Turn: 1},
				{Slug: "c", Arm: "c@1", Eps: 0.5, Injected: true, Turn: 2},
				{Slug: "loop-warning", Arm: trial.LoopArm, Eps: 0.5, Injected: true, Turn: 3},
			},
		}
	}
	actions := lessons("c", "b", "a")
	for i := range actions {
		actions[i].Size = 100
	}
	warning := bandit.Action{Slug: "loop-warning", Arm: trial.LoopArm, Forced: true, Size: 1000}
	for name, tc := range map[string]struct {
		k, room, spent int
		more           []bandit.Action
		want           []string
	}{
		"no limit":                   {k: 3, want: []string{"a", "b", "c"}},
		"two slots":                  {k: 2, want: []string{"a", "b"}},
		"two slots left":             {k: 3, spent: 4, want: []string{"a", "b"}},
		"no slot left":               {k: 3, spent: 6},
		"no slot left, loop warning": {k: 3, spent: 7, more: []bandit.Action{warning}, want: []string{"loop-warning"}},
		"room for two":               {k: 3, room: 200, want: []string{"a", "b"}},
		"room for nearly two":        {k: 3, room: 199, want: []string{"a"}},
		"room for none":              {k: 3, room: bandit.NoRoom},
	} {
		given, fresh := bandit.DecideShared(
			bandit.Config{K: tc.k, Room: tc.room},
			flatBeliefs{},
			decided(),
			"u",
			append(actions, tc.more...),
			tc.spent,
		)
		if got := slugs(given); fmt.Sprint(got) != fmt.Sprint(tc.want) || len(fresh) != 0 {
			t.Errorf("%s: DecideShared = %v and new picks %v, want %v and no new pick", name, got, slugs(fresh), tc.want)
		}
	}
	// The later decision is made at a later turn, and uses the remaining slots.
	a := decided()
	given, fresh := bandit.DecideShared(
		bandit.Config{K: 3},
		flatBeliefs{beliefsBySlug{"d": {Mean: 0.1}, "e": {Mean: 0.05}}},
		a,
		"u",
		lessons("a", "c", "d", "e"),
		0,
	)
	if len(given) != 2 || len(fresh) != 1 || fresh[0].Slug != "d" || fresh[0].Turn != 4 ||
		len(a.Matched) != 5 {
		t.Errorf("later decision: DecideShared = %v and new picks %+v, %d matches, want 2 picks, d at turn 4, and 5 matches", slugs(given), fresh, len(a.Matched))
	}
}
