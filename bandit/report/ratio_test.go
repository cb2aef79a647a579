package report

import (
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"precept/bandit/trial"
)

// flipCoins counts n sessions, withheld with probability p and rewarded with the probability of their arm. After
// every 20 sessions flipCoins calls check, and returns true when check does.
func flipCoins(r *rand.Rand, n int, eps, p, rewarded1, rewarded0 float64, check func(s trial.Stratum) bool) (alarmed bool) {
	s := trial.Stratum{Eps: eps}
	for i := range n {
		arm, rewarded := 1, rewarded1
		if r.Float64() < p {
			arm, rewarded = 0, rewarded0
		}
		s.Assigned[arm]++
		if r.Float64() < rewarded {
			s.RewardedAtClose[arm][1+i%3]++
		}
		if i%20 == 19 && check(s) {
			return true
		}
	}
	return false
}

// The alarm thresholds of a report with one lesson, and of a report with 200 lessons.
var singleAlarm, alarmOf200 = math.Log(alarm), math.Log(402 / alarmRate) //nolint:gochecknoglobals // numbers

// srmFails reports whether the withheld share of s deviates too far from its propensity, at the alarm of a
// report with one lesson.
func srmFails(s trial.Stratum) bool { return coinsLog([]trial.Stratum{s}) >= singleAlarm }

// reportingFails reports whether the check of the rewarded shares fails for a lesson alone.
func reportingFails(s trial.Stratum) bool { return reportingLog([]trial.Stratum{s}) >= singleAlarm }

// wantShare fails the test unless run returns true in a share of at least atLeast of the runs.
func wantShare(t *testing.T, what string, runs int, atLeast float64, run func() bool) {
	t.Helper()
	hit := 0
	for range runs {
		if run() {
			hit++
		}
	}
	got := float64(hit) / float64(runs)
	t.Logf("%s: found in %.1f%% of %d runs", what, 100*got, runs)
	if got < atLeast {
		t.Errorf("%s: found in %.1f%%, want %.0f%%", what, 100*got, 100*atLeast)
	}
}

// A broken ratio is found within the given number of picks, in the given share of the runs.
func TestBrokenRatiosAreFoundEarly(t *testing.T) {
	r := seeded("broken")
	wantShare(t, "0.25 withheld instead of 0.20, 2,000 picks", 200, 0.8, func() bool { return flipCoins(r, 2000, 0.2, 0.25, 1, 1, srmFails) })
	wantShare(t, "0.15 withheld instead of 0.20, 2,000 picks", 200, 0.8, func() bool { return flipCoins(r, 2000, 0.2, 0.15, 1, 1, srmFails) })
	wantShare(t, "60% of injected sessions rewarded, 40% of withheld, 3,000 picks", 200, 0.9, func() bool { return flipCoins(r, 3000, 0.2, 0.2, 0.6, 0.4, reportingFails) })
	wantShare(t, "40% of injected sessions rewarded, 60% of withheld, 3,000 picks", 200, 0.9, func() bool { return flipCoins(r, 3000, 0.2, 0.2, 0.4, 0.6, reportingFails) })
	wantShare(t, "60% of injected sessions rewarded, 40% of withheld, in a trial of 1,000 picks", 200, 0.9, func() bool { return flipCoins(r, 1000, 0.5, 0.5, 0.6, 0.4, reportingFails) })
	wantShare(t, "60% of control sessions rewarded, 40% of treated, 6,000 sessions", 200, 0.9, func() bool { return flipCoins(r, 6000, 0.05, 0.05, 0.4, 0.6, reportingFails) })
	wantShare(t, "60% of control sessions rewarded, 40% of treated, 3,000 sessions, a tenth control", 200, 0.9, func() bool { return flipCoins(r, 3000, 0.1, 0.1, 0.4, 0.6, reportingFails) })
	wantShare(t, "40% of control sessions rewarded, 60% of treated, 3,000 sessions, a tenth control", 200, 0.9, func() bool { return flipCoins(r, 3000, 0.1, 0.1, 0.6, 0.4, reportingFails) })
}

// reportingFailsAtAnyTime counts n sessions of one to three picks, 5% of them control. An injected lesson
// changes the probability of a reward from without to withOne. The result reports whether the check of all
// sessions failed at any time.
func reportingFailsAtAnyTime(r *rand.Rand, n int, withOne, without float64) bool {
	g := trial.Stats{
		Strata: []trial.Stratum{{Eps: 0.05}},
		All:    trial.AllSessions{Any: []trial.Stratum{{Eps: 0.2}, {Eps: 0.2 * 0.2}, {Eps: 0.2 * 0.2 * 0.2}}},
	}
	for i := range n {
		control, picks, injected := r.Float64() < 0.05, 1+r.IntN(3), 0
		for range picks {
			if !control && r.Float64() >= 0.2 {
				injected = 1
			}
		}
		chance := without
		if injected > 0 {
			chance = withOne
		}
		rewarded := r.Float64() < chance
		count := func(s *trial.Stratum, arm int) {
			s.Assigned[arm]++
			if rewarded {
				s.RewardedAtClose[arm][1+i%3]++
			}
		}
		if control {
			count(&g.Strata[0], 0)
		} else {
			count(&g.Strata[0], 1)
			count(&g.All.Any[picks-1], injected)
		}
		if i%20 == 19 && allReportingLog(g) >= singleAlarm {
			return true
		}
	}
	return false
}

// Uneven reporting means that lessons change which sessions have a reward. With 5% of control sessions, the
// comparison with control needs 6,000 sessions to reveal uneven reporting. The coins of the lessons need fewer.
func TestCoinsOfLessonsRevealUnevenReporting(t *testing.T) {
	r := seeded("tellers")
	wantShare(t, "60% rewarded with a lesson, 40% without, 3,000 sessions", 200, 0.85, func() bool { return reportingFailsAtAnyTime(r, 3000, 0.6, 0.4) })
	wantShare(t, "40% rewarded with a lesson, 60% without, 3,000 sessions", 200, 0.9, func() bool { return reportingFailsAtAnyTime(r, 3000, 0.4, 0.6) })
	for run := range 400 {
		rewarded := []float64{1, 0.8, 0.5, 0.1}[run%4]
		if reportingFailsAtAnyTime(r, 3000, rewarded, rewarded) {
			t.Errorf("run %d, %v rewarded in both groups: the check of all sessions failed", run, rewarded)
		}
	}
}

// A sound ratio is never called broken: 400 runs with 150 evaluations each.
func TestSoundRatioRaisesNoAlarm(t *testing.T) {
	r := seeded("sound")
	for run := range 400 {
		eps := []float64{0.05, 0.2, 0.5}[run%3]
		rewarded := []float64{1, 0.5, 0.1}[run/3%3]
		if flipCoins(r, 3000, eps, eps, rewarded, rewarded, func(s trial.Stratum) bool { return srmFails(s) || reportingFails(s) }) {
			t.Errorf("run %d, epsilon %v, rewarded %v: false alarm, want none for a sound ratio", run, eps, rewarded)
		}
	}
}

// The check of reporting fails if a lesson shifts rewards from one tier to another, even if the number of rewards is
// unchanged.
func TestUnevenTierSharesFailTheReportingCheck(t *testing.T) {
	s := trial.Stratum{Eps: 0.5, Assigned: [2]int64{1000, 1000}}
	s.RewardedAtClose[0] = [4]int64{0, 300, 0, 200}
	s.RewardedAtClose[1] = [4]int64{0, 300, 0, 200}
	if reportingFails(s) {
		t.Error("equal shares of the tiers fail the check, want it passed")
	}
	s.RewardedAtClose[0] = [4]int64{0, 400, 0, 100}
	if !reportingFails(s) {
		t.Error("unequal shares of the tiers pass the check, want it failed")
	}
}

// Pooled over propensities these coins look broken; each propensity alone is sound.
func TestPropensitiesAreNotPooled(t *testing.T) {
	strata := []trial.Stratum{{Eps: 0.05, Assigned: [2]int64{50, 950}}, {Eps: 0.5, Assigned: [2]int64{500, 500}}}
	if got := check(coinsLog(strata), alarm); !got.OK || got.EValue > 1 {
		t.Errorf("two sound propensities: got the check %+v, want it passed with an e-value of at most 1", got)
	}
	if got := check(coinsLog([]trial.Stratum{{Eps: 0.2, Assigned: [2]int64{550, 1450}}}), alarm); got.OK {
		t.Error("the pooled counts pass the check, want a failed check: otherwise the test does not distinguish pooling")
	}
	if got := check(coinsLog(append(strata, trial.Stratum{Eps: 0, Assigned: [2]int64{1, 10}})), alarm); got.OK {
		t.Errorf("withheld with propensity 0: got %+v, want OK = false", got)
	}
	if got := check(coinsLog(append(strata, trial.Stratum{Eps: 1, Assigned: [2]int64{10, 0}})), alarm); !got.OK {
		t.Errorf("all picks withheld with a chance of 1 give %+v, want no alarm", got)
	}
	if got := check(coinsLog(nil), alarm); !got.OK || got.EValue != 1 {
		t.Errorf("no coin: got %+v, want OK = true and EValue = 1", got)
	}
}

// An e-value is a fair bet: its mean over all outcomes of n coins is 1.
func TestRatioIsAnEValue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Int64Range(1, 60).Draw(t, "n")
		p := rapid.Float64Range(0.01, 0.99).Draw(t, "p")
		var sum float64
		for k := range n + 1 {
			x, _ := math.Lgamma(float64(n + 1))
			y, _ := math.Lgamma(float64(k + 1))
			z, _ := math.Lgamma(float64(n - k + 1))
			chance := math.Exp(x - y - z + float64(k)*math.Log(p) + float64(n-k)*math.Log1p(-p))
			sum += chance * math.Exp(ratio(k, n, p))
		}
		if math.Abs(sum-1) > 1e-6 {
			t.Fatalf("got a mean of the e-values of %v, want 1", sum)
		}
	})
	if ratio(5, 0, 0.2) != 0 || ratio(-3, -1, 0.2) != 0 || math.IsNaN(ratio(9, 3, 0.2)) {
		t.Errorf("impossible counts: got the ratios %v, %v and %v, want 0, 0 and a number", ratio(5, 0, 0.2), ratio(-3, -1, 0.2), ratio(9, 3, 0.2))
	}
	if got := check(1e9, alarm); got.EValue != capE || got.OK {
		t.Errorf("a huge e-value: got the check %+v, want it failed with the e-value %v", got, float64(capE))
	}
}

// The bounds of an effect assume the worst and the best reward for each session without a reward.
func TestBoundsAssumeTheWorstAndTheBestReward(t *testing.T) {
	rewarded := func(n0, n1 int64) [2][4]int64 { return [2][4]int64{{0, n0}, {0, n1}} }
	s := trial.Stratum{Eps: 0.2, Assigned: [2]int64{20, 80}, Rewarded: rewarded(10, 60), Y: [2]float64{5, 45}}
	lo, hi := worstCase([]trial.Stratum{s})
	if math.Abs(*lo-(45.0/80-15.0/20)) > 1e-12 || math.Abs(*hi-(65.0/80-5.0/20)) > 1e-12 {
		t.Errorf("got the bounds %v and %v, want %v and %v", *lo, *hi, 45.0/80-15.0/20, 65.0/80-5.0/20)
	}
	if lo, hi = worstCase(nil); lo != nil || hi != nil {
		t.Error("worstCase without strata returned bounds, want nil")
	}
	if lo, hi = worstCase([]trial.Stratum{{Eps: 0.2, Assigned: [2]int64{0, 0}}}); lo != nil || hi != nil {
		t.Error("worstCase of an empty stratum returned bounds, want nil")
	}
	// With the small holdout the sessions went well, with the large holdout badly; all have a
	// reward. Within each stratum the lesson has no effect, and the pooled difference would be 36
	// points.
	simpson := []trial.Stratum{
		{Eps: 0.05, Assigned: [2]int64{50, 950}, Rewarded: rewarded(50, 950), Y: [2]float64{45, 855}},
		{Eps: 0.5, Assigned: [2]int64{500, 500}, Rewarded: rewarded(500, 500), Y: [2]float64{50, 50}},
	}
	if lo, hi = worstCase(simpson); math.Abs(*lo) > 1e-12 || math.Abs(*hi) > 1e-12 {
		t.Errorf("two strata without an effect have the bounds %v and %v, want 0 and 0", *lo, *hi)
	}
	// The reward of an arm without any reward can have any value.
	if lo, hi = worstCase([]trial.Stratum{{Eps: 0.2, Assigned: [2]int64{0, 10}, Rewarded: rewarded(0, 10), Y: [2]float64{0, 5}}}); *lo != -0.5 || *hi != 0.5 {
		t.Errorf("got the bounds %v and %v, want -0.5 and 0.5", *lo, *hi)
	}
}

// addSessions adds n sessions to the strata, four in five of them to the first. The share of withheld sessions is
// the propensity of the stratum times epsFactor. rewarded holds the rewarded shares of withheld and of injected
// sessions.
func addSessions(r *rand.Rand, strata []trial.Stratum, n int, epsFactor float64, rewarded [2]float64, tiers int) {
	for range n {
		s := &strata[[]int{0, 0, 0, 0, 0, 0, 0, 0, 1, 2}[r.IntN(10)]]
		arm := 1
		if r.Float64() < s.Eps*epsFactor {
			arm = 0
		}
		s.Assigned[arm]++
		if r.Float64() < rewarded[arm] {
			s.RewardedAtClose[arm][1+r.IntN(tiers+1)]++
		}
	}
}
