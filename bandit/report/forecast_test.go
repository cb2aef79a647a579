package report_test

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"precept/bandit"
	"precept/bandit/report"
	"precept/bandit/trial"
)

func chooserBelieving(effect float64) constantChooser {
	return constantChooser{report.Belief{Mean: effect, Var: 0.01, Epsilon: 0.2}}
}

// reportWithCosts returns a report on two lessons. The chooser expects the given effect of both. The lesson "a" has 200
// picks on one day, of which 100 have a reward. The lesson "new" has no picks.
func reportWithCosts(effect float64) report.Report {
	c := bandit.New()
	addArmSessions(c, "a", armSessions{epsilon: 0.2, injected: 80, withheld: 20, injectedRate: 0.6, withheldRate: 0.6, unrewardedInjected: 80, unrewardedWithheld: 20, day: today() - 6})
	in := newInput(c, "a", "new")
	in.Chooser = chooserBelieving(effect)
	return report.Build(in)
}

// Half of the picks have a reward, so a trial with 400 rewarded picks needs 800 sessions. The reward that is lost by
// withholding the lesson is computed from the effect that the chooser expects.
func TestForecastComputesTrialCost(t *testing.T) {
	r := reportWithCosts(0.1)
	f, err := r.Forecast("a", report.Goal{Picks: 400, Epsilon: 0.4})
	if err != nil {
		t.Fatal(err)
	}
	row := r.Lessons[0]
	v := row.Variance / (0.4 * 0.6) // 1/(1-eps) + 1/eps
	for field, x := range map[string]struct{ got, want float64 }{
		"sessions": {float64(f.Sessions), 800}, "withheld": {f.Withheld, 320}, "reward": {f.Reward, 32}, "extra cost": {f.ExtraCost, 16},
		"tokens": {float64(f.Tokens), 480 * 40}, "picks": {float64(f.Picks), 400}, "days": {*f.Days, 7 * 400 / row.PerWeek}, "per week": {f.PerWeek, row.PerWeek},
		"width": {f.Width, 1.959964 * math.Sqrt(v/400)}, "anytime": {f.AnytimeWidth, trial.HalfWidth(400, v, 1000)},
		"detects": {f.DetectableEffect, (1.959964 + 0.841621) * math.Sqrt(v/400)}, "believed": {f.BelievedEffect, 0.1},
	} {
		if math.Abs(x.got-x.want) > 1e-5*max(1, x.want) {
			t.Errorf("Forecast(400 picks): %s = %v, want %v", field, x.got, x.want)
		}
	}
	// For a lesson without rewards, the forecast uses the share of rewarded sessions in the whole report.
	f, err = r.Forecast("new", report.Goal{Picks: 100})
	if err != nil || f.Sessions != 200 || f.Days != nil || f.Epsilon != 0.5 || f.Power != 0.8 ||
		math.Abs(f.Variance-0.25) > 1e-9 {
		t.Errorf("new lesson: err = %v, forecast = %+v, want Sessions = 200, no Days, Epsilon = 0.5, Power = 0.8 and Variance = 0.25", err, f)
	}
	if text := strings.Join(f.Text(), "\n"); !strings.Contains(text, "the duration is unknown") {
		t.Errorf(`Text = %q, want it to contain "the duration is unknown"`, text)
	}
}

// The test makes two forecasts: for a lesson that the chooser expects to help, and for a lesson that the chooser
// expects to harm.
func TestForecastTextGolden(t *testing.T) {
	var all strings.Builder
	for _, mean := range []float64{0.1, -0.1} {
		r := reportWithCosts(mean)
		f, err := r.Forecast("a", report.Goal{Picks: 400, Epsilon: 0.4})
		if err != nil {
			t.Fatal(err)
		}
		all.WriteString(strings.Join(f.Text(), "\n") + "\n\n")
	}
	assertGolden(t, "forecast.txt", all.String())
}

// A valid goal has either a number of picks or an effect to detect, but not both.
func TestForecastRefusesInvalidGoals(t *testing.T) {
	r := reportWithCosts(0.1)
	nan := math.NaN()
	for _, tc := range []struct {
		g         report.Goal
		wantError string
	}{
		{report.Goal{Picks: 1}, ""},
		{report.Goal{DetectableEffect: 0.05}, ""},
		{report.Goal{DetectableEffect: 0.999, Power: 0.99, Epsilon: 0.01}, ""},
		{report.Goal{}, "needs a number of picks"},
		{report.Goal{DetectableEffect: 1}, "needs a number of picks"},
		{report.Goal{DetectableEffect: -0.1}, "needs a number of picks"},
		{report.Goal{DetectableEffect: nan}, "needs a number of picks"},
		{report.Goal{Picks: -5}, "needs a number of picks"},
		{report.Goal{Picks: 5, DetectableEffect: 0.1}, "cannot be combined"},
		{report.Goal{Picks: 5, Power: 1}, "must be between 0 and 1"},
		{report.Goal{Picks: 5, Power: -0.1}, "must be between 0 and 1"},
		{report.Goal{Picks: 5, Epsilon: 1}, "must be between 0 and 1"},
		{report.Goal{Picks: 5, Epsilon: nan}, "must be between 0 and 1"},
	} {
		_, err := r.Forecast("a", tc.g)
		if (err == nil) != (tc.wantError == "") || err != nil && !strings.Contains(err.Error(), tc.wantError) {
			t.Errorf("goal %+v: err = %v, want an error that contains %q (if empty: no error)", tc.g, err, tc.wantError)
		}
	}
	if _, err := r.Forecast("unknown", report.Goal{Picks: 5}); !errors.Is(err, report.ErrNoLesson) {
		t.Errorf("unknown lesson: err = %v, want report.ErrNoLesson", err)
	}
}

// The third planned trial is evaluated at a level below 0.05, because only one of the first two trials has proved an
// effect.
func TestLaterPlannedTrialsHaveSmallerLevel(t *testing.T) {
	in := allKindsInput() // has two planned trials: one that proved an effect, and one that is running
	r := report.Build(in)
	f, err := r.Forecast("running", report.Goal{DetectableEffect: 0.05})
	if err != nil || f.PlannedTrials != 3 || math.Abs(f.Level-0.05*2/3) > 1e-12 || f.Running == nil ||
		f.Running.Rewarded != 200 {
		t.Fatalf("err = %v, forecast = %+v, want no error, PlannedTrials = 3, Level = 0.05*2/3 and a running trial with 200 rewarded picks", err, f)
	}
	if want := trial.PicksFor(0.05, 0.8, 0.05*2/3, 0.5, f.Variance); f.Picks != want {
		t.Errorf("Picks = %d, want %d", f.Picks, want)
	}
	if text := f.Text(); !strings.Contains(text[len(text)-1], "200 of 400 picks") ||
		!strings.Contains(text[len(text)-1], "ends without an evaluation") {
		t.Errorf(`Text = %q, want a last line with "200 of 400 picks" and "ends without an evaluation"`, text)
	}
	if f, err = r.Forecast("ended", report.Goal{DetectableEffect: 0.05}); err != nil || f.Running != nil {
		t.Errorf("lesson with an ended trial: err = %v, Running = %+v, want no error and no running trial", err, f.Running)
	}
}

func TestForecastUsesActiveText(t *testing.T) {
	for _, arms := range [][2]string{{"old@1", "old@2"}, {"old@2", "old@1"}} {
		c := bandit.New()
		for _, arm := range []trial.Arm{"old@1", "old@2"} {
			a := trial.Assignment{
				Decided: true,
				Day:     today(),
				Picks: []trial.Pick{
					{Slug: "old", Arm: arm, Eps: 0.2, Injected: true, Tokens: 70},
				},
			}
			c.Add(a.ClosingDeltas())
		}
		in := newInput(c)
		in.Lessons = []report.Lesson{
			{Slug: "old", Arm: trial.Arm(arms[0]), State: "active", Confidence: 0.5},
		}
		in.Chooser = beliefInArm{arms[0]}
		r := report.Build(in)
		if f, err := r.Forecast("old", report.Goal{Picks: 10}); err != nil || f.BelievedEffect != 0.5 {
			t.Errorf("%s active: err = %v, BelievedEffect = %v, want 0.5", arms[0], err, f.BelievedEffect)
		}
	}
}

type beliefInArm struct{ arm string }

func (b beliefInArm) Belief(l report.Lesson) report.Belief {
	if string(l.Arm) == b.arm {
		return report.Belief{Mean: 0.5, Var: 0.01, Epsilon: 0.2}
	}
	return report.Belief{Epsilon: 0.2}
}
func (beliefInArm) BelievedAt(report.Lesson, int32) float64 { return 0 }
func (beliefInArm) Sigma2() float64                         { return 0.25 }

// If the mean rewards stay the same, a verdict needs NeedsPicks more picks (sessions for which the lesson is chosen).
// After 85% of these picks, the row must not have a verdict, and after 106%, it must have one.
func TestNeededPicksSufficeForVerdict(t *testing.T) {
	buildRow := func(a armSessions, others int) report.Row {
		c := bandit.New()
		for i := range others {
			addArmSessions(c, "other-"+string(rune('a'+i)), armSessions{epsilon: 0.5, injected: 60, withheld: 60, injectedRate: 0.5, withheldRate: 0.5})
		}
		addArmSessions(c, "a", a)
		return lessonRow(t, c, func(in *report.Input) { in.Chooser = constantChooser{report.Belief{Var: 1, Epsilon: a.epsilon}} })
	}
	for _, a := range []armSessions{
		{epsilon: 0.5, injected: 200, withheld: 200, injectedRate: 0.6, withheldRate: 0.5},
		{epsilon: 0.2, injected: 320, withheld: 80, injectedRate: 0.65, withheldRate: 0.55},
		{epsilon: 0.5, injected: 300, withheld: 300, injectedRate: 0.5, withheldRate: 0.5},
		{epsilon: 0.5, injected: 200, withheld: 200, injectedRate: 0.5, withheldRate: 0.58},
	} {
		r := buildRow(a, 0)
		if r.Verdict != report.Unproven || r.NeedsPicks <= 0 {
			t.Fatalf("%+v: Verdict = %q, NeedsPicks = %d, want %q and more than 0", a, r.Verdict, r.NeedsPicks, report.Unproven)
		}
		rowAfter := func(share float64) report.Row {
			growth := (float64(r.Rewarded) + share*float64(r.NeedsPicks)) / float64(r.Rewarded)
			b := a
			b.injected, b.withheld = int(math.Round(growth*float64(a.injected))), int(math.Round(growth*float64(a.withheld)))
			return buildRow(b, 0)
		}
		if later := rowAfter(1.06); later.Verdict == report.Unproven {
			t.Errorf("%+v, after 106%% of %d picks: Verdict = %q, interval [%v, %v], want a verdict other than %q", a, r.NeedsPicks, later.Verdict, *later.Lo, *later.Hi, report.Unproven)
		}
		if earlier := rowAfter(0.85); earlier.Verdict == report.Helps || earlier.Verdict == report.Harms || earlier.Verdict == report.NoEffect {
			t.Errorf("%+v, after 85%% of %d picks: Verdict = %q, want none of %q, %q and %q", a, r.NeedsPicks, earlier.Verdict, report.Helps, report.Harms, report.NoEffect)
		}
	}
	// The current rate is 400 picks in two weeks.
	a := armSessions{epsilon: 0.5, injected: 200, withheld: 200, injectedRate: 0.6, withheldRate: 0.5, day: today() - 13}
	r := buildRow(a, 0)
	weeks := float64(r.NeedsPicks) / 200
	date := noon.Add(time.Duration(weeks * 7 * 24 * float64(time.Hour))).Format(time.DateOnly)
	if math.Abs(*r.Weeks-weeks) > 0.01 || r.Expected != date {
		t.Errorf("%d picks at 200 per week: Weeks = %v, Expected = %s, want %v and %s", r.NeedsPicks, *r.Weeks, r.Expected, weeks, date)
	}
}
