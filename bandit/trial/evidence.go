package trial

import (
	"math"
	"slices"
)

// bets is how many sizes of bet the e-value averages over.
const bets = 6

// lambda is the k-th bet against "no effect", for a pick withheld with probability eps. The cap
// keeps 1 + lambda z positive for every reward: |z| is below 0.95 / min(eps, 1-eps).
func lambda(k int, eps float64) float64 {
	return min(0.005*float64(int(1)<<k), 0.9*min(eps, 1-eps))
}

// logE is the logarithm of the mean over the bets of exp(W), W in millionths: an e-value. Under "no
// effect" its expectation is 1 at every moment, so that 1/max E is a p-value however often one
// looks.
func logE(w []int64) float64 {
	top := math.Inf(-1)
	for _, x := range w {
		top = math.Max(top, float64(x)/One)
	}
	var sum float64
	for _, x := range w {
		sum += math.Exp(float64(x)/One - top)
	}
	return top + math.Log(sum/bets)
}

// PValue turns a running maximum, as a logarithm, into a p-value.
func PValue(logEmax float64) float64 { return math.Exp(-math.Max(0, logEmax)) }

// Discoveries is the Benjamini-Hochberg procedure at level q on p-values: those up to it are
// discoveries; -1: none is. tests is the size of the family, which may be larger than len(p) when
// the rest are 1. p must be sorted.
func Discoveries(p []float64, tests int, q float64) float64 {
	if k := discoveries(p, tests, q); k > 0 {
		return q * float64(k) / float64(max(tests, 1))
	}
	return -1
}

// NextDiscovery is the p at which one more is sure to be a discovery. A larger one may do, where
// others that are none stand just above the line.
func NextDiscovery(p []float64, tests int, q float64) float64 {
	return q * float64(discoveries(p, tests, q)+1) / float64(max(tests, 1))
}

// discoveries counts them.
func discoveries(p []float64, tests int, q float64) int {
	for i, x := range slices.Backward(p) {
		if x <= q*float64(i+1)/float64(max(tests, 1)) {
			return i + 1
		}
	}
	return 0
}
