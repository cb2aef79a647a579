package trial

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

// The bets must keep their arguments positive for every coin and every reward, or the logarithm
// ends the evidence.
func TestBetsStaySolvent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		eps := rapid.Float64Range(0.0001, 0.9999).Draw(t, "eps")
		r := rapid.Float64Range(0, 1).Draw(t, "y") - rapid.Float64Range(0.05, 0.95).Draw(t, "c")
		z, ok := ipw(r, rapid.Bool().Draw(t, "injected"), eps)
		for k := range bets {
			l := lambda(k, eps)
			if !ok || 1+l*z < 0.1 || 1-l*z < 0.1 || l > 0.9*eps || l <= 0 {
				t.Fatalf("lambda %v with z %v", l, z)
			}
		}
	})
	for k, want := range []float64{.005, .01, .02, .04, .08, .16} {
		if lambda(k, 0.2) != want {
			t.Errorf("lambda %d is %v", k, lambda(k, 0.2))
		}
	}
	if math.Abs(lambda(5, 0.05)-0.045) > 1e-6 {
		t.Error("the cap of 0.9 eps is missing")
	}
}
