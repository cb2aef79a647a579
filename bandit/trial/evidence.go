package trial

import (
	"math"
	"slices"
)

// betCount is the number of bet sizes. A bet of size lambda on "the lesson helps" starts with a stake of 1, and
// multiplies the stake by 1 + lambda z at each pick. A large final stake is evidence. An e-value is the mean final
// stake over the bets of all sizes.
const betCount = 6

// betSize returns the k-th bet size; larger sizes find larger effects sooner. The cap keeps 1 + lambda z positive for
// every reward, because |z| is below 0.95 / min(eps, 1-eps).
func betSize(k int, eps float64) float64 {
	return min(0.005*float64(int(1)<<k), 0.9*min(eps, 1-eps))
}

// logE returns the logarithm of the mean exp(W) over the bets. W is the sum of ln(1 + lambda z) for one bet size, in
// millionths. Under "no effect" the expected e-value is 1 at every moment, so 1/max E is a p-value that is valid at any
// time.
func logE(w []int64) float64 {
	top := math.Inf(-1)
	for _, x := range w {
		top = math.Max(top, float64(x)/FixedScale)
	}
	var sum float64
	for _, x := range w {
		sum += math.Exp(float64(x)/FixedScale - top)
	}
	return top + math.Log(sum/float64(len(w)))
}

// PValue returns the p-value for an e-value's running maximum, given as a logarithm.
func PValue(logEmax float64) float64 { return math.Exp(-math.Max(0, logEmax)) }

// Discoveries runs the Benjamini-Hochberg procedure at level q on sorted p-values, and returns the largest p-value that
// is a discovery, or -1. tests is the number of tests. If it is larger than the number of p-values, the missing
// p-values are 1.
func Discoveries(p []float64, tests int, q float64) float64 {
	if k := discoveries(p, tests, q); k > 0 {
		return q * float64(k) / float64(max(tests, 1))
	}
	return -1
}

// EvidenceBar returns the smallest log e-value that is a discovery. The threshold is valid for any dependence between
// the tests (e-BH; Wang and Ramdas, False discovery rate control with e-values, 2022). The k-th largest of n e-values
// must reach n/(q k). Without a discovery, the result is the bar for the largest e-value.
func EvidenceBar(logEs []float64, q float64) float64 {
	sorted := slices.Clone(logEs)
	slices.Sort(sorted)
	slices.Reverse(sorted)
	n := float64(max(len(sorted), 1))
	for i, e := range slices.Backward(sorted) {
		if bar := math.Log(n / (q * float64(i+1))); e >= bar {
			return bar
		}
	}
	return math.Log(n / q)
}

// NextDiscovery returns the p-value that makes one more arm certain to be a discovery.
func NextDiscovery(p []float64, tests int, q float64) float64 {
	return q * float64(discoveries(p, tests, q)+1) / float64(max(tests, 1))
}

func discoveries(p []float64, tests int, q float64) int {
	for i, x := range slices.Backward(p) {
		if x <= q*float64(i+1)/float64(max(tests, 1)) {
			return i + 1
		}
	}
	return 0
}
