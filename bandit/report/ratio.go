package report

import (
	"cmp"
	"math"
	"slices"

	"precept/bandit/trial"
)

const (
	// alarm is the e-value from which a ratio is called broken, where there are few of them. By
	// Ville's inequality an honest coin ever reaches it with a chance of at most one in a thousand,
	// however often one looks.
	alarm = 1000
	// alarmRate is the chance that anything is ever called broken in a sound experiment, over all
	// lessons and checks.
	alarmRate = 0.05
	// capE keeps e-values printable: evidence beyond it says nothing more.
	capE = 1e12
	// concentration of the alternative around the promised share: it looks hardest for deviations
	// of a few points.
	concentration = 100
)

// ratio is the logarithm of the e-value against "k of n with chance p": a Beta mixture of the
// alternatives over the promised share (Lindon and Malek, Anytime-valid inference for multinomial
// count data, 2022).
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

// combine is the logarithm of one e-value made of several, each of coins of its own: the mean over
// all choices of some of them of the products of those. With n of them it is the product of (1 +
// e)/2. Evidence in one of them is halved by each other one at most, evidence in several
// multiplies, and one that has no data yet changes nothing. (The largest of several e-values is
// none: the more there are, the larger it gets by chance.)
func combine(logEs ...float64) (logE float64) {
	for _, l := range logEs {
		logE += meanLog(0, l)
	}
	return logE
}

// meanLog is the logarithm of the mean of two e-values.
func meanLog(a, b float64) float64 {
	top := max(a, b)
	return top + math.Log((math.Exp(a-top)+math.Exp(b-top))/2)
}

// check is an e-value as the report shows it, beside the one from which it is an alarm.
func check(logE, bar float64) SRM {
	e := capE
	if logE < math.Log(capE) {
		e = math.Exp(logE)
	}
	return SRM{EValue: e, Alarm: bar, OK: e < bar}
}

// coinsLog is the logarithm of the e-value against the coins, each propensity by itself: pooling
// propensities would see a mismatch where their mix changed.
func coinsLog(strata []trial.Stratum) float64 {
	logEs := make([]float64, 0, len(strata))
	for _, s := range strata {
		logEs = append(logEs, ratio(s.Assigned[0], s.Assigned[0]+s.Assigned[1], s.Eps))
	}
	return combine(logEs...)
}

// reportingLog is the logarithm of the e-value against "having the lesson changes neither who
// reports nor which source speaks". If reporting does not depend on the arm, then among the
// sessions that had told something when they closed, among the others, and among those of each tier
// the coin still falls as promised. It is the mean of one look at told and untold, and one at the
// tiers.
func reportingLog(strata []trial.Stratum) float64 {
	var logEs []float64
	for _, s := range strata {
		if s.Eps <= 0 || s.Eps >= 1 {
			continue
		}
		told, mute := whoReports(s)
		tiers := []float64{mute}
		for tier := range s.Heard[0] {
			tiers = append(tiers, ratio(s.Heard[0][tier], s.Heard[0][tier]+s.Heard[1][tier], s.Eps))
		}
		logEs = append(logEs, meanLog(combine(told, mute), combine(tiers...)))
	}
	return combine(logEs...)
}

// whoReports are the logarithms of the e-values against "the coin falls as promised" among the told
// sessions of a stratum, and among the others.
func whoReports(s trial.Stratum) (told, mute float64) {
	told0, told1 := s.HeardOn(0), s.HeardOn(1)
	mute0, mute1 := max(0, s.Assigned[0]-told0), max(0, s.Assigned[1]-told1)
	return ratio(told0, told0+told1, s.Eps), ratio(mute0, mute0+mute1, s.Eps)
}

// reportingProduct is the same over many strata at once, as one product: given who reported, the
// coins are independent of each other, also those of one session, and a cause that lies in
// reporting shows in all of them.
func reportingProduct(strata []trial.Stratum) (logE float64) {
	for _, s := range strata {
		if s.Eps > 0 && s.Eps < 1 {
			told, mute := whoReports(s)
			logE += told + mute
		}
	}
	return logE
}

// soundCoins are the strata whose coins fall as promised: where a lesson's do not, that lesson is
// invalid, and not the reporting of all sessions.
func soundCoins(strata []trial.Stratum) []trial.Stratum {
	return slices.DeleteFunc(slices.Clone(strata), func(s trial.Stratum) bool {
		return coinsLog([]trial.Stratum{s}) >= math.Log(alarm)
	})
}

// alarmLevel is from which e-value on a check is an alarm, over all checks that have any coin to
// look at: e-BH at alarmRate (Wang and Ramdas, False discovery rate control with e-values, 2022),
// and never below the alarm of a single one. In a sound experiment the mean of all e-values is one,
// too, so the chance that there is ever an alarm at all is at most alarmRate.
func alarmLevel(logEs []float64) float64 {
	es := slices.Clone(logEs)
	slices.SortFunc(es, func(a, b float64) int { return cmp.Compare(b, a) })
	m := float64(max(len(es), 1))
	needed := m / alarmRate
	for k, l := range es {
		if at := m / (alarmRate * float64(k+1)); l >= math.Log(at) {
			needed = at
		}
	}
	return math.Max(alarm, needed)
}

// worstCase bounds the effect if every closed session without a reward had been as bad, or as good,
// as it can be (Manski's bounds): what is left to say when reporting itself is in doubt. They are
// taken inside each propensity and weighed by its sessions: differences that are pooled over
// changing propensities are Simpson's.
func worstCase(strata []trial.Stratum) (lo, hi *float64) {
	var l, h, n float64
	for _, s := range strata {
		weight := float64(s.Assigned[0] + s.Assigned[1])
		least, most := bounds(s)
		l, h, n = l+weight*least, h+weight*most, n+weight
	}
	if n == 0 || l == -n && h == n { // nothing is known of one of the arms
		return nil, nil
	}
	return new(l / n), new(h / n)
}

// bounds are those of one propensity.
func bounds(s trial.Stratum) (lo, hi float64) {
	var least, most [2]float64 // of the mean reward
	for arm := range 2 {
		told := float64(s.ToldOn(arm))
		n := math.Max(float64(s.Assigned[arm]), told)
		if least[arm], most[arm] = 0, 1; n > 0 {
			y := math.Min(s.Y[arm], told)
			least[arm], most[arm] = y/n, (y+n-told)/n
		}
	}
	return least[1] - most[0], most[1] - least[0]
}
