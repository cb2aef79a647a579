package trial

import "math"

// Alpha is the chance with which an interval may ever miss.
const Alpha = 0.05

// TightLesson is at how many sessions a lesson's interval is tightest: its question is asked at
// about a thousand picks.
const TightLesson = 1000

// Material is what an operator would act on: 3 points.
const Material = 0.03

// An asymptotic interval needs some data before its variance can be trusted: so many told picks,
// and so many of them in each arm.
const (
	MinPicks = 50
	MinArm   = 5
)

// Enough says that an interval may be shown after so many picks, of them so many in each arm.
func Enough(n, injected, withheld float64) bool {
	return n >= MinPicks && injected >= MinArm && withheld >= MinArm
}

// ClaimSide is how many told picks in each arm it takes before an interval may settle anything:
// with fewer, its variance is not known well enough far out, and half of all false claims were of
// such rows.
const ClaimSide = 50

// Claimable says that an interval's distance from 0 counts after so many told picks in each arm.
func Claimable(injected, withheld float64) bool {
	return injected >= ClaimSide && withheld >= ClaimSide
}

// leastVariance keeps an interval from having no width.
const leastVariance = 1e-9

// Moments are the mean of n numbers and their variance, from their sum and that of their squares.
func Moments(n, sum, squares float64) (mean, variance float64) {
	mean = sum / n
	return mean, math.Max(squares/n-mean*mean, leastVariance)
}

// HalfWidth is that of the asymptotic confidence sequence after n sessions whose z has the given
// variance (Waudby-Smith, Arbour, Sinha, Kennedy and Ramdas, Time-uniform central limit theory and
// asymptotic confidence sequences, 2021), made to be tightest at about tight sessions.
func HalfWidth(n, variance, tight float64) float64 {
	l := -2 * math.Log(Alpha)
	r := (l + math.Log(l) + 1) / tight
	return math.Sqrt(variance * 2 * (n*r + 1) / (n * n * r) * math.Log(math.Sqrt(n*r+1)/Alpha))
}

// Exclusion is the p-value that goes with the sequence: the smallest Alpha at which it would
// exclude 0, for the same tuning. It may be looked at as often as the sequence itself.
func Exclusion(effect, n, variance, tight float64) float64 {
	return math.Exp(logExclusion(effect, n, variance, tight))
}

func logExclusion(effect, n, variance, tight float64) float64 {
	l := -2 * math.Log(Alpha)
	r := (l + math.Log(l) + 1) / tight
	return math.Min(0, math.Log(n*r+1)/2-effect*effect*n*n*r/(2*variance*(n*r+1)))
}
