package report

import (
	"cmp"
	"math"
	"slices"

	"precept/bandit/trial"
)

const (
	// minAlarmLevel is the alarm threshold for e-values in a report with few checks. If the random assignment is sound,
	// the probability that an e-value ever reaches this threshold is at most one in a thousand (Ville's inequality).
	minAlarmLevel = 1000
	// alarmRate is the probability that a sound experiment has any false alarm, over all lessons and checks.
	alarmRate = 0.05
	// maxEValue bounds e-values for printing.
	maxEValue = 1e12
	// betaConcentration is the sum of the two parameters of the Beta distribution in shareLogE. With 100, the test is
	// most sensitive to deviations of a few points from the assigned share (Stratum.Eps).
	betaConcentration = 100
)

// shareLogE returns the log e-value against "each of n sessions is one of the k with probability p". The alternatives
// are a Beta mixture around p (Lindon and Malek, Anytime-valid inference for multinomial count data, 2022).
func shareLogE(k, n int64, p float64) float64 {
	k = min(max(k, 0), max(n, 0))
	if n <= 0 {
		return 0
	}
	if p <= 0 || p >= 1 { // a single impossible assignment is a proof
		if (p <= 0 && k > 0) || (p >= 1 && k < n) {
			return math.Log(maxEValue)
		}
		return 0
	}
	a, b := betaConcentration*p, betaConcentration*(1-p)
	x, y := float64(k), float64(n-k)
	return logBeta(a+x, b+y) - logBeta(a, b) - x*math.Log(p) - y*math.Log1p(-p)
}

func logBeta(a, b float64) float64 {
	x, _ := math.Lgamma(a)
	y, _ := math.Lgamma(b)
	z, _ := math.Lgamma(a + b)
	return x + y - z
}

// combineLogE combines independent e-values into one, and returns its logarithm. The combined e-value is the mean over
// the products of all subsets, which equals the product of (1 + e)/2. Each further e-value at most halves the evidence
// in the others. The largest of several e-values would not be an e-value, because it grows by chance.
func combineLogE(logEs ...float64) (logE float64) {
	for _, l := range logEs {
		logE += meanLogE(0, l)
	}
	return logE
}

func meanLogE(a, b float64) float64 {
	top := max(a, b)
	return top + math.Log((math.Exp(a-top)+math.Exp(b-top))/2)
}

func newSRM(logE, bar float64) SRM {
	e := maxEValue
	if logE < math.Log(maxEValue) {
		e = math.Exp(logE)
	}
	return SRM{EValue: e, Alarm: bar, OK: e < bar}
}

// assignmentLogE returns the log e-value against random assignment, combined over strata. An e-value over all strata
// pooled would show a mismatch whenever the withholding probability changes.
func assignmentLogE(strata []trial.Stratum) float64 {
	logEs := make([]float64, 0, len(strata))
	for _, s := range strata {
		logEs = append(logEs, shareLogE(s.Assigned[0], s.Assigned[0]+s.Assigned[1], s.Eps))
	}
	return combineLogE(logEs...)
}

// reportingLogE returns the log e-value against "the lesson changes neither which sessions have a reward nor the tier
// of a reward". Under this hypothesis, the lesson is withheld in the assigned share (Eps) of three groups: the sessions
// with a reward at close, the other sessions, and the sessions in each tier.
func reportingLogE(strata []trial.Stratum) float64 {
	var logEs []float64
	for _, s := range strata {
		if s.Eps <= 0 || s.Eps >= 1 {
			continue
		}
		rewarded, unrewarded := rewardSplitLogEs(s)
		tiers := []float64{unrewarded}
		for tier := range s.RewardedAtClose[0] {
			tiers = append(tiers, shareLogE(s.RewardedAtClose[0][tier], s.RewardedAtClose[0][tier]+s.RewardedAtClose[1][tier], s.Eps))
		}
		logEs = append(logEs, meanLogE(combineLogE(rewarded, unrewarded), combineLogE(tiers...)))
	}
	return combineLogE(logEs...)
}

// lateLogE returns the log e-value against "the lesson does not change which closed sessions get a reward later". A
// session with a late reward stays counted, so the e-value is valid at any time.
func lateLogE(strata []trial.Stratum) float64 {
	logEs := make([]float64, 0, len(strata))
	for _, s := range strata {
		if s.Eps > 0 && s.Eps < 1 {
			logEs = append(logEs, shareLogE(s.Late[0], s.Late[0]+s.Late[1], s.Eps))
		}
	}
	return combineLogE(logEs...)
}

// rewardSplitLogEs returns two log e-values against "the lesson is withheld in the assigned share (Eps)". The first is
// for the sessions with a reward at close, and the second for the others.
func rewardSplitLogEs(s trial.Stratum) (rewarded, unrewarded float64) {
	rewarded0, rewarded1 := s.RewardedAtCloseInArm(0), s.RewardedAtCloseInArm(1)
	unrewarded0, unrewarded1 := max(0, s.Assigned[0]-rewarded0), max(0, s.Assigned[1]-rewarded1)
	return shareLogE(rewarded0, rewarded0+rewarded1, s.Eps), shareLogE(unrewarded0, unrewarded0+unrewarded1, s.Eps)
}

// multipliedReportingLogE returns the log e-value against "the lessons do not change which sessions have a reward at
// close". It multiplies the strata's e-values (rewardSplitLogEs). This is valid because all assignments are independent
// given which sessions have a reward. If a fault shows in all strata, a product is more sensitive than a mean.
func multipliedReportingLogE(strata []trial.Stratum) (logE float64) {
	for _, s := range strata {
		if s.Eps > 0 && s.Eps < 1 {
			rewarded, unrewarded := rewardSplitLogEs(s)
			logE += rewarded + unrewarded
		}
	}
	return logE
}

// validStrata returns the strata in which the share of withheld sessions is as assigned. A faulty assignment
// invalidates only its lesson, not the reporting of all sessions.
func validStrata(strata []trial.Stratum) []trial.Stratum {
	return slices.DeleteFunc(slices.Clone(strata), func(s trial.Stratum) bool {
		return assignmentLogE([]trial.Stratum{s}) >= math.Log(minAlarmLevel)
	})
}

// alarmLevel returns the alarm threshold for the e-values of all checks: trial.EvidenceBar at alarmRate, and at least
// minAlarmLevel.
func alarmLevel(logEs []float64) float64 {
	es := slices.Clone(logEs)
	slices.SortFunc(es, func(a, b float64) int { return cmp.Compare(b, a) })
	m := float64(max(len(es), 1))
	needed := m / alarmRate
	for k, l := range es {
		if threshold := m / (alarmRate * float64(k+1)); l >= math.Log(threshold) {
			needed = threshold
		}
	}
	return math.Max(minAlarmLevel, needed)
}

// worstCase returns the smallest and the largest effect that the counts permit, if every unrewarded closed session
// could have had the worst or the best reward (Manski's bounds). The bounds are computed within each stratum, because
// pooled differences are subject to Simpson's paradox.
func worstCase(strata []trial.Stratum) (lo, hi *float64) {
	var l, h, n float64
	for _, s := range strata {
		weight := float64(s.Assigned[0] + s.Assigned[1])
		lowest, highest := stratumBounds(s)
		l, h, n = l+weight*lowest, h+weight*highest, n+weight
	}
	if n == 0 || l == -n && h == n { // the counts permit every effect
		return nil, nil
	}
	return new(l / n), new(h / n)
}

func stratumBounds(s trial.Stratum) (lo, hi float64) {
	var lowest, highest [2]float64 // bounds on the mean reward, per arm
	for arm := range 2 {
		rewarded := float64(s.RewardedInArm(arm))
		n := math.Max(float64(s.Assigned[arm]), rewarded)
		lowest[arm], highest[arm] = 0, 1
		if n > 0 {
			y := math.Min(s.Y[arm], rewarded)
			lowest[arm], highest[arm] = y/n, (y+n-rewarded)/n
		}
	}
	return lowest[1] - highest[0], highest[1] - lowest[0]
}
