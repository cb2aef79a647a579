package report_test

import (
	"math"
	"strings"
	"testing"

	"precept/bandit/report"
	"precept/bandit/trial"
)

// rewardedLater counts sessions of a lesson that close without a reward. The sessions of an arm get
// a reward later with the given probability.
func rewardedLater(c *trial.Counters, arm trial.Arm, n int, chance [2]float64) {
	r := seeded(string(arm))
	for range n {
		w := trial.Watch{Outcomes: trial.SetOf(trial.Errors), Weight: 0.5}
		w.C[trial.Errors] = 0.3
		a := &trial.Assignment{Decided: true, Graded: true, Day: today()}
		p := trial.Pick{Slug: arm.Slug(), Arm: arm, Eps: 0.5, Injected: r.IntN(2) == 1, C: 0.5, Watch: w}
		i := 0
		if p.Injected {
			i = 1
		}
		a.Picks = []trial.Pick{p}
		y, errors := float64(r.IntN(2)), r.Int64N(4)
		if y == 0 {
			errors += 3
		}
		a.Observe(trial.Tally{Errors: errors})
		c.Add(a.Closing())
		if r.Float64() < chance[i] {
			c.Add(a.Contribution(y, 2))
		}
	}
}

// Late rewards count, and the row has their number. If a lesson changes which sessions get a late
// reward, the row is invalid, and the row says that the estimate from all sessions is off.
func TestLateRewardsByOneArmTurnTheEstimateOff(t *testing.T) {
	c := trial.NewCounters()
	rewardedLater(c, "fair@abc", 1000, [2]float64{0.3, 0.3})
	rewardedLater(c, "unfair@abc", 1000, [2]float64{0.1, 0.5})
	got := report.Build(report.Input{Now: noon, Counters: c, Lessons: lessonsOf("fair", "unfair"), Explain: "fair"})
	fair, unfair := &got.Lessons[0], &got.Lessons[1]
	if fair.Late != fair.Rewarded || fair.Late < 250 || !fair.LateReporting.OK {
		t.Errorf("%d of %d rewards are late, reporting %+v, want all of them and a sound check", fair.Late, fair.Rewarded, fair.LateReporting)
	}
	s := fair.AllSessions
	if s == nil || s.Off != "" || s.Lo == nil || s.Sessions != 1000 || s.Rewarded != fair.Rewarded || s.Gain < 0.1 || *s.Hi-*s.Lo >= *fair.Hi-*fair.Lo {
		t.Errorf("the estimate from all sessions is %+v, want a narrower interval than [%v, %v]", s, *fair.Lo, *fair.Hi)
	}
	if !unfair.Reporting.OK || unfair.LateReporting.OK || unfair.Verdict != report.Invalid || unfair.AllSessions == nil || unfair.AllSessions.Effect != nil || !strings.Contains(unfair.AllSessions.Off, "which sessions have a reward") {
		t.Errorf("with late rewards of one arm the verdict is %q, want invalid; late reporting %+v, want a fault; the estimate is %+v, want off", unfair.Verdict, unfair.LateReporting, unfair.AllSessions)
	}
	var out strings.Builder
	if err := got.Explain(&out, "fair", 300); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"rewarded sessions got the reward after the closing", "less variance); no verdict uses this estimate"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the explanation lacks %q:\n%s", want, out.String())
		}
	}
}

// If a lesson changes the outcomes of rewarded sessions only, the other sessions carry no
// information about the reward, and the estimate is off.
func TestEstimateIsOffWhereRewardedSessionsDiffer(t *testing.T) {
	r, c := seeded("differ"), trial.NewCounters()
	for i := range 2000 {
		w := trial.Watch{Outcomes: trial.SetOf(trial.Errors), Weight: 1}
		w.C[trial.Errors] = 0.5
		a := &trial.Assignment{Decided: true, Graded: true, Day: today(), Picks: []trial.Pick{{Slug: "l", Arm: "l@abc", Eps: 0.5, Injected: r.IntN(2) == 1, C: 0.5, Watch: w}}}
		errors := int64(5)
		if i%4 == 0 && a.Picks[0].Injected {
			errors = 1
		}
		a.Observe(trial.Tally{Errors: errors + r.Int64N(3)})
		if i%4 == 0 {
			a.First = &trial.AtClosing{Y: float64(r.IntN(2)), Tier: 2}
		}
		c.Add(a.Closing())
		if a.First != nil {
			c.Add(a.Contribution(a.First.Y, 2))
		}
	}
	row := &report.Build(report.Input{Now: noon, Counters: c, Lessons: lessonsOf("l")}).Lessons[0]
	if s := row.AllSessions; s == nil || s.Effect != nil || !strings.Contains(s.Off, "differently") {
		t.Errorf("the estimate is %+v, want it off", s)
	}
}

// The share of the explained variance is that of the centres: centres at the true expectation of two kinds of
// sessions, 0.9 and 0.1, explain 0.64 of the variance, and one centre explains nothing.
func TestExplainedIsTheShareOfTheCentres(t *testing.T) {
	for _, k := range []struct {
		centres [2]float64
		want    float64
	}{{[2]float64{0.9, 0.1}, 0.64}, {[2]float64{0.5, 0.5}, 0}} {
		r, c := seeded("explained"), trial.NewCounters()
		for i := range 20_000 {
			a := &trial.Assignment{Decided: true, Graded: true, Day: today(), Picks: []trial.Pick{{Slug: "l", Arm: "l@abc", Eps: 0.2, Injected: r.Float64() >= 0.2, C: k.centres[i%2]}}}
			y := 0.0
			if r.Float64() < []float64{0.9, 0.1}[i%2] {
				y = 1
			}
			a.First = &trial.AtClosing{Y: y, Tier: 2}
			c.Add(append(a.Closing(), a.Contribution(y, 2)...))
		}
		row := &report.Build(report.Input{Now: noon, Counters: c, Lessons: lessonsOf("l")}).Lessons[0]
		if row.Explained == nil || math.Abs(*row.Explained-k.want) > 0.02 {
			t.Fatalf("centres %v explain %v of the variance, want %g", k.centres, row.Explained, k.want)
		}
		if saved := 20_000 * *row.Explained / (1 - *row.Explained); math.Abs(float64(row.PicksSaved)-max(saved, 0)) > 1 {
			t.Errorf("centres %v save %d picks, want %.0f", k.centres, row.PicksSaved, saved)
		}
	}
}
