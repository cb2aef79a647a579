package trial_test

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"

	"precept/bandit/trial"
)

// The documentation lists half-widths in percentage points, for rewards that are 0 or 1.
func TestHalfWidthsMatchDocumentation(t *testing.T) {
	for n, row := range map[float64][3]float64{
		100: {84.6, 46.1, 36.9}, 300: {41.1, 22.4, 17.9}, 1000: {21.6, 11.8, 9.4}, 3000: {12.8, 6.9, 5.6}, 10_000: {7.3, 4.0, 3.2}, 30_000: {4.4, 2.4, 1.9},
	} {
		for i, eps := range []float64{0.05, 0.2, 0.5} {
			if got := 100 * trial.HalfWidth(n, 0.24*(1/(1-eps)+1/eps), trial.LessonTightestAt); math.Abs(got-row[i]) > 0.051 {
				t.Errorf("HalfWidth(%v picks, eps %v) = %.2f points, want %v", n, eps, got, row[i])
			}
		}
	}
}

func TestHalfWidthIsSmallestAtTunedCount(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Float64Range(100, 1e5).Draw(t, "n")
		other := n * rapid.SampledFrom([]float64{0.2, 0.5, 2, 5}).Draw(t, "times")
		if tuned, untuned := trial.HalfWidth(n, 1, n), trial.HalfWidth(n, 1, other); tuned >= untuned {
			t.Fatalf("half-width after %v sessions = %v, want less than %v, the half-width if the interval is tuned for %v sessions", n, tuned, untuned, other)
		}
	})
}

// If 0 is exactly at one end of the 95% interval, the p-value is 0.05.
func TestIntervalPValueMatchesHalfWidth(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n, v := rapid.Float64Range(1, 1e6).Draw(t, "n"), rapid.Float64Range(1e-6, 50).Draw(t, "variance")
		tightestAt := rapid.SampledFrom([]float64{trial.LessonTightestAt, 5000, 100}).Draw(t, "tight")
		h := trial.HalfWidth(n, v, tightestAt)
		if p := trial.IntervalPValue(h, n, v, tightestAt); math.Abs(p-trial.Alpha) > 1e-9 {
			t.Fatalf("0 at one end of the interval: p = %v, want %v", p, trial.Alpha)
		}
		far := rapid.Float64Range(0, 3).Draw(t, "far")
		p, mirrored := trial.IntervalPValue(far*h, n, v, tightestAt), trial.IntervalPValue(-far*h, n, v, tightestAt)
		if p != mirrored || p > 1 || p < 0 || far > 1.001 && p >= trial.Alpha || far < 0.999 && p <= trial.Alpha {
			t.Fatalf("0 at a distance of %v half-widths: p = %v, with the opposite sign %v; want equal numbers, below alpha only if 0 is outside the interval", far, p, mirrored)
		}
	})
}

func TestMomentsAreMeanAndVariance(t *testing.T) {
	if m, v := trial.Moments(4, 2, 3); m != 0.5 || v != 0.5 {
		t.Errorf("Moments(4, 2, 3) = %v, %v, want 0.5 and 0.5", m, v)
	}
	if _, v := trial.Moments(4, 4, 4); v <= 0 || v > 1e-8 || trial.HalfWidth(4, v, 1000) <= 0 {
		t.Errorf("all numbers equal: variance = %v, want more than 0 and at most 1e-8", v)
	}
}

// An interval needs 50 rewarded sessions, at least 5 of them with the lesson and 5 without. A verdict needs 50 rewarded
// sessions with the lesson and 50 without.
func TestIntervalNeedsEnoughRewardedSessions(t *testing.T) {
	for _, tc := range []struct {
		rewarded, injected, withheld float64
		interval, verdict            bool
	}{
		{rewarded: 49, injected: 44, withheld: 5},
		{rewarded: 50, injected: 45, withheld: 5, interval: true},
		{rewarded: 50, injected: 5, withheld: 45, interval: true},
		{rewarded: 50, injected: 46, withheld: 4},
		{rewarded: 50, injected: 4, withheld: 46},
		{rewarded: 99, injected: 50, withheld: 49, interval: true},
		{rewarded: 99, injected: 49, withheld: 50, interval: true},
		{rewarded: 100, injected: 50, withheld: 50, interval: true, verdict: true},
	} {
		if interval, verdict := trial.EnoughForInterval(tc.rewarded, tc.injected, tc.withheld), trial.EnoughForVerdict(tc.injected, tc.withheld); interval != tc.interval || verdict != tc.verdict {
			t.Errorf("%+v: EnoughForInterval = %v and EnoughForVerdict = %v, want %v and %v", tc, interval, verdict, tc.interval, tc.verdict)
		}
	}
}

// countedPicks holds counters with picks, and the sums over the same picks that the test computes itself.
type countedPicks struct {
	*trial.Counters
	n, z, zz, n1, n0 float64
}

func (p *countedPicks) addSession(eps float64, injected bool, y, centre float64) {
	p.Add(sessionWithPick(eps, injected, centre).Contribution(y, 1))
	z := trial.Round(weightedReward(y, centre, eps, injected))
	p.n, p.z, p.zz = p.n+1, p.z+z, p.zz+z*z
	if injected {
		p.n1++
	} else {
		p.n0++
	}
}

// The maxima record which intervals were farthest above and below 0, and when an interval was within 3 points of 0 for
// the first time. Only intervals with 50 injected and 50 withheld rewarded picks count.
func TestMaximaRecordFarthestIntervals(t *testing.T) {
	for name, tc := range map[string]struct{ with, without, centre float64 }{"lesson helps": {0.9, 0.5, 0.5}, "lesson harms": {0.5, 0.9, 0.5}, "lesson has no effect": {0.98, 0.98, 0.95}} {
		r := rand.New(rand.NewPCG(8, 1)) //nolint:gosec // the tests need repeatable numbers
		p := &countedPicks{Counters: trial.NewCounters()}
		var maxAbove, maxBelow float64
		var noEffectAt int64
		for i := range 4000 {
			injected := r.Float64() >= 0.5
			chance, y := tc.without, 0.0
			if injected {
				chance = tc.with
			}
			if r.Float64() < chance {
				y = 1
			}
			p.addSession(0.5, injected, y, tc.centre)
			if i%7 != 0 {
				continue
			}
			p.RaiseMaxima(time.Unix(int64(i), 0))
			mean := p.z / p.n
			v := p.zz/p.n - mean*mean
			if p.n >= 50 && p.n1 >= 50 && p.n0 >= 50 {
				far := -math.Log(trial.IntervalPValue(mean, p.n, v, 1000))
				if mean > 0 {
					maxAbove = max(maxAbove, far)
				} else {
					maxBelow = max(maxBelow, far)
				}
			}
			if h := trial.HalfWidth(p.n, v, 1000); noEffectAt == 0 && p.n >= 50 && mean-h >= -0.03 && mean+h <= 0.03 {
				noEffectAt = int64(i)
			}
			s := p.Stats("a@1")
			if math.Abs(s.Maxima.MaxAbove-maxAbove) > 1e-3 || math.Abs(s.Maxima.MaxBelow-maxBelow) > 1e-3 || s.Maxima.NoEffectAt != noEffectAt {
				t.Fatalf("%s after %d picks: MaxAbove = %v, MaxBelow = %v, NoEffectAt = %d; want %v, %v, %d", name, i, s.Maxima.MaxAbove, s.Maxima.MaxBelow, s.Maxima.NoEffectAt, maxAbove, maxBelow, noEffectAt)
			}
			above, below := maxAbove >= math.Log(20), maxBelow >= math.Log(20)
			if got := p.Progress("a@1", 0, "", 0).Concluded; got != (noEffectAt > 0 || above && !below) {
				t.Fatalf("%s after %d picks: Concluded = %v, want %v", name, i, got, !got)
			}
		}
		if reached := map[string]bool{"lesson helps": maxAbove > 3, "lesson harms": maxBelow > 3, "lesson has no effect": noEffectAt > 0}; !reached[name] {
			t.Errorf("%s: MaxAbove = %v, MaxBelow = %v, NoEffectAt = %d, want the maximum for this effect to be set", name, maxAbove, maxBelow, noEffectAt)
		}
	}
}

// An arm is concluded if some interval was above 0 and none was below 0, or if an interval was within 3 points of 0.
// The fields out+ and out- record the intervals farthest above and below 0, and the field idle_at the first interval
// within 3 points of 0.
func TestConcludedNeedsPositiveOrNarrowInterval(t *testing.T) {
	bar := trial.Fixed(-math.Log(trial.Alpha))
	for _, tc := range []struct {
		maxAbove, maxBelow, noEffectAt int64
		want                           bool
	}{
		{maxAbove: bar - 1},
		{maxAbove: bar, want: true},
		{maxAbove: bar, maxBelow: bar - 1, want: true},
		{maxAbove: bar, maxBelow: bar},
		{maxBelow: bar},
		{noEffectAt: 1, want: true},
		{maxAbove: bar, maxBelow: bar, noEffectAt: 1, want: true},
	} {
		k := trial.NewCounters()
		k.MergeMaxima([]trial.Delta{{Key: key("a@1", "out+", 0), Value: tc.maxAbove}, {Key: key("a@1", "out-", 0), Value: tc.maxBelow}, {Key: key("a@1", "idle_at", 0), Value: tc.noEffectAt}})
		if got := k.Progress("a@1", 0, "", 0); got.Concluded != tc.want || got.Proven {
			t.Errorf("%+v: Progress = %+v, want Concluded = %v and Proven = false", tc, got, tc.want)
		}
	}
}

// Without an effect, the interval is computed after each of 1,000 sessions. For at most 5% of the lessons, any of the
// 1,000 intervals may exclude 0.
func TestIntervalRarelyExcludesZeroWithoutEffect(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 1)) //nolint:gosec // the tests need repeatable numbers
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
			if mean, v := trial.Moments(n, z, zz); trial.EnoughForInterval(n, n1, n0) && math.Abs(mean) > trial.HalfWidth(n, v, trial.LessonTightestAt) {
				missed++
				break
			}
		}
	}
	if missed > runs/20+13 { // three standard errors
		t.Errorf("in %d runs: got %d runs with an interval that excludes 0, want at most %d", runs, missed, runs/20+13)
	}
}
