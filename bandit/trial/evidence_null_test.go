//go:build !race

package trial_test

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"precept/bandit/trial"
)

// Without an effect, evidence that is evaluated 150 times may reach 20 in at most one of 20 runs (Ville's inequality).
func TestEvidenceRarelyReaches20WithoutEffect(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 1)) //nolint:gosec // the tests need repeatable numbers
	const runs = 400
	for _, eps := range []float64{0.05, 0.2, 0.5} {
		var falseProofs [2]int
		for range runs {
			c := trial.NewCounters()
			for range 150 {
				y := 0.0
				if r.Float64() < 0.6 {
					y = 1
				}
				c.Add(sessionWithPick(eps, r.Float64() >= eps, 0.5).Contribution(y, 1))
				c.RaiseMaxima(time.Unix(1, 0))
			}
			s := c.Stats("a@1")
			for i, e := range []float64{s.Maxima.LogEHelps, s.Maxima.LogEHarms} {
				if e >= math.Log(20) {
					falseProofs[i]++
				}
			}
		}
		if maxProofs := runs/20 + 13; falseProofs[0] > maxProofs || falseProofs[1] > maxProofs { // 13 is three standard errors
			t.Errorf("holdout %v: false proofs of help and of harm: got %v in %d runs, want at most %d each", eps, falseProofs, runs, maxProofs)
		}
	}
}
