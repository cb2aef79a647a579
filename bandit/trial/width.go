package trial

import "math"

// Alpha is the probability that an interval ever misses the effect.
const Alpha = 0.05

// TightLesson is the number of picks at which the interval of a lesson is tightest.
const TightLesson = 1000

// Material is the smallest effect that an operator would act on: 3 points.
const Material = 0.03

// Minimum numbers of rewarded picks, in total and in each arm, before the variance of an asymptotic
// interval can be trusted.
const (
	MinPicks = 50
	MinArm   = 5
)

// Enough reports whether an interval may be shown after n rewarded picks.
func Enough(n, injected, withheld float64) bool {
	return n >= MinPicks && injected >= MinArm && withheld >= MinArm
}

// ClaimSide is the minimum number of rewarded picks in each arm before an interval supports a
// verdict. With fewer picks the tail of the variance is not known well enough, and half of all false
// claims came from such rows.
const ClaimSide = 50

// Claimable reports whether the distance of an interval from 0 supports a verdict.
func Claimable(injected, withheld float64) bool {
	return injected >= ClaimSide && withheld >= ClaimSide
}

// minVariance keeps the width of an interval positive.
const minVariance = 1e-9

// Moments returns the mean and variance of n numbers from their sum and sum of squares.
func Moments(n, sum, squares float64) (mean, variance float64) {
	mean = sum / n
	return mean, math.Max(squares/n-mean*mean, minVariance)
}

// HalfWidth returns the half-width of the asymptotic confidence sequence after n sessions whose z
// has the given variance (Waudby-Smith, Arbour, Sinha, Kennedy and Ramdas, Time-uniform central
// limit theory and asymptotic confidence sequences, 2021), tuned to be tightest at about tight
// sessions.
func HalfWidth(n, variance, tight float64) float64 {
	l := -2 * math.Log(Alpha)
	r := (l + math.Log(l) + 1) / tight
	return math.Sqrt(variance * 2 * (n*r + 1) / (n * n * r) * math.Log(math.Sqrt(n*r+1)/Alpha))
}

// Exclusion returns the p-value of the sequence: the smallest Alpha at which the interval excludes
// 0, for the same tuning. The p-value is valid at any time, like the sequence.
func Exclusion(effect, n, variance, tight float64) float64 {
	return math.Exp(logExclusion(effect, n, variance, tight))
}

func logExclusion(effect, n, variance, tight float64) float64 {
	l := -2 * math.Log(Alpha)
	r := (l + math.Log(l) + 1) / tight
	return math.Min(0, math.Log(n*r+1)/2-effect*effect*n*n*r/(2*variance*(n*r+1)))
}
