package report

import (
	"math"

	"precept/bandit/trial"
)

// globalTightestAt is like trial.LessonTightestAt, but for the interval for all lessons together. It is larger because
// there are few control sessions.
const globalTightestAt = 5000

// sums holds the sums behind an interval. count, sum and sumOfSquares are over z, the effect estimated from one pick.
// For all lessons together, injected is the number of treated sessions, and withheld the number of control sessions.
type sums struct{ count, sum, sumOfSquares, injected, withheld float64 }

func (s *sums) add(d *trial.DayStats) {
	s.count, s.sum, s.sumOfSquares, s.injected, s.withheld = s.count+d.N, s.sum+d.Z, s.sumOfSquares+d.ZZ, s.injected+d.N1, s.withheld+d.N0
}

func (s sums) hasEnoughPicks() bool { return trial.EnoughForInterval(s.count, s.injected, s.withheld) }

func (s sums) effect() float64 { return s.sum / s.count }

func (s sums) variance() float64 {
	_, v := trial.Moments(s.count, s.sum, s.sumOfSquares)
	return v
}

// interval returns the effect with an interval that is valid at all times simultaneously (trial.HalfWidth). An interval
// for a single evaluation (Wald, Wilson) would not do: if it is read daily, it misses the true effect at some time in
// half of all experiments.
func (s sums) interval(tightestAt float64) (effect, lo, hi float64) {
	effect, v := trial.Moments(s.count, s.sum, s.sumOfSquares)
	h := trial.HalfWidth(s.count, v, tightestAt)
	return effect, effect - h, effect + h
}

func (s sums) pValue() float64 {
	return trial.IntervalPValue(s.effect(), s.count, s.variance(), trial.LessonTightestAt)
}

const maxPicks = 1e9 // largest number of picks in a prediction

func picksForWidth(target, variance float64) float64 {
	if !(target > 0) {
		return maxPicks
	}
	return leastPicks(func(n float64) bool { return !(trial.HalfWidth(n, variance, trial.LessonTightestAt) > target) })
}

// picksAtVerdict returns the number of picks at which an unchanged effect gets a p-value of at most level, or an
// interval within material of 0.
func picksAtVerdict(effect, variance, material, level float64) float64 {
	if level <= 0 {
		level = trial.Alpha
	}
	noEffect := picksForWidth(material-math.Abs(effect), variance)
	claim := leastPicks(func(n float64) bool {
		return !(trial.IntervalPValue(effect, n, variance, trial.LessonTightestAt) > level)
	})
	return math.Min(claim, noEffect)
}

// leastPicks returns the smallest number of picks that satisfies the condition. All larger numbers must satisfy the
// condition as well.
func leastPicks(isEnough func(n float64) bool) float64 {
	lo, hi := 1.0, float64(trial.MinPicks)
	for hi < maxPicks && !isEnough(hi) {
		lo, hi = hi, hi*2
	}
	for hi-lo > 1 {
		mid := math.Floor((lo + hi) / 2)
		if isEnough(mid) {
			hi = mid
		} else {
			lo = mid
		}
	}
	return math.Min(hi, maxPicks)
}

// rewardVariance returns the reward variance: the variance of z divided by the factor by which random assignment
// inflates it. Without enough data, the result is sigma2, the chooser's estimate.
func rewardVariance(s sums, strata []trial.Stratum, sigma2 float64) float64 {
	if !s.hasEnoughPicks() {
		return sigma2
	}
	var n, mult float64
	for _, x := range strata {
		if x.Eps <= 0 || x.Eps >= 1 {
			continue
		}
		k := float64(x.RewardedInArm(0) + x.RewardedInArm(1))
		n += k
		mult += k * trial.VarianceFactor(x.Eps)
	}
	if n == 0 {
		return sigma2
	}
	return s.variance() / (mult / n)
}
