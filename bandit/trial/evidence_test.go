package trial_test

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"precept/bandit/trial"
)

const injected, withheld = true, false // for sessionWithPick, pickWithOutcomes and closedPick

// sessionWithPick returns a session with one pick and with the expected reward centre.
func sessionWithPick(eps float64, injected bool, centre float64) *trial.Assignment {
	return &trial.Assignment{Matched: []trial.Match{{Arm: "a@1"}}, Picks: []trial.Pick{{Slug: "a", Arm: "a@1", Eps: eps, Injected: injected, Offset: centre, Centre: centre}}}
}

// weightedReward returns z = (y - c) (A/(1-eps) - (1-A)/eps) for the reward y, where A is 1 for an injected pick and 0
// for a withheld pick. The mean of z over many picks is the effect.
func weightedReward(y, c, eps float64, injected bool) float64 {
	if injected {
		return (y - c) / (1 - eps)
	}
	return -(y - c) / eps
}

// For each of six bet sizes l, the factors 1 + l z of all picks are multiplied. The evidence that a lesson helps is the
// mean of the six products. The evidence that a lesson harms is computed in the same way from the factors 1 - l z. The
// largest bet size is 0.9 times the smaller of the two probabilities, of injecting and of withholding.
func TestEvidenceIsMeanBetProduct(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := trial.NewCounters()
		var bets [2][6]float64 // by bet size: the product
		for i := range bets {
			bets[i] = [6]float64{1, 1, 1, 1, 1, 1}
		}
		var largest [2]float64
		for range rapid.IntRange(1, 40).Draw(t, "sessions") {
			eps := rapid.SampledFrom([]float64{0.05, 0.2, 0.5, 0.95}).Draw(t, "eps")
			y, centre, injected := rapid.Float64Range(0, 1).Draw(t, "y"), rapid.Float64Range(0.05, 0.95).Draw(t, "c"), rapid.Bool().Draw(t, "injected")
			c.Add(sessionWithPick(eps, injected, centre).Contribution(y, 1))
			z := weightedReward(y, centre, eps, injected)
			for k, l := range []float64{.005, .01, .02, .04, .08, .16} {
				l = min(l, 0.9*min(eps, 1-eps))
				bets[0][k] *= 1 + l*z
				bets[1][k] *= 1 - l*z
			}
			if rapid.Bool().Draw(t, "look") {
				c.RaiseMaxima(time.Unix(1, 0))
				for i, b := range bets {
					largest[i] = max(largest[i], math.Log((b[0]+b[1]+b[2]+b[3]+b[4]+b[5])/6))
				}
			}
		}
		s := c.Stats("a@1")
		if math.Abs(s.Maxima.LogEHelps-largest[0]) > 1e-4 || math.Abs(s.Maxima.LogEHarms-largest[1]) > 1e-4 {
			t.Fatalf("LogEHelps = %v, LogEHarms = %v, want %v", s.Maxima.LogEHelps, s.Maxima.LogEHarms, largest)
		}
	})
}

// ProvenAt is the time of the proof that a lesson helps. Evidence that a lesson harms does not set it.
func TestProofTimeIsRecordedOnce(t *testing.T) {
	c := trial.NewCounters()
	for n := range 400 {
		c.Add(sessionWithPick(0.5, n%2 == 0, 0.5).Contribution(float64((n+1)%2), 1))
		c.Add(moveToArm(sessionWithPick(0.5, n%2 == 0, 0.5), "b@1").Contribution(float64(n%2), 1))
		before := c.Stats("a@1").Maxima.ProvenAt
		c.RaiseMaxima(time.Unix(int64(1000+n), 0))
		s := c.Stats("a@1")
		if proven, want := s.Maxima.ProvenAt != 0, s.Maxima.LogEHelps >= math.Log(20); proven != want || proven != c.Progress("a@1", 0, "", 0).Proven {
			t.Fatalf("after %d rewards: ProvenAt is set = %v, Progress.Proven = %v, evidence %v, want both %v", n, proven, c.Progress("a@1", 0, "", 0).Proven, math.Exp(s.Maxima.LogEHelps), want)
		}
		if before != 0 && s.Maxima.ProvenAt != before {
			t.Fatalf("after %d rewards: ProvenAt = %d, want the unchanged time %d", n, s.Maxima.ProvenAt, before)
		}
	}
	if a, b := c.Stats("a@1"), c.Stats("b@1"); a.Maxima.ProvenAt == 0 || b.Maxima.ProvenAt != 0 || b.Maxima.LogEHarms < math.Log(20) || math.Abs(a.Maxima.LogEHelps-b.Maxima.LogEHarms) > 1e-3 {
		t.Errorf("helpful lesson: Maxima = %+v; harmful lesson: Maxima = %+v; want ProvenAt only for the helpful lesson, and LogEHarms of the harmful lesson equal to LogEHelps of the helpful one and at least %v", a.Maxima, b.Maxima, math.Log(20))
	}
}

func moveToArm(a *trial.Assignment, arm trial.Arm) *trial.Assignment {
	a.Matched[0].Arm, a.Picks[0].Arm, a.Picks[0].Slug = arm, arm, arm.Slug()
	return a
}

// The test computes each threshold again, by trying every possible number of discoveries.
func TestDiscoveryBarsMatchBenjaminiHochberg(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := trial.NewCounters()
		var ps []float64
		tests := 0
		for i := range rapid.IntRange(0, 8).Draw(t, "arms") {
			arm := fmt.Sprintf("l%d@1", i)
			switch rapid.IntRange(0, 3).Draw(t, "kind") {
			case 0: // a lesson without a reward is not tested
				c.Add((&trial.Assignment{Matched: []trial.Match{{Arm: trial.Arm(arm)}}}).ClosingDeltas())
				continue
			case 1: // no discovery
				c.Add(moveToArm(sessionWithPick(0.5, injected, 0.5), trial.Arm(arm)).Contribution(1, 1))
				ps = append(ps, 1, 1)
			default:
				up, down := rapid.Float64Range(0, 9).Draw(t, "up"), rapid.Float64Range(0.01, 9).Draw(t, "down")
				c.MergeMaxima([]trial.Delta{{Key: key(arm, "emax+", 0), Value: trial.Fixed(up)}, {Key: key(arm, "emax-", 0), Value: trial.Fixed(down)}})
				ps = append(ps, math.Exp(-trial.Round(up)), math.Exp(-trial.Round(down)))
			}
			tests += 2
		}
		slices.Sort(ps)
		want := -1.0
		found := 0
		for i, p := range ps {
			if p <= 0.05*float64(i+1)/float64(tests) {
				want, found = 0.05*float64(i+1)/float64(tests), i+1
			}
		}
		bar, next := c.DiscoveryBars()
		if math.Abs(bar-want) > 1e-12 || math.Abs(next-0.05*float64(found+1)/float64(max(tests, 1))) > 1e-12 {
			t.Fatalf("p-values %v, %d tests: DiscoveryBars = %v, %v, want %v, %v", ps, tests, bar, next, want, 0.05*float64(found+1)/float64(max(tests, 1)))
		}
	})
}

// The evidence has one product for each bet (an assumed effect). Each pick multiplies a product by 0.1 to 1.9, so no
// single pick can bring the evidence to zero.
func TestPickKeepsAtLeastATenthOfEvidence(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		eps, y, centre := rapid.Float64Range(0.0001, 0.9999).Draw(t, "eps"), rapid.Float64Range(0, 1).Draw(t, "y"), rapid.Float64Range(0.05, 0.95).Draw(t, "c")
		for _, d := range sessionWithPick(eps, rapid.Bool().Draw(t, "injected"), centre).Contribution(y, 1) {
			if d.Key.Field[0] == 'w' && d.Key.Field != "worse" && (d.Value < trial.Fixed(math.Log(0.1)) || d.Value > trial.Fixed(math.Log(1.9))) {
				t.Fatalf("bet delta = %v, want %d to %d millionths", d, trial.Fixed(math.Log(0.1)), trial.Fixed(math.Log(1.9)))
			}
		}
	})
}
