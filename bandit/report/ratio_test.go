package report

import (
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"precept/bandit/trial"
)

// simulateCheck simulates n sessions. Each session records eps as the probability of withholding the lesson, but the
// lesson is withheld with probability p. A session gets a reward with probability injectedRewarded or withheldRewarded.
// simulateCheck calls check after every 20 sessions, and returns true as soon as check returns true.
func simulateCheck(r *rand.Rand, n int, eps, p, injectedRewarded, withheldRewarded float64, check func(s trial.Stratum) bool) (alarmed bool) {
	s := trial.Stratum{Eps: eps}
	for i := range n {
		arm, rewarded := 1, injectedRewarded
		if r.Float64() < p {
			arm, rewarded = 0, withheldRewarded
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

// singleAlarm is the logarithm of the alarm threshold for a report with one lesson, and alarmFor200Lessons for a report
// with 200 lessons. A report with 200 lessons has 402 checks: two for each lesson and two for all sessions.
var singleAlarm, alarmFor200Lessons = math.Log(minAlarmLevel), math.Log(402 / alarmRate) //nolint:gochecknoglobals // test constants

// isShareImbalanced reports whether the share of withheld picks differs too much from the recorded probability.
func isShareImbalanced(s trial.Stratum) bool {
	return assignmentLogE([]trial.Stratum{s}) >= singleAlarm
}

// isReportingImbalanced reports whether the share of rewarded sessions differs too much between sessions with and
// without the lesson.
func isReportingImbalanced(s trial.Stratum) bool {
	return reportingLogE([]trial.Stratum{s}) >= singleAlarm
}

// assertShare calls run several times, and fails the test if the share of calls that return true is below atLeast.
func assertShare(t *testing.T, subject string, runs int, atLeast float64, run func() bool) {
	t.Helper()
	hit := 0
	for range runs {
		if run() {
			hit++
		}
	}
	got := float64(hit) / float64(runs)
	t.Logf("%s: found in %.1f%% (%d runs)", subject, 100*got, runs)
	if got < atLeast {
		t.Errorf("%s: found in %.1f%% (%d runs), want at least %.0f%%", subject, 100*got, runs, 100*atLeast)
	}
}

func TestChecksDetectWrongRatios(t *testing.T) {
	r := seededRand("broken")
	assertShare(t, "0.25 withheld instead of 0.20, 2,000 picks", 200, 0.8, func() bool { return simulateCheck(r, 2000, 0.2, 0.25, 1, 1, isShareImbalanced) })
	assertShare(t, "0.15 withheld instead of 0.20, 2,000 picks", 200, 0.8, func() bool { return simulateCheck(r, 2000, 0.2, 0.15, 1, 1, isShareImbalanced) })
	assertShare(t, "60% injected rewarded, 40% withheld, 3,000 picks", 200, 0.9, func() bool { return simulateCheck(r, 3000, 0.2, 0.2, 0.6, 0.4, isReportingImbalanced) })
	assertShare(t, "40% injected rewarded, 60% withheld, 3,000 picks", 200, 0.9, func() bool { return simulateCheck(r, 3000, 0.2, 0.2, 0.4, 0.6, isReportingImbalanced) })
	assertShare(t, "60% injected rewarded, 40% withheld, trial with 1,000 picks", 200, 0.9, func() bool { return simulateCheck(r, 1000, 0.5, 0.5, 0.6, 0.4, isReportingImbalanced) })
	assertShare(t, "60% control rewarded, 40% treated, 6,000 sessions", 200, 0.9, func() bool { return simulateCheck(r, 6000, 0.05, 0.05, 0.4, 0.6, isReportingImbalanced) })
	assertShare(t, "60% control rewarded, 40% treated, 3,000 sessions, a tenth control", 200, 0.9, func() bool { return simulateCheck(r, 3000, 0.1, 0.1, 0.4, 0.6, isReportingImbalanced) })
	assertShare(t, "40% control rewarded, 60% treated, 3,000 sessions, a tenth control", 200, 0.9, func() bool { return simulateCheck(r, 3000, 0.1, 0.1, 0.6, 0.4, isReportingImbalanced) })
}

// reportingFailsAtAnyTime runs the reporting check after every 20 sessions. The check tests whether lessons change
// which sessions have a reward. Each session has one to three picks, and 5% are control sessions.
func reportingFailsAtAnyTime(r *rand.Rand, n int, withLesson, withoutLesson float64) bool {
	g := trial.Stats{
		Strata: []trial.Stratum{{Eps: 0.05}},
		All:    trial.AllSessions{AnyInjected: []trial.Stratum{{Eps: 0.2}, {Eps: 0.2 * 0.2}, {Eps: 0.2 * 0.2 * 0.2}}},
	}
	for i := range n {
		control, picks, injected := r.Float64() < 0.05, 1+r.IntN(3), 0
		for range picks {
			if !control && r.Float64() >= 0.2 {
				injected = 1
			}
		}
		chance := withoutLesson
		if injected > 0 {
			chance = withLesson
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
			count(&g.All.AnyInjected[picks-1], injected)
		}
		if i%20 == 19 && allReportingLogE(g) >= singleAlarm {
			return true
		}
	}
	return false
}

// The check compares sessions with and without a lesson, and needs 3,000 sessions. A comparison with control sessions
// would need 6,000.
func TestLessonAssignmentsRevealUnevenReporting(t *testing.T) {
	r := seededRand("tellers")
	assertShare(t, "60% rewarded with a lesson, 40% without, 3,000 sessions", 200, 0.85, func() bool { return reportingFailsAtAnyTime(r, 3000, 0.6, 0.4) })
	assertShare(t, "40% rewarded with a lesson, 60% without, 3,000 sessions", 200, 0.9, func() bool { return reportingFailsAtAnyTime(r, 3000, 0.4, 0.6) })
	for run := range 400 {
		rewarded := []float64{1, 0.8, 0.5, 0.1}[run%4]
		if reportingFailsAtAnyTime(r, 3000, rewarded, rewarded) {
			t.Errorf("run %d, rewarded share %v with and without a lesson: reporting check failed, want it passed", run, rewarded)
		}
	}
}

func TestValidAssignmentsRaiseNoAlarm(t *testing.T) {
	r := seededRand("sound")
	for run := range 400 {
		eps := []float64{0.05, 0.2, 0.5}[run%3]
		rewarded := []float64{1, 0.5, 0.1}[run/3%3]
		if simulateCheck(r, 3000, eps, eps, rewarded, rewarded, func(s trial.Stratum) bool { return isShareImbalanced(s) || isReportingImbalanced(s) }) {
			t.Errorf("run %d, epsilon %v, rewarded share %v: SRM check or reporting check failed, want both passed", run, eps, rewarded)
		}
	}
}

// The lesson changes the tier of the rewards, but not their number.
func TestUnevenTierSharesFailReportingCheck(t *testing.T) {
	s := trial.Stratum{Eps: 0.5, Assigned: [2]int64{1000, 1000}}
	s.RewardedAtClose[0] = [4]int64{0, 300, 0, 200}
	s.RewardedAtClose[1] = [4]int64{0, 300, 0, 200}
	if isReportingImbalanced(s) {
		t.Error("equal tier shares: isReportingImbalanced = true, want false")
	}
	s.RewardedAtClose[0] = [4]int64{0, 400, 0, 100}
	if !isReportingImbalanced(s) {
		t.Error("unequal tier shares: isReportingImbalanced = false, want true")
	}
}

// The two strata pass the check, although the same sessions, pooled into one stratum, would fail it.
func TestStrataAreNotPooled(t *testing.T) {
	strata := []trial.Stratum{{Eps: 0.05, Assigned: [2]int64{50, 950}}, {Eps: 0.5, Assigned: [2]int64{500, 500}}}
	if got := newSRM(assignmentLogE(strata), minAlarmLevel); !got.OK || got.EValue > 1 {
		t.Errorf("two strata: check = %+v, want it passed with e-value <= 1", got)
	}
	if got := newSRM(assignmentLogE([]trial.Stratum{{Eps: 0.2, Assigned: [2]int64{550, 1450}}}), minAlarmLevel); got.OK {
		t.Errorf("pooled strata: check = %+v, want it failed, because otherwise the test with two strata proves nothing", got)
	}
	if got := newSRM(assignmentLogE(append(strata, trial.Stratum{Eps: 0, Assigned: [2]int64{1, 10}})), minAlarmLevel); got.OK {
		t.Errorf("withheld pick with epsilon 0: check = %+v, want it failed", got)
	}
	if got := newSRM(assignmentLogE(append(strata, trial.Stratum{Eps: 1, Assigned: [2]int64{10, 0}})), minAlarmLevel); !got.OK {
		t.Errorf("only withheld picks with epsilon 1: check = %+v, want it passed", got)
	}
	if got := newSRM(assignmentLogE(nil), minAlarmLevel); !got.OK || got.EValue != 1 {
		t.Errorf("no stratum: check = %+v, want it passed with e-value 1", got)
	}
}

// A ratio is an e-value if its mean over all possible assignments is 1.
func TestShareLogEIsAnEValue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Int64Range(1, 60).Draw(t, "n")
		p := rapid.Float64Range(0.01, 0.99).Draw(t, "p")
		var sum float64
		for k := range n + 1 {
			x, _ := math.Lgamma(float64(n + 1))
			y, _ := math.Lgamma(float64(k + 1))
			z, _ := math.Lgamma(float64(n - k + 1))
			chance := math.Exp(x - y - z + float64(k)*math.Log(p) + float64(n-k)*math.Log1p(-p))
			sum += chance * math.Exp(shareLogE(k, n, p))
		}
		if math.Abs(sum-1) > 1e-6 {
			t.Fatalf("%d assignments with probability %v: mean e-value = %v, want 1", n, p, sum)
		}
	})
	if shareLogE(5, 0, 0.2) != 0 || shareLogE(-3, -1, 0.2) != 0 || math.IsNaN(shareLogE(9, 3, 0.2)) {
		t.Errorf("impossible counts: ratio = %v, %v, %v, want 0, 0 and a number", shareLogE(5, 0, 0.2), shareLogE(-3, -1, 0.2), shareLogE(9, 3, 0.2))
	}
	if got := newSRM(1e9, minAlarmLevel); got.EValue != maxEValue || got.OK {
		t.Errorf("huge e-value: check = %+v, want it failed with e-value %v", got, float64(maxEValue))
	}
}

// For the lower bound, each session without a reward counts with the least favourable reward, and for the upper bound,
// with the most favourable.
func TestWorstCaseBoundsAssumeExtremeRewards(t *testing.T) {
	rewarded := func(withheld, injected int64) [2][4]int64 { return [2][4]int64{{0, withheld}, {0, injected}} }
	s := trial.Stratum{Eps: 0.2, Assigned: [2]int64{20, 80}, Rewarded: rewarded(10, 60), Y: [2]float64{5, 45}}
	lo, hi := worstCase([]trial.Stratum{s})
	if math.Abs(*lo-(45.0/80-15.0/20)) > 1e-12 || math.Abs(*hi-(65.0/80-5.0/20)) > 1e-12 {
		t.Errorf("one stratum: bounds = %v and %v, want %v and %v", *lo, *hi, 45.0/80-15.0/20, 65.0/80-5.0/20)
	}
	if lo, hi = worstCase(nil); lo != nil || hi != nil {
		t.Errorf("no stratum: bounds = %v and %v, want nil for both", lo, hi)
	}
	if lo, hi = worstCase([]trial.Stratum{{Eps: 0.2, Assigned: [2]int64{0, 0}}}); lo != nil || hi != nil {
		t.Errorf("stratum without sessions: bounds = %v and %v, want nil for both", lo, hi)
	}
	// Most sessions with the small holdout succeeded, and most sessions with the large holdout failed. The lesson has
	// no effect in either stratum, although the pooled means differ by about 45 points.
	simpson := []trial.Stratum{
		{Eps: 0.05, Assigned: [2]int64{50, 950}, Rewarded: rewarded(50, 950), Y: [2]float64{45, 855}},
		{Eps: 0.5, Assigned: [2]int64{500, 500}, Rewarded: rewarded(500, 500), Y: [2]float64{50, 50}},
	}
	if lo, hi = worstCase(simpson); math.Abs(*lo) > 1e-12 || math.Abs(*hi) > 1e-12 {
		t.Errorf("two strata without an effect: bounds = %v and %v, want 0 for both", *lo, *hi)
	}
	// Without a withheld session, the mean reward without the lesson is unknown.
	if lo, hi = worstCase([]trial.Stratum{{Eps: 0.2, Assigned: [2]int64{0, 10}, Rewarded: rewarded(0, 10), Y: [2]float64{0, 5}}}); *lo != -0.5 || *hi != 0.5 {
		t.Errorf("no withheld session: bounds = %v and %v, want -0.5 and 0.5", *lo, *hi)
	}
}

// addSessions adds n sessions, four in five of them to the first stratum. A session is withheld with the probability
// epsFactor times the epsilon of the stratum. rewarded holds the probability of a reward, first for withheld and then
// for injected sessions. The tier of a reward is a random number from 1 to tiers+1.
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
