package report

import (
	"math"
	"slices"

	"precept/bandit"
)

const (
	// alarm is the e-value from which a ratio is called broken. By Ville's inequality an honest coin ever reaches it with
	// a chance of at most one in a thousand, however often one looks.
	alarm = 1000
	// capE keeps e-values printable: evidence beyond it says nothing more.
	capE = 1e12
	// concentration of the alternative around the promised share: it looks hardest for deviations of a few points.
	concentration = 100
)

// ratio is the logarithm of the e-value against "k of n with chance p": a Beta mixture of the alternatives over the
// promised share (Lindon and Malek, Anytime-valid inference for multinomial count data, 2022).
func ratio(k, n int64, p float64) float64 {
	k = min(max(k, 0), max(n, 0))
	if n <= 0 {
		return 0
	}
	if p <= 0 || p >= 1 { // what cannot happen is no coin: one case of it is proof
		if (p <= 0 && k > 0) || (p >= 1 && k < n) {
			return math.Log(capE)
		}
		return 0
	}
	a, b := concentration*p, concentration*(1-p)
	x, y := float64(k), float64(n-k)
	return logBeta(a+x, b+y) - logBeta(a, b) - x*math.Log(p) - y*math.Log1p(-p)
}

func logBeta(a, b float64) float64 {
	x, _ := math.Lgamma(a)
	y, _ := math.Lgamma(b)
	z, _ := math.Lgamma(a + b)
	return x + y - z
}

func check(logE float64) SRM {
	e := capE
	if logE < math.Log(capE) {
		e = math.Exp(logE)
	}
	return SRM{EValue: e, OK: e < alarm}
}

// assignment checks the coins, each propensity by itself: pooling propensities would see a mismatch where their mix changed.
func assignment(strata []bandit.Stratum) SRM {
	worst := 0.0
	for i, s := range strata {
		e := ratio(s.Assigned[0], s.Assigned[0]+s.Assigned[1], s.Eps)
		if i == 0 || e > worst {
			worst = e
		}
	}
	return check(worst)
}

// telling checks that having the lesson changes neither who reports nor which source speaks. If reporting does not depend
// on the arm, then among the told sessions, among the untold ones, and among those of each tier the coin still falls as
// promised. The first two are of different sessions, so their e-values multiply.
func telling(strata []bandit.Stratum) SRM {
	worst, first := 0.0, true
	see := func(e float64) {
		if first || e > worst {
			worst, first = e, false
		}
	}
	for _, s := range strata {
		if s.Eps <= 0 || s.Eps >= 1 {
			continue
		}
		see(whoTells([]bandit.Stratum{s}))
		for tier := range s.Told[0] {
			see(ratio(s.Told[0][tier], s.Told[0][tier]+s.Told[1][tier], s.Eps))
		}
	}
	return check(worst)
}

// whoTells is the logarithm of the e-value against "the coins do not change who reports" over all strata at once. Given
// who reported, the coins are still independent of each other, also those of one session: so their e-values multiply.
func whoTells(strata []bandit.Stratum) (logE float64) {
	for _, s := range strata {
		if s.Eps <= 0 || s.Eps >= 1 {
			continue
		}
		told0, told1 := s.ToldArm(0), s.ToldArm(1)
		mute0, mute1 := max(0, s.Assigned[0]-told0), max(0, s.Assigned[1]-told1)
		logE += ratio(told0, told0+told1, s.Eps) + ratio(mute0, mute0+mute1, s.Eps)
	}
	return logE
}

// sound are the strata whose coins fall as promised: where a lesson's do not, that lesson is invalid, and not the reporting
// of all sessions.
func sound(strata []bandit.Stratum) []bandit.Stratum {
	return slices.DeleteFunc(slices.Clone(strata), func(s bandit.Stratum) bool { return !assignment([]bandit.Stratum{s}).OK })
}

// either is the logarithm of the e-value of one, the other, or both together: the mean of e-values is one.
func either(a, b float64) float64 {
	top := max(a, b, a+b)
	return top + math.Log((math.Exp(a-top)+math.Exp(b-top)+math.Exp(a+b-top))/3)
}

// worstCase bounds the effect if every closed session without a reward had been as bad, or as good, as it can be
// (Manski's bounds): what is left to say when reporting itself is in doubt.
func worstCase(s bandit.Stats) (lo, hi *float64) {
	var a0, a1 float64
	for _, x := range s.Strata {
		a0 += float64(x.Assigned[0])
		a1 += float64(x.Assigned[1])
	}
	a0, a1 = math.Max(a0, s.M0), math.Max(a1, s.M1)
	if a0 == 0 || a1 == 0 {
		return nil, nil
	}
	mute0, mute1 := a0-s.M0, a1-s.M1
	return new(s.Y1/a1 - (s.Y0+mute0)/a0), new((s.Y1+mute1)/a1 - s.Y0/a0)
}
