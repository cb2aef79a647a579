package bandit_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"precept/bandit"
	"precept/bandit/trial"
)

func TestPosteriorWithoutDataIsPrior(t *testing.T) {
	c := bandit.New()
	for confidence, want := range map[float64]float64{0.5: 0.01, 1: 0.03, 0.6: 0.014, 0.25: 0.001, 0: 0.001, math.NaN(): 0.01, 7: 0.01} {
		action := lesson("a")
		action.Confidence = confidence
		p := c.Posterior(action)
		if !almostEqual(p.Mean, want) || !almostEqual(p.Var, 0.0016) || p.MatchEffect != 0 || p.Benched || p.Proven {
			t.Errorf("confidence %v: Posterior = %+v, want Mean = %v, Var = 0.0016, MatchEffect = 0, not benched and not proven", confidence, p, want)
		}
	}
}

// A lesson is benched (expected to harm) while its mean effect is more than 0.25 standard deviations below 0.
func TestBenchedLessonReturnsWhenHarmIsUnlikely(t *testing.T) {
	c := bandit.New()
	before := bandit.Posterior{}
	for range 40 {
		c.Add([]trial.Delta{delta("a@1", "n1", 0, 5*trial.FixedScale), delta("a@1", "s1", 0, -1*trial.FixedScale), delta("a@1", "nu", 0, 5*trial.FixedScale)})
		p := c.Posterior(lesson("a"))
		if p.Benched != (p.Mean < -0.25*math.Sqrt(p.Var)) || p.Mean >= before.Mean && before.Var > 0 {
			t.Fatalf("belief = %+v, want a lower mean than %v, and Benched = %v", p, before.Mean, p.Mean < -0.25*math.Sqrt(p.Var))
		}
		before = p
	}
	if !before.Benched {
		t.Fatalf("after 200 sessions 20 points below expectation: belief = %+v, want Benched = true", before)
	}
	c.Add([]trial.Delta{delta("a@1", "n1", 0, 200*trial.FixedScale), delta("a@1", "s1", 0, 60*trial.FixedScale)})
	if p := c.Posterior(lesson("a")); p.Benched {
		t.Errorf("after good sessions: belief = %+v, want Benched = false", p)
	}
}

// A lesson with 200 picks is benched as soon as its mean effect is below 0. Sessions in which the lesson matched but
// was not picked do not count towards the 200.
func TestLessonWith200PicksIsBenchedBelowZero(t *testing.T) {
	for _, tc := range []struct {
		injected, withheld, unpicked, mean float64
		want                               bool
	}{
		{injected: 160, withheld: 39, unpicked: 900, mean: -0.001},
		{injected: 160, withheld: 40, mean: -0.001, want: true},
		{injected: 160, withheld: 40, mean: 0.001},
		{injected: 20, withheld: 5, unpicked: 900, mean: -0.02, want: true},
	} {
		e := armSums{n1: tc.injected, n0: tc.withheld, nu: tc.unpicked}
		low, high := -1.0, 1.0
		for range 60 {
			mid := (low + high) / 2
			e.s1 = mid * tc.injected
			if got, _, _, _ := e.solve(bandit.DefaultPriors(), 0.01); got < tc.mean {
				low = mid
			} else {
				high = mid
			}
		}
		c := bandit.New()
		e.addTo(c, "a@1", 0)
		if p := c.Posterior(lesson("a")); math.Abs(p.Mean-tc.mean) > 1e-4 || p.Benched != tc.want {
			t.Errorf("%+v: belief = %+v, want Mean = %v and Benched = %v", tc, p, tc.mean, tc.want)
		}
	}
}

// A count can become negative if the correction of a reward arrives before the reward.
func TestNegativeCountsKeepBeliefsFinite(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := rapid.Int64Range(-3*trial.FixedScale, 3*trial.FixedScale)
		c := bandit.New()
		for _, f := range []string{"n1", "s1", "n0", "s0", "nu", "su", "n", "z", "zz", "m1", "y1", "m0", "y0", "better", "worse", "matched", "a0@200000", "told1.1@200000", "w+1"} {
			c.Add([]trial.Delta{delta("a@1", f, 0, v.Draw(t, f))})
		}
		for _, f := range []string{"cn", "cs", trial.FieldRewarded, "graded", "res2", "sumy"} {
			c.Add([]trial.Delta{delta("x:x", f, 0, 5*v.Draw(t, f)), delta("", f, 0, 5*v.Draw(t, f))})
		}
		p := c.Posterior(lesson("a"))
		if math.IsNaN(p.Mean+p.Var+p.MatchEffect) || p.Var <= 0 || math.Abs(p.Mean) > 20 {
			t.Fatalf("belief = %+v, want finite numbers, Var > 0 and a mean from -20 to 20", p)
		}
		if s, f := c.RawCounts("a@1"); s < 0 || f < 0 {
			t.Fatalf("RawCounts = %v, %v, want no negative number", s, f)
		}
		a := trial.Assignment{Category: "x"}
		bandit.Decide(bandit.Config{K: 1, Objective: bandit.Raw, Epsilon: 0.2}, c, &a, "s", lessons("a"), 1)
		if a.Base < 0 || a.Base > 1 {
			t.Fatalf("Base = %v, want 0 to 1", a.Base)
		}
		st := c.TrialCounters().Stats("a@1")
		if st.N < 0 || st.Rewards.M1 < 0 || st.Matched < 0 || st.Strata[0].Assigned[0] < 0 {
			t.Fatalf("Stats = %+v, want no negative N, Rewards.M1, Matched or Strata[0].Assigned[0]", st)
		}
		c.SetPriors(c.Refit())
		if p := c.Posterior(lesson("a")); math.IsNaN(p.Mean) || p.Var <= 0 {
			t.Fatalf("after a refit: belief = %+v, want a mean that is a number and a positive variance", p)
		}
		c.RaiseMaxima(time.Unix(0, 0))
	})
}

func TestOldEvidenceIsDiscountedByAge(t *testing.T) {
	c := bandit.New()
	c.Add([]trial.Delta{delta("a@1", "n1", 0, 100*trial.FixedScale), delta("a@1", "s1", 0, 50*trial.FixedScale)})
	meanAt := func(day int32, half float64) float64 {
		c.Advance(day, half)
		return c.Posterior(lesson("a")).Mean
	}
	for _, tc := range []struct {
		day    int32
		half   float64
		weight float64
	}{{0, 7, 1}, {7, 7, 0.5}, {14, 7, 0.25}, {14, 14, 0.5}, {-5, 7, 1}, {14, 0, 0.25}, {14, math.NaN(), 0.25}, {1000, 7, 0}, {200, 200, 0.5}} {
		want, _, _, _ := armSums{n1: 100 * tc.weight, s1: 50 * tc.weight}.solve(bandit.DefaultPriors(), 0.01)
		if got := meanAt(tc.day, tc.half); !almostEqual(got, want) {
			t.Errorf("day %d, half-life %v: mean = %v, want %v", tc.day, tc.half, got, want)
		}
	}
	c.Advance(7, 7)
	before := c.Posterior(lesson("a")).Mean
	c.Add([]trial.Delta{delta("a@1", "n1", 7, 10*trial.FixedScale), delta("a@1", "s1", 7, -10*trial.FixedScale)})
	if after := c.Posterior(lesson("a")).Mean; after >= before {
		t.Errorf("mean before and after ten sessions with residual -1: got %v and %v, want a lower mean after the sessions", before, after)
	}
}

func TestHalfLifeDependsOnClosingRate(t *testing.T) {
	const today, age = 110, 20
	for rate, want := range map[float64]float64{0: 1000, 1: 1000, 100: 300, 3000: 10, 1e6: 7} {
		c := bandit.New()
		for day := int32(today - 27); day <= today; day++ {
			c.Add([]trial.Delta{delta("", "closed", day, trial.Fixed(rate))})
		}
		armSums{n1: 100, s1: 50}.addTo(c, "a@1", today-age)
		c.AdvanceTo(time.Unix(today*86_400, 0))
		left := math.Exp2(-age / want)
		mean, _, _, _ := armSums{n1: 100 * left, s1: 50 * left}.solve(bandit.DefaultPriors(), 0.01)
		if got := c.Posterior(lesson("a")).Mean; !almostEqual(got, mean) {
			t.Errorf("%v sessions per day: mean = %v, want %v", rate, got, mean)
		}
	}
	for at, want := range map[time.Time]int32{time.Unix(-1, 0): 0, time.Date(2026, 1, 1, 23, 59, 59, 0, time.UTC): 20454, time.Unix(math.MaxInt64, 0): math.MaxInt32} {
		if got := trial.Day(at); got != want {
			t.Errorf("Day(%v) = %d, want %d", at, got, want)
		}
	}
}

func TestSuccessorInheritsHalfTheParentMean(t *testing.T) {
	c := bandit.New()
	good := []trial.Delta{delta("old@1", "n1", 1, 4000*trial.FixedScale), delta("old@1", "s1", 1, 400*trial.FixedScale), delta("old@1", "nu", 1, 4000*trial.FixedScale)}
	bad := []trial.Delta{delta("bad@1", "n1", 1, 4000*trial.FixedScale), delta("bad@1", "s1", 1, -400*trial.FixedScale), delta("bad@1", "nu", 1, 4000*trial.FixedScale)}
	c.Add(good)
	c.Add(bad)
	wantHalf := c.Posterior(bandit.Action{Slug: "old", Arm: "old@1", Confidence: 0.5}).Mean / 2
	for _, tc := range []struct {
		what string
		c    bandit.Action
		want float64
	}{
		{"supersedes a good lesson", bandit.Action{Slug: "new", Arm: "new@1", Confidence: 0.5, Parent: "old@1"}, wantHalf},
		{"supersedes a bad lesson", bandit.Action{Slug: "new", Arm: "new@1", Confidence: 0.5, Parent: "bad@1"}, 0.01},
		{"supersedes an unknown lesson", bandit.Action{Slug: "new", Arm: "new@1", Confidence: 0.5, Parent: "gone@1"}, 0.01},
		{"new text of a good lesson, parent named", bandit.Action{Slug: "old", Arm: "old@2", Confidence: 0.5, Parent: "old@1"}, wantHalf},
		{"new text of a good lesson, no parent named", bandit.Action{Slug: "old", Arm: "old@2", Confidence: 0.5}, wantHalf},
		{"new text of a bad lesson", bandit.Action{Slug: "bad", Arm: "bad@2", Confidence: 0.5}, 0.001},
		{"new lesson", bandit.Action{Slug: "x", Arm: "x@1", Confidence: 0.5}, 0.01},
		{"lesson that names itself as parent", bandit.Action{Slug: "x", Arm: "x@1", Confidence: 0.5, Parent: "x@1"}, 0.01},
	} {
		if got := c.Posterior(tc.c).Mean; !almostEqual(got, tc.want) {
			t.Errorf("%s: mean = %v, want %v", tc.what, got, tc.want)
		}
	}
	if wantHalf < 0.03 {
		t.Errorf("mean of the earlier text = %v, want at least 0.06, because otherwise this test proves nothing", 2*wantHalf)
	}
	first := c.Posterior(bandit.Action{Slug: "old", Arm: "old@1", Confidence: 0.5}).Mean
	second := armSums{n1: 900, s1: -9}
	second.addTo(c, "old@2", 5)
	own, _, _, _ := second.solve(bandit.DefaultPriors(), 0.01)
	third := c.Posterior(bandit.Action{Slug: "old", Arm: "old@3", Confidence: 0.5}).Mean
	if !almostEqual(third, own/2) {
		t.Errorf("mean of the third text = %v, want %v (half of the second text's mean, computed from the second text's sessions only)", third, own/2)
	}
	if got := c.Posterior(bandit.Action{Slug: "old", Arm: "old@1", Confidence: 0.5}).Mean; got != first {
		t.Errorf("mean of the first text = %v, want %v, as before the second text was added", got, first)
	}
}

// Refit computes new priors from the lessons. The chooser uses the new priors only after SetPriors is called.
func TestRefitMovesPriorsTowardsLessons(t *testing.T) {
	c := bandit.New()
	if p := c.Refit(); p.Version != 1 || p.MeanEffect != 0.01 || !almostEqual(p.EffectVariance, 0.0016) || !almostEqual(p.MatchVariance, 0.01) {
		t.Errorf("without lessons: priors = %+v, want version 1 and the default priors", p)
	}
	c.Add([]trial.Delta{delta("few@1", "n1", 0, 4*trial.FixedScale), delta("few@1", "s1", 0, 4*trial.FixedScale)})
	if p := c.Refit(); p.MeanEffect != 0.01 {
		t.Errorf("after four injected picks: priors = %+v, want MeanEffect = 0.01", p)
	}
	for j := range 40 {
		arm := fmt.Sprintf("l%d@1", j)
		c.Add([]trial.Delta{delta(arm, "n1", 0, 1000*trial.FixedScale), delta(arm, "s1", 0, 60*trial.FixedScale), delta(arm, "nu", 0, 1000*trial.FixedScale)})
	}
	p := c.Refit()
	if p.MeanEffect < 0.03 || p.MeanEffect > 0.06 || p.EffectVariance > 0.0016 || p.EffectVariance < 0.0002 || p.MatchVariance > 0.01 || p.MatchVariance < 0.0005 {
		t.Errorf("40 lessons with an effect of 6 points: priors = %+v, want MeanEffect in [0.03, 0.06], EffectVariance in [0.0002, 0.0016], MatchVariance in [0.0005, 0.01]", p)
	}
	if c.Priors().Version != 0 {
		t.Errorf("before SetPriors: Version = %d, want 0", c.Priors().Version)
	}
	c.SetPriors(p)
	if c.Priors() != p {
		t.Errorf("after SetPriors: priors = %+v, want %+v", c.Priors(), p)
	}
	c.SetPriors(bandit.Priors{MeanEffect: math.NaN(), EffectVariance: -1, MatchVariance: math.Inf(1)})
	if got := c.Priors(); got != bandit.DefaultPriors() {
		t.Errorf("after SetPriors with invalid priors: priors = %+v, want the default priors", got)
	}
}

// If all rewards are 0 or 1, the chooser assumes the variance 0.24. If there are also graded rewards (between 0 and 1),
// it uses the measured variance.
func TestResidualVarianceDependsOnGradedRewards(t *testing.T) {
	c := bandit.New()
	add := func(n int64, field string, v float64) {
		c.Add([]trial.Delta{delta("", field, 0, n*int64(v*trial.FixedScale))})
	}
	add(1000, trial.FieldRewarded, 1)
	add(1000, "res2", 0.02)
	if got := c.Refit().RewardVariance; got != 0.24 {
		t.Errorf("binary rewards: RewardVariance = %v, want 0.24", got)
	}
	add(900, "graded", 1)
	if got := c.Refit().RewardVariance; !almostEqual(got, 0.02) {
		t.Errorf("graded rewards: RewardVariance = %v, want 0.02", got)
	}
}

// A lesson becomes a caution (a lesson that is shown as a warning) if the second result of CautionEvidence, worse, is
// larger than the first, better.
func TestCautionNeedsMoreHarmThanChance(t *testing.T) {
	evidence := func(n int, better, worse float64) (float64, float64) {
		c := bandit.New()
		c.Add([]trial.Delta{delta("a@1", "m1", 0, int64(n)*trial.FixedScale), delta("a@1", "better", 0, int64(better*trial.FixedScale)), delta("a@1", "worse", 0, int64(worse*trial.FixedScale))})
		return c.CautionEvidence("a@1")
	}
	for _, tc := range []struct {
		injected      int
		better, worse float64
		caution       bool
	}{
		{injected: 1, worse: 0.5},
		{injected: 3, worse: 1.5},
		{injected: 8, worse: 4},
		{injected: 15, worse: 7.5},
		{injected: 30, worse: 15, caution: true},
		{injected: 100, better: 24, worse: 26},
		{injected: 100, better: 20, worse: 30},
		{injected: 100, better: 15, worse: 40, caution: true},
		{injected: 100, better: 40, worse: 15},
		{},
		{injected: -1, worse: 5},
	} {
		b, w := evidence(tc.injected, tc.better, tc.worse)
		if (w > b) != tc.caution {
			t.Errorf("%+v: CautionEvidence = %v (better), %v (worse), want worse > better: %v", tc, b, w, tc.caution)
		}
	}
}

// simulateCautions simulates 1,000 sessions for each of 400 lessons, and returns how many lessons became a caution at
// any time. A session succeeds with probability 0.5 + match, or with the lesson 0.5 + match + effect.
func simulateCautions(match, effect float64) (cautions int) {
	const lessons, sessions = 400, 1000
	r := rand.New(rand.NewPCG(5, 6)) //nolint:gosec // the tests need repeatable numbers
	for range lessons {
		c := bandit.New()
		for range sessions {
			injected, p := r.IntN(5) > 0, 0.5+match
			if injected {
				p += effect
			}
			z := int64(-trial.FixedScale / 2)
			if r.Float64() < p {
				z = trial.FixedScale / 2
			}
			if !injected {
				c.Add([]trial.Delta{delta("a@1", "n0", 1, trial.FixedScale), delta("a@1", "s0", 1, z)})
				continue
			}
			c.Add([]trial.Delta{
				delta("a@1", "n1", 1, trial.FixedScale),
				delta("a@1", "s1", 1, z),
				delta("a@1", "m1", 0, trial.FixedScale),
				delta("a@1", "better", 0, max(0, z)),
				delta("a@1", "worse", 0, max(0, -z)),
			})
			if better, worse := c.CautionEvidence("a@1"); worse > better {
				cautions++
				break
			}
		}
	}
	return cautions
}

func TestChooserIsSafeForConcurrentUse(t *testing.T) {
	c := bandit.New()
	var wg sync.WaitGroup
	cfg := bandit.Config{K: 3, Epsilon: 0.2, Control: 0.05}
	for g := range 4 {
		wg.Go(func() {
			for i := range 200 {
				a := trial.Assignment{Category: "x", Day: int32(i % 3)}
				bandit.Decide(cfg, c, &a, fmt.Sprint(g, i), lessons("a", "b", "c", fmt.Sprint("d", i)), 1)
				c.Add(a.ClosingDeltas())
				c.Add(bandit.Contribution(&a, float64(i%2), 1))
			}
		})
	}
	wg.Go(func() {
		for i := range 50 {
			c.RaiseMaxima(time.Unix(int64(i)*86_400, 0))
			c.SetPriors(c.Refit())
			c.TrialCounters().MergeMaxima([]trial.Delta{delta("a@1", "emax+", 0, int64(i))})
		}
	})
	wg.Go(func() {
		for range 50 {
			c.Clone().TrialCounters().Global()
			c.CautionEvidence("a@1")
			c.MeanBefore(lesson("a"), 1)
			for _, arm := range c.TrialCounters().Arms() {
				c.TrialCounters().Stats(arm)
			}
		}
	})
	wg.Wait()
	if got := c.TrialCounters().Global().All.Rewarded; got != 800 {
		t.Errorf("Rewarded = %d, want 800", got)
	}
}
