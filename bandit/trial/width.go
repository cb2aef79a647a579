package trial

import "math"

// Alpha is the probability that an interval ever misses the effect.
const Alpha = 0.05

// LessonTightestAt is the number of picks for which a lesson's interval is tuned. An interval that is valid at all
// times can be tightest only at one number of picks.
const LessonTightestAt = 1000

// MaterialEffect is the smallest effect that an operator would act on: 3 points.
const MaterialEffect = 0.03

// Minimum number of rewarded picks, in total and in each arm, to estimate the variance for an asymptotic interval.
const (
	MinPicks  = 50
	MinPerArm = 5
)

// EnoughForInterval reports whether the picks suffice to show an interval.
func EnoughForInterval(n, injected, withheld float64) bool {
	return n >= MinPicks && injected >= MinPerArm && withheld >= MinPerArm
}

// MinVerdictPerArm is the minimum number of rewarded picks in each arm for a verdict. Half of all false verdicts came
// from rows with fewer picks, whose variance is uncertain.
const MinVerdictPerArm = 50

// EnoughForVerdict reports whether both arms have MinVerdictPerArm picks.
func EnoughForVerdict(injected, withheld float64) bool {
	return injected >= MinVerdictPerArm && withheld >= MinVerdictPerArm
}

// minVariance keeps an interval's width positive.
const minVariance = 1e-9

// Moments returns the mean and variance of n numbers from the sum and the sum of squares.
func Moments(n, sum, squares float64) (mean, variance float64) {
	mean = sum / n
	return mean, math.Max(squares/n-mean*mean, minVariance)
}

// HalfWidth returns the half-width of the asymptotic confidence sequence after n sessions with the given variance of z.
// The sequence is tightest at about tightestAt sessions (Waudby-Smith, Arbour, Sinha, Kennedy and Ramdas, Time-uniform
// central limit theory and asymptotic confidence sequences, 2021).
func HalfWidth(n, variance, tightestAt float64) float64 {
	l := -2 * math.Log(Alpha)
	r := (l + math.Log(l) + 1) / tightestAt
	return math.Sqrt(variance * 2 * (n*r + 1) / (n * n * r) * math.Log(math.Sqrt(n*r+1)/Alpha))
}

// IntervalPValue returns the level at which the HalfWidth interval would exclude 0: a p-value valid at any time.
func IntervalPValue(effect, n, variance, tightestAt float64) float64 {
	return math.Exp(logIntervalPValue(effect, n, variance, tightestAt))
}

func logIntervalPValue(effect, n, variance, tightestAt float64) float64 {
	l := -2 * math.Log(Alpha)
	r := (l + math.Log(l) + 1) / tightestAt
	return math.Min(0, math.Log(n*r+1)/2-effect*effect*n*n*r/(2*variance*(n*r+1)))
}
