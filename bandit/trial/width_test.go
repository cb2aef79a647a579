package trial_test

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"

	"precept/bandit/trial"
)

// The half-widths that docs/EXPERIMENT.md promises, in points, for yes/no rewards.
func TestHalfWidthsOfTheDocumentation(t *testing.T) {
	for n, row := range map[float64][3]float64{
		100: {84.6, 46.1, 36.9}, 300: {41.1, 22.4, 17.9}, 1000: {21.6, 11.8, 9.4}, 3000: {12.8, 6.9, 5.6}, 10_000: {7.3, 4.0, 3.2}, 30_000: {4.4, 2.4, 1.9},
	} {
		for i, eps := range []float64{0.05, 0.2, 0.5} {
			if got := 100 * trial.HalfWidth(n, 0.24*(1/(1-eps)+1/eps), trial.TightLesson); math.Abs(got-row[i]) > 0.051 {
				t.Errorf("%v picks with propensity %v: got %.2f points, want %v as in the documentation", n, eps, got, row[i])
			}
		}
	}
}

// The interval that is tuned for n sessions is narrower at n sessions than intervals with other
// tunings.
func TestIntervalIsTightestAtItsTuning(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Float64Range(100, 1e5).Draw(t, "n")
		other := n * rapid.SampledFrom([]float64{0.2, 0.5, 2, 5}).Draw(t, "times")
		if own, off := trial.HalfWidth(n, 1, n), trial.HalfWidth(n, 1, other); own >= off {
			t.Fatalf("%v sessions: got a half-width of %v, want less than %v, the half-width tuned for %v", n, own, off, other)
		}
	})
}

// The p-value agrees with the interval: an effect at the edge has 0.05, one outside less, alike on
// both sides of 0.
func TestPValueMatchesTheInterval(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n, v := rapid.Float64Range(1, 1e6).Draw(t, "n"), rapid.Float64Range(1e-6, 50).Draw(t, "variance")
		tight := rapid.SampledFrom([]float64{trial.TightLesson, 5000, 100}).Draw(t, "tight")
		h := trial.HalfWidth(n, v, tight)
		if p := trial.Exclusion(h, n, v, tight); math.Abs(p-trial.Alpha) > 1e-9 {
			t.Fatalf("0 at the edge of the interval: got p = %v, want %v", p, trial.Alpha)
		}
		far := rapid.Float64Range(0, 3).Draw(t, "far")
		p, mirrored := trial.Exclusion(far*h, n, v, tight), trial.Exclusion(-far*h, n, v, tight)
		if p != mirrored || p > 1 || p < 0 || far > 1.001 && p >= trial.Alpha || far < 0.999 && p <= trial.Alpha {
			t.Fatalf("0 at %v half-widths: got p = %v and %v mirrored, want equal, and below alpha only outside", far, p, mirrored)
		}
	})
}

func TestMomentsAreMeanAndVariance(t *testing.T) {
	if m, v := trial.Moments(4, 2, 3); m != 0.5 || v != 0.5 {
		t.Errorf("got mean %v and variance %v, want 0.5 and 0.5", m, v)
	}
	if _, v := trial.Moments(4, 4, 4); v <= 0 || v > 1e-8 || trial.HalfWidth(4, v, 1000) <= 0 {
		t.Errorf("the variance of equal numbers is %v, want more than 0 and at most 1e-8", v)
	}
}

// Enough is true from 50 rewarded sessions with 5 in each arm, Claimable from 50 in each arm.
func TestIntervalNeedsEnoughRewardedSessions(t *testing.T) {
	for _, c := range []struct {
		n, injected, withheld float64
		shown, claimed        bool
	}{
		{49, 44, 5, false, false},
		{50, 45, 5, true, false},
		{50, 5, 45, true, false},
		{50, 46, 4, false, false},
		{50, 4, 46, false, false},
		{99, 50, 49, true, false},
		{99, 49, 50, true, false},
		{100, 50, 50, true, true},
	} {
		if shown, claimed := trial.Enough(c.n, c.injected, c.withheld), trial.Claimable(c.injected, c.withheld); shown != c.shown || claimed != c.claimed {
			t.Errorf("%+v: Enough is %v and Claimable is %v, want %v and %v", c, shown, claimed, c.shown, c.claimed)
		}
	}
}

// played holds the counters of rewarded picks of one lesson, and sums of the same picks by hand.
type played struct {
	*trial.Counters
	n, z, zz, n1, n0 float64
}

// session adds one session with the reward y to the counters and to the sums by hand.
func (p *played) session(eps float64, injected bool, y, centre float64) {
	p.Add(sessionWithPick(eps, injected, centre).Contribution(y, 1))
	z := trial.Round(weightedReward(y, centre, eps, injected))
	p.n, p.z, p.zz = p.n+1, p.z+z, p.zz+z*z
	if injected {
		p.n1++
	} else {
		p.n0++
	}
}

// The maxima of an arm record the intervals farthest above and below 0, with 50 rewarded picks in
// each arm, and the time of the first interval within 3 points of 0.
func TestExtremeIntervalsAreRecorded(t *testing.T) {
	for name, c := range map[string]struct{ with, without, centre float64 }{"helps": {0.9, 0.5, 0.5}, "harms": {0.5, 0.9, 0.5}, "idles": {0.98, 0.98, 0.95}} {
		r := rand.New(rand.NewPCG(8, 1)) //nolint:gosec // tests repeat
		p := &played{Counters: trial.NewCounters()}
		var up, down float64
		var idle int64
		for i := range 4000 {
			injected := r.Float64() >= 0.5
			chance, y := c.without, 0.0
			if injected {
				chance = c.with
			}
			if r.Float64() < chance {
				y = 1
			}
			p.session(0.5, injected, y, c.centre)
			if i%7 != 0 {
				continue
			}
			p.Maxima(time.Unix(int64(i), 0))
			mean := p.z / p.n
			v := p.zz/p.n - mean*mean
			if p.n >= 50 && p.n1 >= 50 && p.n0 >= 50 {
				far := -math.Log(trial.Exclusion(mean, p.n, v, 1000))
				if mean > 0 {
					up = max(up, far)
				} else {
					down = max(down, far)
				}
			}
			if h := trial.HalfWidth(p.n, v, 1000); idle == 0 && p.n >= 50 && mean-h >= -0.03 && mean+h <= 0.03 {
				idle = int64(i)
			}
			s := p.Stats("a@1")
			if math.Abs(s.Proof.OutUp-up) > 1e-3 || math.Abs(s.Proof.OutDown-down) > 1e-3 || s.Proof.IdleAt != idle {
				t.Fatalf("%s after %d: above %v, below %v, idle at %d; want %v, %v, %d", name, i, s.Proof.OutUp, s.Proof.OutDown, s.Proof.IdleAt, up, down, idle)
			}
			above, below := up >= math.Log(20), down >= math.Log(20)
			if got := p.Progress("a@1", 0, "", 0).Concluded; got != (idle > 0 || above && !below) {
				t.Fatalf("%s after %d rewards: concluded is %v, want another value; above %v, below %v, idle at %d", name, i, got, up, down, idle)
			}
		}
		if reached := map[string]bool{"helps": up > 3, "harms": down > 3, "idles": idle > 0}; !reached[name] {
			t.Errorf("%s was never reached: up %v, down %v, idle %d", name, up, down, idle)
		}
	}
}

// An arm whose interval was once above 0 and once below is not concluded, unless an interval was
// within 3 points of 0.
func TestArmWithChangedSignIsNotConcluded(t *testing.T) {
	bar := trial.Fixed(-math.Log(trial.Alpha))
	for _, c := range []struct {
		up, down, idle int64
		want           bool
	}{{bar - 1, 0, 0, false}, {bar, 0, 0, true}, {bar, bar - 1, 0, true}, {bar, bar, 0, false}, {0, bar, 0, false}, {0, 0, 1, true}, {bar, bar, 1, true}} {
		k := trial.NewCounters()
		k.Raise([]trial.Delta{{Key: key("a@1", "out+", 0), Value: c.up}, {Key: key("a@1", "out-", 0), Value: c.down}, {Key: key("a@1", "idle_at", 0), Value: c.idle}})
		if got := k.Progress("a@1", 0, "", 0); got.Concluded != c.want || got.Proven {
			t.Errorf("%+v: got %+v, want Concluded = %v and Proven = false", c, got, c.want)
		}
	}
}

// The interval of a lesson without effect excludes 0 at any of a thousand evaluations in at most
// one case of twenty.
func TestIntervalHoldsAtEveryEvaluation(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 1)) //nolint:gosec // tests repeat
	const runs = 400
	missed := 0
	for range runs {
		var n, z, zz, n1, n0 float64
		for range 1000 {
			injected := r.Float64() >= 0.2
			y := 0.0
			if r.Float64() < 0.7 {
				y = 1
			}
			one := weightedReward(y, 0.6, 0.2, injected)
			n, z, zz = n+1, z+one, zz+one*one
			if injected {
				n1++
			} else {
				n0++
			}
			if mean, v := trial.Moments(n, z, zz); trial.Enough(n, n1, n0) && math.Abs(mean) > trial.HalfWidth(n, v, trial.TightLesson) {
				missed++
				break
			}
		}
	}
	if missed > runs/20+13 { // three standard errors
		t.Errorf("the interval missed the effect in %d of %d runs, want at most %d", missed, runs, runs/20+13)
	}
}
