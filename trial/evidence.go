package trial

// bets is how many sizes of bet the e-value averages over.
const bets = 6

// lambda is the k-th bet against "no effect", for a pick withheld with probability eps. The cap
// keeps 1 + lambda z positive for every reward: |z| is below 0.95 / min(eps, 1-eps).
func lambda(k int, eps float64) float64 {
	return min(0.005*float64(int(1)<<k), 0.9*min(eps, 1-eps))
}
