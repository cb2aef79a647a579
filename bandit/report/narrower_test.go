package report_test

import (
	"math"
	"strings"
	"testing"

	"precept/bandit/report"
	"precept/bandit/trial"
)

// addLateRewardedSessions adds n sessions that close without a reward, and late rewards for part of them. chance holds
// the probability of a late reward, first for withheld and then for injected sessions.
func addLateRewardedSessions(c *trial.Counters, arm trial.Arm, n int, chance [2]float64) {
	r := seededRand(string(arm))
	for range n {
		w := trial.Measurement{Outcomes: trial.NewOutcomeSet(trial.Errors), Weight: 0.5}
		w.Centres[trial.Errors] = 0.3
		a := &trial.Assignment{Decided: true, Graded: true, Day: today()}
		p := trial.Pick{Slug: arm.Slug(), Arm: arm, Eps: 0.5, Injected: r.IntN(2) == 1, Centre: 0.5, Measurement: w}
		i := 0
		if p.Injected {
			i = 1
		}
		a.Picks = []trial.Pick{p}
		y, errors := float64(r.IntN(2)), r.Int64N(4)
		if y == 0 {
			errors += 3
		}
		a.Observe(trial.Totals{Errors: errors})
		c.Add(a.ClosingDeltas())
		if r.Float64() < chance[i] {
			c.Add(a.Contribution(y, 2))
		}
	}
}

// A late reward is a reward that arrives after the session has closed. If injected and withheld sessions get late
// rewards at different rates, the row is invalid, and has no estimate from all sessions.
func TestUnevenLateRewardsMakeRowInvalid(t *testing.T) {
	c := trial.NewCounters()
	addLateRewardedSessions(c, "fair@abc", 1000, [2]float64{0.3, 0.3})
	addLateRewardedSessions(c, "unfair@abc", 1000, [2]float64{0.1, 0.5})
	got := report.Build(report.Input{Now: noon, Counters: c, Lessons: newLessons("fair", "unfair"), Explain: "fair"})
	fair, unfair := &got.Lessons[0], &got.Lessons[1]
	if fair.Late != fair.Rewarded || fair.Late < 250 || !fair.LateReporting.OK {
		t.Errorf("lesson fair: Late = %d, Rewarded = %d, LateReporting = %+v, want at least 250 rewards, all late, and a passed check", fair.Late, fair.Rewarded, fair.LateReporting)
	}
	s := fair.AllSessions
	if s == nil || s.OffReason != "" || s.Lo == nil || s.Sessions != 1000 || s.Rewarded != fair.Rewarded || s.Gain < 0.1 || *s.Hi-*s.Lo >= *fair.Hi-*fair.Lo {
		t.Errorf("lesson fair: AllSessions = %+v, want 1000 sessions, gain >= 0.1 and a narrower interval than [%v, %v]", s, *fair.Lo, *fair.Hi)
	}
	if !unfair.Reporting.OK || unfair.LateReporting.OK || unfair.Verdict != report.Invalid || unfair.AllSessions == nil || unfair.AllSessions.Effect != nil || !strings.Contains(unfair.AllSessions.OffReason, "which sessions have a reward") {
		t.Errorf("lesson unfair: Verdict = %q, Reporting = %+v, LateReporting = %+v, AllSessions = %+v, want %q, a passed check, a failed check, and a reason instead of an estimate", unfair.Verdict, unfair.Reporting, unfair.LateReporting, unfair.AllSessions, report.Invalid)
	}
	var out strings.Builder
	if err := got.Explain(&out, "fair", 300); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"sessions got the reward after closing", "less variance); no verdict uses this estimate"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("explanation =\n%s\nwant it to contain %q", out.String(), want)
		}
	}
}

// The estimate AllSessions also uses unrewarded sessions, whose rewards it predicts from errors. Here, the lesson
// changes the errors only in rewarded sessions, so the predictions would be wrong, and there must be no estimate.
func TestNoAllSessionsEffectIfErrorsDiffer(t *testing.T) {
	r, c := seededRand("differ"), trial.NewCounters()
	for i := range 2000 {
		w := trial.Measurement{Outcomes: trial.NewOutcomeSet(trial.Errors), Weight: 1}
		w.Centres[trial.Errors] = 0.5
		a := &trial.Assignment{Decided: true, Graded: true, Day: today(), Picks: []trial.Pick{{Slug: "l", Arm: "l@abc", Eps: 0.5, Injected: r.IntN(2) == 1, Centre: 0.5, Measurement: w}}}
		errors := int64(5)
		if i%4 == 0 && a.Picks[0].Injected {
			errors = 1
		}
		a.Observe(trial.Totals{Errors: errors + r.Int64N(3)})
		if i%4 == 0 {
			a.RewardAtClose = &trial.RewardAtClose{Y: float64(r.IntN(2)), Tier: 2}
		}
		c.Add(a.ClosingDeltas())
		if a.RewardAtClose != nil {
			c.Add(a.Contribution(a.RewardAtClose.Y, 2))
		}
	}
	row := &report.Build(report.Input{Now: noon, Counters: c, Lessons: newLessons("l")}).Lessons[0]
	if s := row.AllSessions; s == nil || s.Effect != nil || !strings.Contains(s.OffReason, "differently") {
		t.Errorf("AllSessions = %+v, want no effect and a reason with the word differently", s)
	}
}

// The centre of a session is the predicted reward. There are two kinds of sessions: the first succeeds in 90% of the
// cases, and the second in 10%. Centres of 0.9 and 0.1 then explain 64% of the variance of the rewards, and equal
// centres explain nothing.
func TestExplainedShareIsCentreVarianceShare(t *testing.T) {
	for _, tc := range []struct {
		centres [2]float64
		want    float64
	}{{[2]float64{0.9, 0.1}, 0.64}, {[2]float64{0.5, 0.5}, 0}} {
		r, c := seededRand("explained"), trial.NewCounters()
		for i := range 20_000 {
			a := &trial.Assignment{Decided: true, Graded: true, Day: today(), Picks: []trial.Pick{{Slug: "l", Arm: "l@abc", Eps: 0.2, Injected: r.Float64() >= 0.2, Centre: tc.centres[i%2]}}}
			y := 0.0
			if r.Float64() < []float64{0.9, 0.1}[i%2] {
				y = 1
			}
			a.RewardAtClose = &trial.RewardAtClose{Y: y, Tier: 2}
			c.Add(append(a.ClosingDeltas(), a.Contribution(y, 2)...))
		}
		row := &report.Build(report.Input{Now: noon, Counters: c, Lessons: newLessons("l")}).Lessons[0]
		if row.ExplainedShare == nil || math.Abs(*row.ExplainedShare-tc.want) > 0.02 {
			t.Fatalf("centres %v: row = %+v, want ExplainedShare = %g", tc.centres, row, tc.want)
		}
		if saved := max(20_000**row.ExplainedShare/(1-*row.ExplainedShare), 0); math.Abs(float64(row.PicksSaved)-saved) > 1 {
			t.Errorf("centres %v: PicksSaved = %d, want %.0f", tc.centres, row.PicksSaved, saved)
		}
	}
}
