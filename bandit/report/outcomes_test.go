package report_test

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"precept/bandit/report"
	"precept/bandit/trial"
)

// expectedOutcomes holds the mean of each outcome: the first number without the lesson, and the second with the lesson.
type expectedOutcomes struct {
	recurs [2]float64
	errors [2]int64
	tokens [2]int64
}

func addObservedPicks(r *rand.Rand, c *trial.Counters, arm trial.Arm, picks int, e *expectedOutcomes) {
	for range picks {
		a := &trial.Assignment{Decided: true, Day: 20000}
		p := trial.Pick{Slug: arm.Slug(), Arm: arm, Eps: 0.5, Injected: r.IntN(2) == 1}
		i := 0
		if p.Injected {
			i = 1
		}
		p.Measurement = c.NewMeasurement(arm, p.Eps, 1<<trial.OutcomeCount-1, trial.Totals{})
		p.Measurement.Recurred = r.Float64() < e.recurs[i]
		a.Picks = []trial.Pick{p}
		a.Observe(trial.Totals{Errors: e.errors[i] + r.Int64N(3), Turns: 5 + r.Int64N(4), Tokens: e.tokens[i] + r.Int64N(500)})
		c.Add(a.ClosingDeltas())
	}
}

func mustOutcome(t *testing.T, row *report.Row, name string) report.Outcome {
	t.Helper()
	for _, x := range row.Outcomes {
		if x.Name == name {
			return x
		}
	}
	t.Fatalf("%s has no outcome %s: %+v", row.Slug, name, row.Outcomes)
	return report.Outcome{}
}

// The lesson "good" prevents the error but costs tokens. No session has a reward, so there is a verdict on the
// outcomes, but none on the reward. NeedsPicks is the number of additional picks (sessions for which the lesson is
// chosen) after which a verdict is likely. It is 0 if there is a verdict.
func TestOutcomeVerdictsDifferFromRewardVerdicts(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4)) //nolint:gosec // the tests need repeatable numbers
	c := trial.NewCounters()
	addObservedPicks(r, c, "good@abc", 400, &expectedOutcomes{recurs: [2]float64{0.7, 0.3}, errors: [2]int64{4, 1}, tokens: [2]int64{1000, 1600}})
	addObservedPicks(r, c, "idle@abc", 400, &expectedOutcomes{recurs: [2]float64{0.5, 0.5}, errors: [2]int64{2, 2}, tokens: [2]int64{1000, 1000}})
	addObservedPicks(r, c, "young@abc", 20, &expectedOutcomes{recurs: [2]float64{0.7, 0.3}, tokens: [2]int64{9, 9}})
	in := report.Input{Counters: c, Lessons: newLessons("good", "idle", "young"), Guardrails: []string{"errors", "tokens"}, Explain: "good"}
	got := report.Build(in)
	good, idle, young := &got.Lessons[0], &got.Lessons[1], &got.Lessons[2]
	for name, want := range map[string]report.Finding{
		"recurrence": report.Prevents, "errors": "proven: " + report.FewerErrors, "tokens": "proven: " + report.Longer,
		"turns": report.NoChange, "loops": report.NoChange,
	} {
		if x := mustOutcome(t, good, name); x.Verdict != want || x.NeedsPicks != 0 {
			t.Errorf("outcome %s: Verdict = %q, NeedsPicks = %d, want %q and 0", name, x.Verdict, x.NeedsPicks, want)
		}
	}
	if x := mustOutcome(t, good, "recurrence"); x.Unit != "share" || *x.Lo > -0.4 || *x.Hi < -0.4 || x.NInjected+x.NWithheld != 400 {
		t.Errorf("outcome recurrence = %+v, want unit share, 400 picks and -0.4 within the interval", x)
	}
	if x := mustOutcome(t, good, "tokens"); x.Unit != "percent" || *x.Effect < 30 || *x.Effect > 60 || *x.MeanInjected < 1500 || *x.MeanInjected > 2100 {
		t.Errorf("outcome tokens = %+v, want unit percent, an effect from 30 to 60 and 1500 to 2100 tokens with the lesson", x)
	}
	if good.Guardrail != "dearer" || good.Verdict != report.Unproven {
		t.Errorf("lesson good: Guardrail = %q, Verdict = %q, want a guardrail with the word dearer, and %q", good.Guardrail, good.Verdict, report.Unproven)
	}
	if idle.Guardrail != "" {
		t.Errorf("lesson idle: Guardrail = %q, want none", idle.Guardrail)
	}
	for _, x := range idle.Outcomes {
		if x.Verdict.Direction() != 0 || x.Name == "seconds" {
			t.Errorf("lesson idle: outcome = %+v, want a finding without a direction, and no outcome seconds", x)
		}
	}
	if x := mustOutcome(t, young, "recurrence"); x.Effect != nil || x.Verdict != report.NotProven || x.NeedsPicks < 30 {
		t.Errorf("after 20 picks: outcome = %+v, want no effect, finding %q and NeedsPicks >= 30", x, report.NotProven)
	}
	if data, err := json.Marshal(good.Outcomes); err != nil || strings.Contains(string(data), "helps") {
		t.Errorf("err = %v, outcomes = %s, want no error, and outcomes without the word helps", err, data)
	}
	var b strings.Builder
	if err := got.Table(&b, report.NarrowWidth); err != nil || !strings.Contains(b.String(), "GUARDRAIL: dearer") || !strings.Contains(b.String(), "recurrence proven: prevents its error: -") {
		t.Errorf("err = %v, table =\n%s\nwant no error, and a table with the guardrail and the proven recurrence", err, &b)
	}
	b.Reset()
	if err := got.Explain(&b, "good", 200); err != nil || !strings.Contains(b.String(), "outcome   tokens proven: dearer: +") || !strings.Contains(b.String(), "guardrail dearer") {
		t.Errorf("err = %v, explanation =\n%s\nwant no error, and an explanation with the outcome tokens and the guardrail", err, &b)
	}
}

func TestGuardrailListsEachRise(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4)) //nolint:gosec // the tests need repeatable numbers
	c := trial.NewCounters()
	addObservedPicks(r, c, "bad@abc", 400, &expectedOutcomes{errors: [2]int64{1, 5}, tokens: [2]int64{1000, 2000}})
	for guarded, want := range map[string]string{"errors tokens": "more errors, dearer", "tokens": "dearer", "loops": "", "": ""} {
		got := report.Build(report.Input{Counters: c, Lessons: newLessons("bad"), Guardrails: strings.Fields(guarded)})
		if got.Lessons[0].Guardrail != want {
			t.Errorf("guarded outcomes %q: Guardrail = %q, want %q", guarded, got.Lessons[0].Guardrail, want)
		}
	}
}

// The share of withheld picks does not match the recorded probability, so the verdicts on outcomes are invalid.
func TestWrongPropensityInvalidatesOutcomes(t *testing.T) {
	c := trial.NewCounters()
	for i := range 300 {
		a := &trial.Assignment{Decided: true, Picks: []trial.Pick{{Slug: "bad", Arm: "bad@abc", Eps: 0.5, Injected: i > 20}}}
		a.Picks[0].Measurement = c.NewMeasurement("bad@abc", 0.5, trial.NewOutcomeSet(trial.Recurrence), trial.Totals{})
		a.Picks[0].Measurement.Recurred = i <= 20
		a.Observe(trial.Totals{})
		c.Add(a.ClosingDeltas())
	}
	got := report.Build(report.Input{Counters: c, Lessons: newLessons("bad")})
	if x := got.Lessons[0].Outcomes[0]; x.Verdict != report.InvalidAssignment {
		t.Errorf("outcome = %+v, want verdict %q", x, report.InvalidAssignment)
	}
}

// About 120 picks are enough to detect a change of 25 points in recurrence. The trial on recurrence does not change the
// verdict on the reward, which stays unproven.
func TestPlannedTrialOnRecurrenceGivesFinding(t *testing.T) {
	empty := report.Build(report.Input{Lessons: newLessons("good")})
	plan, err := empty.Forecast("good", report.Goal{Outcome: "recurrence", DetectableEffect: 0.25})
	if err != nil || plan.Picks < 110 || plan.Picks > 130 || plan.Outcome != "recurrence" {
		t.Fatalf("err = %v, forecast = %+v, want 110 to 130 picks on recurrence", err, plan)
	}
	if _, err := empty.Forecast("good", report.Goal{Outcome: "mood", DetectableEffect: 0.25}); err == nil || !strings.Contains(err.Error(), "recurrence") {
		t.Errorf("unknown outcome: err = %v, want an error with the known names", err)
	}
	if more, err := empty.Forecast("good", report.Goal{Outcome: "tokens", Picks: 400}); err != nil || !(more.DetectableEffect > 0.05 && more.DetectableEffect < 1) {
		t.Errorf("400 picks on tokens: err = %v, DetectableEffect = %v, want 0.05 to 1", err, more.DetectableEffect)
	}
	r := rand.New(rand.NewPCG(5, 6)) //nolint:gosec // the tests need repeatable numbers
	c := trial.NewCounters()
	l := newLessons("good")
	l[0].Epsilon, l[0].Trial = 0.5, trial.PlannedName(noon, plan.Picks, "recurrence")
	for i := range plan.Picks {
		p := trial.Pick{Slug: "good", Arm: l[0].Arm, Eps: 0.5, Injected: r.IntN(2) == 1, Trial: l[0].Trial}
		p.Measurement = c.NewMeasurement(p.Arm, p.Eps, trial.NewOutcomeSet(trial.Recurrence), trial.Totals{})
		p.Measurement.Recurred = r.Float64() < 0.3 || !p.Injected
		a := &trial.Assignment{Decided: true, Day: 20000, StartUnix: i, Picks: []trial.Pick{p}}
		a.Observe(trial.Totals{})
		c.Add(append(a.ClosingDeltas(), a.TrialEntries("0123456789", math.NaN())...))
	}
	got := report.Build(report.Input{Counters: c, Lessons: l})
	row := &got.Lessons[0]
	planned := row.PlannedTrials[0]
	if !planned.Evaluated || planned.Verdict != report.Verdict(report.Prevents) || *planned.Effect > -0.5 {
		t.Errorf("planned trial = %+v, want Evaluated, verdict %q and effect <= -0.5", planned, report.Prevents)
	}
	if got.PlannedTrials.Proven != 1 || row.Trial != "ended" {
		t.Errorf("PlannedTrials.Proven = %d, Trial = %q, want 1 and ended", got.PlannedTrials.Proven, row.Trial)
	}
	if x := mustOutcome(t, row, "recurrence"); x.Verdict != report.Prevents || row.Verdict != report.Unproven {
		t.Errorf("finding = %q, verdict = %q, want %q and %q", x.Verdict, row.Verdict, report.Prevents, report.Unproven)
	}
}

// The report reserves most of the permitted false proofs for proofs that a lesson lowers recurrence. An e-value of 600
// is therefore enough to prove lower recurrence, but not to prove fewer errors.
func TestRecurrenceNeedsLessEvidenceThanErrors(t *testing.T) {
	c := trial.NewCounters()
	names := make([]string, 20)
	for i := range names {
		names[i] = fmt.Sprintf("l%02d", i)
		for _, o := range []string{"recurrence", "errors"} {
			logE := 0.0 // log e-value for a decrease
			if i == 0 {
				logE = math.Log(600)
			}
			sums := map[string]float64{"n1": 50, "n0": 50, "y1": 5, "y0": 10, "z": -10, "zz": 20}
			for k := range 4 { // the e-value is the mean over bets (assumed effects) of several sizes
				sums[fmt.Sprintf("w-%d", k+1)] = logE
			}
			for field, v := range sums {
				c.Add([]trial.Delta{{Key: trial.Key{Scope: names[i] + "@abc", Field: o + "." + field}, Value: trial.Fixed(v)}})
			}
		}
	}
	row := &report.Build(report.Input{Counters: c, Lessons: newLessons(names...)}).Lessons[0]
	if x := mustOutcome(t, row, "recurrence"); x.Verdict != report.Prevents {
		t.Errorf("recurrence with e-value %.0f: Verdict = %q, want %q", x.EFewer, x.Verdict, report.Prevents)
	}
	if x := mustOutcome(t, row, "errors"); x.Verdict.Proven() {
		t.Errorf("errors with e-value %.0f: Verdict = %q, want no proven finding", x.EFewer, x.Verdict)
	}
}

// If the error never recurs, the formula for the number of picks gives less than the minimum for a trial. The forecast
// then has the minimum.
func TestForecastOnConstantOutcomeHasMinimumPicks(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4)) //nolint:gosec // the tests need repeatable numbers
	c := trial.NewCounters()
	addObservedPicks(r, c, "never@abc", 400, &expectedOutcomes{})
	got := report.Build(report.Input{Now: noon, Counters: c, Lessons: newLessons("never")})
	f, err := got.Forecast("never", report.Goal{Outcome: "recurrence", DetectableEffect: 0.25, Power: 0.8, Epsilon: 0.5})
	if err != nil || f.Picks != trial.MinTrialPicks(0.5) {
		t.Errorf("err = %v, Picks = %d, want %d", err, f.Picks, trial.MinTrialPicks(0.5))
	}
}

// After NeedsPicks more picks, the interval excludes 0, or it excludes the material change (the smallest change that
// matters). Either is enough for a finding.
func TestNeededOutcomePicksSufficeForFinding(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6)) //nolint:gosec // the tests need repeatable numbers
	open := 0
	for _, with := range []int64{1000, 1030, 1060, 1090, 1150} {
		c := trial.NewCounters()
		addObservedPicks(r, c, "a@abc", 400, &expectedOutcomes{recurs: [2]float64{0.5, 0.5}, tokens: [2]int64{1000, with}})
		row := report.Build(report.Input{Counters: c, Lessons: newLessons("a")}).Lessons[0]
		for _, x := range row.Outcomes {
			if x.Verdict != report.NotProven || x.Effect == nil {
				continue
			}
			open++
			got := float64(x.NInjected + x.NWithheld)
			half, material := (*x.Hi-*x.Lo)/2, 0.05
			if x.Unit == "percent" {
				material = 10
			}
			// The half-width is about proportional to 1/sqrt(picks).
			after := half * math.Sqrt(got/(got+float64(x.NeedsPicks)))
			if distance := math.Max(math.Abs(*x.Effect), material-math.Abs(*x.Effect)); after > 1.15*distance {
				t.Errorf("tokens %d with the lesson and 1000 without, outcome %s: effect %.3f, half-width %.3f, NeedsPicks = %d: half-width after these picks: got about %.3f, want at most %.3f",
					with, x.Name, *x.Effect, half, x.NeedsPicks, after, distance)
			}
		}
	}
	if open == 0 {
		t.Error("outcomes without a finding: got none, want at least one")
	}
}

func TestVagueOutcomeHasNoFigures(t *testing.T) {
	t.Parallel()
	outcome := func(unit string, effect, lo, hi float64) *report.Outcome {
		return &report.Outcome{Name: "turns", Verdict: report.NotProven, Unit: unit, Effect: &effect, Lo: &lo, Hi: &hi}
	}
	for _, tc := range []struct {
		outcome *report.Outcome
		vague   bool
	}{
		{outcome("percent", -93, -100, 14669), true},
		{outcome("percent", 40, -20, 120), false},
		{outcome("percent", 500, 310, 900), false},
		{outcome("share", 0.1, -0.4, 0.7), true},
		{outcome("share", 0.1, -0.2, 0.4), false},
		{outcome("errors/10", -0.06, -0.6, 0.5), true},
		{&report.Outcome{Name: "turns", Verdict: report.NotProven, Unit: "percent"}, false},
	} {
		if got := tc.outcome.IsVague(); got != tc.vague {
			t.Errorf("%s outcome with effect %v: IsVague = %v, want %v", tc.outcome.Unit, tc.outcome.Effect, got, tc.vague)
		}
		if got := strings.Contains(tc.outcome.Sentence(), report.TooWide); got != tc.vague {
			t.Errorf("Sentence() = %q, want %q in it: %v", tc.outcome.Sentence(), report.TooWide, tc.vague)
		}
	}
}
