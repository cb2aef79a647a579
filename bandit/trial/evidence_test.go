package trial_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"precept/bandit/trial"
)

// pickOf returns a session with one pick.
func pickOf(eps float64, injected bool, c float64) *trial.Assignment {
	return &trial.Assignment{Matched: []trial.Match{{Arm: "a@1"}}, Picks: []trial.Pick{{Slug: "a", Arm: "a@1", Eps: eps, Injected: injected, Off: c, C: c}}}
}

// zOf returns (y - c) (A/(1-eps) - (1-A)/eps).
func zOf(y, c, eps float64, injected bool) float64 {
	if injected {
		return (y - c) / (1 - eps)
	}
	return -(y - c) / eps
}

// The evidence is the mean over six sizes of bet of the product of 1 + l z, and of 1 - l z, at its
// maximum. No size is larger than 0.9 of the smaller probability of the coin.
func TestEvidenceIsTheMeanProductOfTheBets(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := trial.NewCounters()
		var bets [2][6]float64 // products, for "helps" and for "harms"
		for i := range bets {
			bets[i] = [6]float64{1, 1, 1, 1, 1, 1}
		}
		var largest [2]float64
		for range rapid.IntRange(1, 40).Draw(t, "sessions") {
			eps := rapid.SampledFrom([]float64{0.05, 0.2, 0.5, 0.95}).Draw(t, "eps")
			y, centre, injected := rapid.Float64Range(0, 1).Draw(t, "y"), rapid.Float64Range(0.05, 0.95).Draw(t, "c"), rapid.Bool().Draw(t, "injected")
			c.Add(pickOf(eps, injected, centre).Contribution(y, 1))
			z := zOf(y, centre, eps, injected)
			for k, l := range []float64{.005, .01, .02, .04, .08, .16} {
				l = min(l, 0.9*min(eps, 1-eps))
				bets[0][k] *= 1 + l*z
				bets[1][k] *= 1 - l*z
			}
			if rapid.Bool().Draw(t, "look") {
				c.Maxima(time.Unix(1, 0))
				for i, b := range bets {
					largest[i] = max(largest[i], math.Log((b[0]+b[1]+b[2]+b[3]+b[4]+b[5])/6))
				}
			}
		}
		s := c.Stats("a@1")
		if math.Abs(s.Proof.LogUp-largest[0]) > 1e-4 || math.Abs(s.Proof.LogDown-largest[1]) > 1e-4 {
			t.Fatalf("the logarithms of the largest evidence are %v up and %v down, want %v", s.Proof.LogUp, s.Proof.LogDown, largest)
		}
	})
}

// For a lesson without effect, evidence evaluated after each session reaches 20 to 1 in at most one
// case of twenty (Ville), for any holdout.
func TestEvidenceHoldsAtEveryEvaluation(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 1)) //nolint:gosec // tests repeat
	const runs = 400
	for _, eps := range []float64{0.05, 0.2, 0.5} {
		var fooled [2]int
		for range runs {
			c := trial.NewCounters()
			for range 150 {
				y := 0.0
				if r.Float64() < 0.6 {
					y = 1
				}
				c.Add(pickOf(eps, r.Float64() >= eps, 0.5).Contribution(y, 1))
				c.Maxima(time.Unix(1, 0))
			}
			s := c.Stats("a@1")
			for i, e := range []float64{s.Proof.LogUp, s.Proof.LogDown} {
				if e >= math.Log(20) {
					fooled[i]++
				}
			}
		}
		if most := runs/20 + 13; fooled[0] > most || fooled[1] > most { // three standard errors
			t.Errorf("holdout %v: got %v false proofs of %d runs, want at most %d on each side", eps, fooled, runs, most)
		}
	}
}

// A proof is recorded at odds of 20 to 1 in favour, once, with its time; harm is never recorded as
// a proof.
func TestProofIsRecordedOnceWithItsTime(t *testing.T) {
	c := trial.NewCounters()
	for n := range 400 {
		c.Add(pickOf(0.5, n%2 == 0, 0.5).Contribution(float64((n+1)%2), 1))
		c.Add(onArm(pickOf(0.5, n%2 == 0, 0.5), "b@1").Contribution(float64(n%2), 1))
		before := c.Stats("a@1").Proof.ProvenAt
		c.Maxima(time.Unix(int64(1000+n), 0))
		s := c.Stats("a@1")
		if is, want := s.Proof.ProvenAt != 0, s.Proof.LogUp >= math.Log(20); is != want || is != c.Progress("a@1", 0, "", 0).Proven {
			t.Fatalf("after %d rewards: proven is %v with odds of %v, want proven from odds of 20", n, is, math.Exp(s.Proof.LogUp))
		}
		if before != 0 && s.Proof.ProvenAt != before {
			t.Fatalf("the time of the proof is %[2]d, want %[1]d as before", before, s.Proof.ProvenAt)
		}
	}
	if a, b := c.Stats("a@1"), c.Stats("b@1"); a.Proof.ProvenAt == 0 || b.Proof.ProvenAt != 0 || b.Proof.LogDown < math.Log(20) || math.Abs(a.Proof.LogUp-b.Proof.LogDown) > 1e-3 {
		t.Errorf("got %+v with help and %+v with harm, want only the first proven, LogDown of the second at least %v and equal to LogUp of the first", a, b, math.Log(20))
	}
}

// onArm moves a session's pick to another arm.
func onArm(a *trial.Assignment, arm trial.Arm) *trial.Assignment {
	a.Matched[0].Arm, a.Picks[0].Arm, a.Picks[0].Slug = arm, arm, arm.Slug()
	return a
}

// The threshold of a proof is that of Benjamini and Hochberg over both directions of all tested
// arms: the test finds the threshold by trying each candidate.
func TestProofThresholdIsBenjaminiHochberg(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := trial.NewCounters()
		var ps []float64
		tests := 0
		for i := range rapid.IntRange(0, 8).Draw(t, "arms") {
			arm := fmt.Sprintf("l%d@1", i)
			switch rapid.IntRange(0, 3).Draw(t, "kind") {
			case 0: // matched, and never tested
				c.Add((&trial.Assignment{Matched: []trial.Match{{Arm: trial.Arm(arm)}}}).Closing())
				continue
			case 1: // tested, without a discovery
				c.Add(onArm(pickOf(0.5, true, 0.5), trial.Arm(arm)).Contribution(1, 1))
				ps = append(ps, 1, 1)
			default:
				up, down := rapid.Float64Range(0, 9).Draw(t, "up"), rapid.Float64Range(0.01, 9).Draw(t, "down")
				c.Raise([]trial.Delta{{Key: key(arm, "emax+", 0), Value: trial.Fixed(up)}, {Key: key(arm, "emax-", 0), Value: trial.Fixed(down)}})
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
		bar, next := c.Proof()
		if math.Abs(bar-want) > 1e-12 || math.Abs(next-0.05*float64(found+1)/float64(max(tests, 1))) > 1e-12 {
			t.Fatalf("p-values %v: got the threshold %v and the next %v, want the threshold %v with %d discoveries", ps, bar, next, want, found)
		}
	})
}

// No single session ends the evidence: for any propensity and any reward, each bet keeps at least a
// tenth of its wealth.
func TestBetsKeepATenthOfTheirWealth(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		eps, y, centre := rapid.Float64Range(0.0001, 0.9999).Draw(t, "eps"), rapid.Float64Range(0, 1).Draw(t, "y"), rapid.Float64Range(0.05, 0.95).Draw(t, "c")
		for _, d := range pickOf(eps, rapid.Bool().Draw(t, "injected"), centre).Contribution(y, 1) {
			if d.Key.Field[0] == 'w' && d.Key.Field != "worse" && (d.Value < trial.Fixed(math.Log(0.1)) || d.Value > trial.Fixed(math.Log(1.9))) {
				t.Fatalf("the bet adds %v to the logarithm of the wealth, want %d to %d millionths", d, trial.Fixed(math.Log(0.1)), trial.Fixed(math.Log(1.9)))
			}
		}
	})
}
