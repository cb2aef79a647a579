package report

import (
	"math"

	"precept/trial"
)

const (
	minPicks = trial.MinPicks
	minArm   = trial.MinArm
	material = trial.Material

	// At how many sessions the confidence sequence is tightest. A lesson's question is asked at
	// about a thousand picks; the control coin falls rarely, so its comparison is read later.
	tightLesson = trial.TightLesson
	tightGlobal = 5000
)

// sums is what an interval needs: count, sum and sum of squares of z, and the sessions of both
// arms.
type sums struct{ n, z, zz, n1, n0 float64 }

func (s sums) shown() bool { return trial.Enough(s.n, s.n1, s.n0) }

func (s sums) effect() float64 { return s.z / s.n }

func (s sums) variance() float64 {
	_, v := trial.Moments(s.n, s.z, s.zz)
	return v
}

// interval is the effect with an asymptotic confidence sequence (Waudby-Smith, Arbour, Sinha,
// Kennedy and Ramdas, Time-uniform central limit theory and asymptotic confidence sequences, 2021):
// it holds at all times at once, so that looking daily and stopping at a good moment costs nothing.
// An interval for one look (Wald, Wilson), looked at daily, misses the truth in half of the runs.
func (s sums) interval(tight float64) (effect, lo, hi float64) {
	effect, v := trial.Moments(s.n, s.z, s.zz)
	h := trial.HalfWidth(s.n, v, tight)
	return effect, effect - h, effect + h
}

// exclusion is the p-value of the interval: below trial.Alpha it excludes 0.
func (s sums) exclusion(tight float64) float64 {
	return trial.Exclusion(s.effect(), s.n, s.variance(), tight)
}

// sessionsFor is after how many picks of a lesson the half-width is at most the target.
func sessionsFor(target, variance float64) float64 {
	const most = 1e9
	if !(target > 0) {
		return most
	}
	lo, hi := 1.0, float64(minPicks)
	for hi < most && trial.HalfWidth(hi, variance, tightLesson) > target {
		lo, hi = hi, hi*2
	}
	for hi-lo > 1 {
		mid := math.Floor((lo + hi) / 2)
		if trial.HalfWidth(mid, variance, tightLesson) > target {
			lo = mid
		} else {
			hi = mid
		}
	}
	return math.Min(hi, most)
}

// spread is by how much the coin inflates the variance of a reward: 1/(1-eps) + 1/eps.
func spread(eps float64) float64 { return 1/(1-eps) + 1/eps }

// noise is the variance of a reward around its centre: measured, with the coins' part taken out,
// once there is enough.
func noise(s sums, strata []trial.Stratum, sigma2 float64) float64 {
	if !s.shown() {
		return sigma2
	}
	var n, mult float64
	for _, x := range strata {
		if x.Eps <= 0 || x.Eps >= 1 {
			continue
		}
		k := float64(x.ToldOn(0) + x.ToldOn(1))
		n += k
		mult += k * spread(x.Eps)
	}
	if n == 0 {
		return sigma2
	}
	return s.variance() / (mult / n)
}
