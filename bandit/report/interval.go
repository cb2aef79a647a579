package report

import (
	"math"

	"precept/bandit/trial"
)

// tightGlobal is the number of sessions at which the interval of all lessons together is tightest.
// Control sessions are few, so this comparison is read later than a lesson's (trial.TightLesson).
const tightGlobal = 5000

// sums is the input of an interval: count, sum and sum of squares of z, and the sessions of both
// arms.
type sums struct{ n, z, zz, n1, n0 float64 }

// add adds the sessions of one day.
func (s *sums) add(d *trial.DayStats) {
	s.n, s.z, s.zz, s.n1, s.n0 = s.n+d.N, s.z+d.Z, s.zz+d.ZZ, s.n1+d.N1, s.n0+d.N0
}

func (s sums) shown() bool { return trial.Enough(s.n, s.n1, s.n0) }

func (s sums) effect() float64 { return s.z / s.n }

func (s sums) variance() float64 {
	_, v := trial.Moments(s.n, s.z, s.zz)
	return v
}

// interval returns the effect with an asymptotic confidence sequence (Waudby-Smith, Arbour, Sinha,
// Kennedy and Ramdas, Time-uniform central limit theory and asymptotic confidence sequences, 2021).
// The sequence is valid at all times simultaneously: a person may read the interval daily, and stop at any moment. An
// interval for one planned evaluation (Wald, Wilson) that is read daily misses the true effect at some time in half
// of the runs.
func (s sums) interval(tight float64) (effect, lo, hi float64) {
	effect, v := trial.Moments(s.n, s.z, s.zz)
	h := trial.HalfWidth(s.n, v, tight)
	return effect, effect - h, effect + h
}

// exclusion returns the p-value of a lesson's interval: below trial.Alpha the interval excludes 0.
func (s sums) exclusion() float64 {
	return trial.Exclusion(s.effect(), s.n, s.variance(), trial.TightLesson)
}

// maxPicks is the largest number of picks that a prediction names.
const maxPicks = 1e9

// sessionsFor returns the number of picks of a lesson at which the half-width reaches the target.
func sessionsFor(target, variance float64) float64 {
	if !(target > 0) {
		return maxPicks
	}
	return firstPicks(func(n float64) bool { return !(trial.HalfWidth(n, variance, trial.TightLesson) > target) })
}

// verdictAt returns the number of picks at which the present effect leads to a verdict: the p-value of the interval
// passes the level, or the interval is within the material change of 0, whichever comes first. A level of 0 means
// trial.Alpha, where the interval excludes 0.
func verdictAt(effect, variance, material, level float64) float64 {
	if level <= 0 {
		level = trial.Alpha
	}
	noEffect := sessionsFor(material-math.Abs(effect), variance)
	claim := firstPicks(func(n float64) bool { return !(trial.Exclusion(effect, n, variance, trial.TightLesson) > level) })
	return math.Min(claim, noEffect)
}

// firstPicks returns the smallest number of picks from which on a condition holds, at most about maxPicks.
func firstPicks(holds func(n float64) bool) float64 {
	lo, hi := 1.0, float64(trial.MinPicks)
	for hi < maxPicks && !holds(hi) {
		lo, hi = hi, hi*2
	}
	for hi-lo > 1 {
		mid := math.Floor((lo + hi) / 2)
		if holds(mid) {
			hi = mid
		} else {
			lo = mid
		}
	}
	return math.Min(hi, maxPicks)
}

// noise returns the variance of a reward around its centre. The variance of z is divided by the factor that the
// coins add. noise returns sigma2 while there is not enough data.
func noise(s sums, strata []trial.Stratum, sigma2 float64) float64 {
	if !s.shown() {
		return sigma2
	}
	var n, mult float64
	for _, x := range strata {
		if x.Eps <= 0 || x.Eps >= 1 {
			continue
		}
		k := float64(x.RewardedOn(0) + x.RewardedOn(1))
		n += k
		mult += k * trial.Spread(x.Eps)
	}
	if n == 0 {
		return sigma2
	}
	return s.variance() / (mult / n)
}
