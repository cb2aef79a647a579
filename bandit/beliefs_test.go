package bandit_test

import (
	"math"
	"testing"

	"precept/bandit"
	"precept/bandit/trial"
)

// A leaning lesson is a lesson that probably helps, and is therefore withheld less often. In the deltas, n1 is the
// number of injected sessions, s1 is the sum of their residuals (reward minus expected reward), and nu is the number of
// matches for which the lesson was not picked.
func TestLeaningNeedsPositiveBeliefAnd50Picks(t *testing.T) {
	for _, tc := range []struct {
		picks    int
		residual float64
		want     bool
	}{{49, 0.5, false}, {50, 0.5, true}, {50, 0, false}, {400, -0.5, false}, {400, 0.1, true}} {
		c := bandit.New()
		c.Add([]trial.Delta{delta("a@1", "n1", 1, int64(tc.picks)*trial.FixedScale), delta("a@1", "s1", 1, trial.Fixed(tc.residual*float64(tc.picks))), delta("a@1", "nu", 1, 1000*trial.FixedScale)})
		if p := c.Posterior(lesson("a")); p.Leaning != tc.want {
			t.Errorf("%+v: belief = %+v, want Leaning = %v", tc, p, tc.want)
		}
	}
}

// A trusted lesson is rarely withheld. The trust must end when the mean falls, because otherwise it would take ten
// times as long to detect a harmful lesson that was lucky at first.
func TestTrustedNeedsMeanWellAboveZero(t *testing.T) {
	for _, tc := range []struct {
		picks int64
		mean  float64
		want  bool
	}{{400, 0.5, true}, {400, 0.06, true}, {400, 0.03, false}, {400, -0.5, false}, {150, 0.5, false}} {
		c := bandit.New()
		c.Add([]trial.Delta{
			delta("a@1", "n1", 1, tc.picks*trial.FixedScale),
			delta("a@1", "s1", 1, trial.Fixed(tc.mean*float64(tc.picks))),
			delta("a@1", "nu", 1, 4000*trial.FixedScale),
		})
		if p := c.Posterior(lesson("a")); p.Trusted != tc.want {
			t.Errorf("%+v: Trusted = %v with a mean of %v standard deviations, want %v", tc, p.Trusted, p.Mean/math.Sqrt(p.Var), tc.want)
		}
	}
}

func assignmentInjectingA(expected float64) *trial.Assignment {
	return &trial.Assignment{
		Decided: true, Category: "x", Base: expected, Day: 3, Matched: []trial.Match{{Arm: "a@1"}},
		Picks: []trial.Pick{{Slug: "a", Arm: "a@1", Eps: 0.2, Injected: true, Offset: expected}},
	}
}

func TestSnapshotsCountOpenSessions(t *testing.T) {
	c := bandit.New()
	a := assignmentInjectingA(0.5)
	addDay(c, 3, 40, 0.1)
	for range 20 {
		c.AddProvisional(a, 1, 1)
	}
	c.Add([]trial.Delta{delta("a@1", "n1", 3, 0)})
	if injected, _ := c.Snapshots("a@1"); len(injected) != 1 || injected[0] != 60 {
		t.Errorf("injected sessions at the snapshots = %v, want [60]", injected)
	}
}

// PosteriorFromCounters does not depend on open sessions or on the order of the rewards, whereas Posterior depends on
// both.
func TestPosteriorFromCountersIgnoresOrder(t *testing.T) {
	lessonA := lesson("a")
	turned, mixed := bandit.New(), bandit.New() // equal sums; residuals become negative in turned, and alternate in mixed
	for i := range 20 {
		level := 0.1
		if i >= 10 {
			level = -0.1
		}
		addDay(turned, 3, 100, level)
		addDay(mixed, 3, 100, 0.1-0.2*float64(i%2))
	}
	if a, b := turned.Posterior(lessonA), mixed.Posterior(lessonA); a.Mean > b.Mean-0.01 {
		t.Fatalf("mean: got %v (residuals turned negative) and %v (residuals alternate), want the first lower by at least 0.01", a.Mean, b.Mean)
	}
	want := mixed.PosteriorFromCounters(lessonA)
	if got := turned.PosteriorFromCounters(lessonA); got != want {
		t.Errorf("rewards in a different order: PosteriorFromCounters = %+v, want %+v", got, want)
	}
	before := mixed.Posterior(lessonA)
	mixed.AddProvisional(assignmentInjectingA(0.5), 1, 1)
	if got := mixed.PosteriorFromCounters(lessonA); got != want {
		t.Errorf("after a reward in an open session: PosteriorFromCounters = %+v, want %+v", got, want)
	}
	if got := mixed.Posterior(lessonA); got == before {
		t.Errorf("after a reward in an open session: Posterior = %+v, want a change", got)
	}
}

// A successor is a lesson that supersedes its parent.
func TestSuccessorMeanBeforeDependsOnlyOnCounters(t *testing.T) {
	c := bandit.New()
	addDay(c, 3, 400, 0.1)
	successor := lesson("successor")
	successor.Parent = "a@1"
	before := c.MeanBefore(successor, 4)
	c.AddProvisional(assignmentInjectingA(0.5), 1, 1)
	if got := c.MeanBefore(successor, 4); got != before || before <= 0.01 {
		t.Errorf("MeanBefore = %v with a reward in an open session and %v without, want equal means above 0.01", got, before)
	}
}
