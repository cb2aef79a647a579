package report

import (
	"hash/fnv"
	"math"
	"math/rand/v2"
	"testing"

	"precept/bandit/trial"
)

func seededRand(text string) *rand.Rand {
	h := fnv.New64a()
	h.Write([]byte(text))
	return rand.New(rand.NewPCG(h.Sum64(), 7)) //nolint:gosec // the tests need repeatable numbers
}

// simulateNoEffect simulates a lesson without an effect. After each session, it calls onSession with the sums, and with
// the total rewards in injected and in withheld sessions.
func simulateNoEffect(r *rand.Rand, sessions int, eps float64, onSession func(s sums, injectedRewards, withheldRewards float64)) {
	var s sums
	var injectedRewards, withheldRewards float64
	for range sessions {
		p := math.Max(0.05, math.Min(0.95, 0.5+0.2*r.NormFloat64()))
		c := math.Max(0.05, math.Min(0.95, p+0.15*r.NormFloat64())) // expected reward with an error
		y := 0.0
		if r.Float64() < p {
			y = 1
		}
		z := (y - c) / (1 - eps)
		if r.Float64() < eps {
			z = -(y - c) / eps
			s.withheld++
			withheldRewards += y
		} else {
			s.injected++
			injectedRewards += y
		}
		s.count++
		s.sum += z
		s.sumOfSquares += z * z
		onSession(s, injectedRewards, withheldRewards)
	}
}

// The interval is evaluated after every ten sessions. For at most 6% of the lessons, any of these intervals may exclude
// the true effect. The Wald interval excludes it for at least 20% of the lessons, which shows that this test can fail.
func TestIntervalsCoverUnderRepeatedEvaluation(t *testing.T) {
	const lessons, sessions = 300, 3000
	var missed, wald float64
	r := seededRand("peek")
	for range lessons {
		ever, everWald := false, false
		simulateNoEffect(r, sessions, 0.2, func(s sums, injectedRewards, withheldRewards float64) {
			if !s.hasEnoughPicks() || int(s.count)%10 != 0 {
				return
			}
			_, lo, hi := s.interval(trial.LessonTightestAt)
			ever = ever || lo > 0 || hi < 0
			a, b := injectedRewards/s.injected, withheldRewards/s.withheld
			se := math.Sqrt(a*(1-a)/s.injected + b*(1-b)/s.withheld)
			everWald = everWald || math.Abs(a-b) > 1.96*se
		})
		if ever {
			missed++
		}
		if everWald {
			wald++
		}
	}
	t.Logf("ever excluded the true effect: %.1f%% intervals, %.1f%% Wald intervals", 100*missed/lessons, 100*wald/lessons)
	if missed/lessons > 0.06 {
		t.Errorf("intervals that ever excluded the true effect = %.1f%%, want at most 6%%", 100*missed/lessons)
	}
	if wald/lessons < 0.2 {
		t.Errorf("Wald intervals that ever excluded the true effect = %.1f%%, want at least 20%%", 100*wald/lessons)
	}
}

func TestHalfWidthMatchesFormula(t *testing.T) {
	// For n = 1000 and variance 1, the half-width is sqrt(2 (9.78)/(1e6 * .00878) ln(sqrt(9.78)/.05)).
	want := math.Sqrt(2 * 9.7832 / (1e6 * 0.0087832) * math.Log(math.Sqrt(9.7832)/0.05))
	if got := trial.HalfWidth(1000, 1, 1000); math.Abs(got-want) > 1e-4 {
		t.Errorf("HalfWidth(1000, 1, 1000) = %v, want %v", got, want)
	}
	for n := 60.0; n < 1e6; n *= 1.3 {
		if trial.HalfWidth(n, 1, 1000) <= trial.HalfWidth(n*1.3, 1, 1000) {
			t.Fatalf("half-width after 1.3 times %v sessions = %v, want less than %v", n, trial.HalfWidth(n*1.3, 1, 1000), trial.HalfWidth(n, 1, 1000))
		}
	}
}

// According to the guide, an interval of 10 points needs about 1,100 picks with holdout 0.2. An interval of 5 points
// needs about 4,500 picks with holdout 0.2, and about 2,900 with holdout 0.5.
func TestPicksForWidthMatchesGuide(t *testing.T) {
	for _, tc := range []struct{ target, eps, lo, hi float64 }{
		{target: 0.10, eps: 0.2, lo: 800, hi: 1600},
		{target: 0.05, eps: 0.2, lo: 3800, hi: 6500},
		{target: 0.05, eps: 0.5, lo: 2200, hi: 4000},
	} {
		n := picksForWidth(tc.target, 0.2*trial.VarianceFactor(tc.eps))
		if n < tc.lo || n > tc.hi {
			t.Errorf("%+v: picksForWidth = %v, want %v to %v", tc, n, tc.lo, tc.hi)
		}
		if trial.HalfWidth(n, 0.2*trial.VarianceFactor(tc.eps), trial.LessonTightestAt) > tc.target || trial.HalfWidth(n-1, 0.2*trial.VarianceFactor(tc.eps), trial.LessonTightestAt) <= tc.target {
			t.Errorf("%+v: picksForWidth = %v, want the smallest number with a half-width up to the target", tc, n)
		}
	}
	if n := picksForWidth(0, 1); n != 1e9 {
		t.Errorf("picksForWidth(0, 1) = %v, want 1e9", n)
	}
	if n := picksForWidth(10, 1); n > trial.MinPicks {
		t.Errorf("picksForWidth(10, 1) = %v, want at most %d", n, trial.MinPicks)
	}
}

func TestRewardVarianceExcludesRandomization(t *testing.T) {
	r := seededRand("noise")
	for _, eps := range []float64{0.05, 0.2, 0.5} {
		var last sums
		simulateNoEffect(r, 20_000, eps, func(s sums, _, _ float64) { last = s })
		strata := []trial.Stratum{{Eps: eps}, {Eps: 0}}
		strata[0].Rewarded[0][1], strata[0].Rewarded[1][1], strata[1].Rewarded[1][1] = int64(last.withheld), int64(last.injected), 999
		if got := rewardVariance(last, strata, 9); got < 0.18 || got > 0.28 {
			t.Errorf("epsilon %v: rewardVariance = %v for a binary reward, want 0.18 to 0.28", eps, got)
		}
	}
	for _, s := range []sums{{}, {count: 60, injected: 50, withheld: 10, sumOfSquares: 60}} {
		if got := rewardVariance(s, nil, 0.24); got != 0.24 {
			t.Errorf("sums %+v without strata: rewardVariance = %v, want the assumed 0.24", s, got)
		}
	}
}
