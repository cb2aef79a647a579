package report_test

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"precept/bandit"
	"precept/bandit/report"
	"precept/bandit/trial"
)

// addTrialSessions adds n sessions in which the lesson is injected and n in which it is withheld. injectedWins and
// withheldWins say how many of them succeed.
func addTrialSessions(c *bandit.Chooser, arm trial.Arm, name string, n, injectedWins, withheldWins int) {
	for i := range 2 * n {
		a := trial.Assignment{StartUnix: int64(i), Decided: true, Graded: true, Picks: []trial.Pick{{
			Slug: arm.Slug(), Arm: arm, Eps: 0.5, Injected: i%2 == 0, Centre: 0.5, Trial: name,
		}}}
		wins := withheldWins
		if i%2 == 0 {
			wins = injectedWins
		}
		y := 0.0
		if i/2 < wins {
			y = 1
		}
		session := fmt.Sprintf("%08x", i)
		c.Add(append(append(a.ClosingDeltas(), bandit.Contribution(&a, y, 1)...), a.TrialEntries(session, y)...))
	}
}

func TestPlannedTrialsGiveVerdicts(t *testing.T) {
	name := func(picks int64) string { return trial.PlannedName(time.Unix(1_700_000_000, 0), picks, "") }
	c := bandit.New()
	var listed []report.Lesson
	for _, tc := range []struct {
		slug                string
		sessions            int // per arm
		with, without       int // successes
		picks               int64
		trial               string
		verdict, evaluation report.Verdict
		shown               bool // the report shows the effect
	}{
		{slug: "helps", sessions: 200, with: 130, without: 100, picks: 400, trial: "ended", verdict: report.TrialHelps, evaluation: report.TrialHelps, shown: true},
		{slug: "harms", sessions: 200, with: 100, without: 130, picks: 400, trial: "ended", verdict: report.TrialHarms, evaluation: report.TrialHarms, shown: true},
		{slug: "no-effect", sessions: 200, with: 103, without: 100, picks: 400, trial: "ended", verdict: report.Unproven, evaluation: report.Unproven, shown: true},
		{slug: "early", sessions: 200, with: 130, without: 100, picks: 401, trial: "running", verdict: report.Unproven, shown: true}, // one pick before the planned end
		{slug: "young", sessions: 20, with: 20, picks: 400, trial: "running", verdict: report.Unproven},
		{slug: "begun", picks: 400, trial: "running", verdict: report.Unproven},
	} {
		arm := trial.Arm(tc.slug + "@0123456789ab")
		addTrialSessions(c, arm, name(tc.picks), tc.sessions, tc.with, tc.without)
		listed = append(listed, report.Lesson{Slug: tc.slug, Arm: arm, State: "trial", Confidence: 0.5, Epsilon: 0.5, Trial: name(tc.picks)})
		r := report.Build(withChooser(report.Input{Now: time.Unix(1_700_100_000, 0), Lessons: listed}, c, bandit.Config{Epsilon: 0.2}))
		for _, row := range r.Lessons {
			if row.Slug != tc.slug {
				continue
			}
			l := row.PlannedTrials[0]
			if row.Trial != tc.trial || row.Verdict != tc.verdict && !strings.HasPrefix(string(row.Verdict), "likely") || l.Verdict != tc.evaluation ||
				(l.Effect != nil) != tc.shown || l.Evaluated != (tc.trial == "ended") || (l.P != nil) != l.Evaluated || (row.AfterTrial != "") != l.Evaluated {
				t.Errorf(`%s: Trial = %q, Verdict = %q, AfterTrial = %q, planned trial = %+v, want Trial %q, Verdict %q or "likely…", and a planned trial with verdict %q, Effect set = %v, Evaluated, P and AfterTrial set = %v`,
					tc.slug, row.Trial, row.Verdict, row.AfterTrial, l, tc.trial, tc.verdict, tc.evaluation, tc.shown, tc.trial == "ended")
			}
		}
		if r.PlannedTrials.Planned != len(listed) {
			t.Errorf("PlannedTrials = %+v, want Planned = %d", r.PlannedTrials, len(listed))
		}
	}
	r := report.Build(withChooser(report.Input{Now: time.Unix(1_700_100_000, 0), Lessons: listed}, c, bandit.Config{Epsilon: 0.2}))
	// With 130 successes instead of 100 in 200 sessions, the p-value is 0.0024. Two of the six trials have this
	// p-value. Both are proofs, because two p-values of at most 0.05*2/6 are enough among six trials.
	if r.PlannedTrials.Planned != 6 || r.PlannedTrials.Evaluated != 3 || r.PlannedTrials.Proven != 2 || math.Abs(r.PlannedTrials.Bar-0.05*2/6) > 1e-9 {
		t.Errorf("PlannedTrials = %+v, want Planned = 6, Evaluated = 3, Proven = 2 and Bar = 0.05*2/6", r.PlannedTrials)
	}
	var text strings.Builder
	if err := r.Table(&text, report.FullWidth); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"proven in trial: helps", "proven in trial: harms", "preliminary until the last planned pick", "evaluated once (p 0.00", "Planned trials: 6, of which 3 have been evaluated",
		"consider retiring the lesson", "the lesson stays active like any other lesson",
	} {
		if !strings.Contains(strings.Join(strings.Fields(text.String()), " "), want) {
			t.Errorf("table lacks %q:\n%s", want, text.String())
		}
	}
}

// A p-value of 0.027 is a proof if there is only one trial, but not if there are forty.
func TestManyPlannedTrialsNeedStrongerEvidence(t *testing.T) {
	for trials, want := range map[int]report.Verdict{1: report.TrialHelps, 40: report.Unproven} {
		c := bandit.New()
		addTrialSessions(c, "found@1", trial.PlannedName(time.Unix(9, 0), 400, ""), 200, 122, 100) // p 0.027
		for i := range trials - 1 {
			addTrialSessions(c, trial.Arm(fmt.Sprintf("other%d@1", i)), trial.PlannedName(time.Unix(9, 0), 60, ""), 30, 15, 15)
		}
		r := report.Build(report.Input{Now: time.Unix(100, 0), Counters: c.TrialCounters()})
		if l := r.Lessons[0].PlannedTrials[0]; l.Verdict != want {
			t.Errorf("one of %d trials: Verdict = %q with p = %v, want %q", trials, l.Verdict, *l.P, want)
		}
	}
}

func TestForecastHasPicksPowerAndCost(t *testing.T) {
	c := bandit.New()
	addTrialSessions(c, "a@1", "", 200, 120, 100)
	in := withChooser(report.Input{
		Now:     time.Unix(1000, 0),
		Lessons: []report.Lesson{{Slug: "a", Arm: "a@1", State: "active", Confidence: 0.5, Tokens: 100}},
	}, c, bandit.Config{Epsilon: 0.2})
	r := report.Build(in)
	f, err := r.Forecast("a", report.Goal{DetectableEffect: 0.05})
	if err != nil || f.Epsilon != 0.5 || f.Power != 0.8 || f.PlannedTrials != 1 || f.Level != 0.05 || f.Picks < 2900 || f.Picks > 3200 || f.Sessions != f.Picks ||
		math.Abs(f.Withheld-float64(f.Picks)/2) > 1 || f.ExtraCost >= f.Reward || f.Width >= 0.7*f.AnytimeWidth || len(f.Text()) != 6 {
		t.Errorf("err = %v, forecast = %+v, want Epsilon = 0.5, Power = 0.8, PlannedTrials = 1, Level = 0.05, 2900 to 3200 Picks and Sessions, half of them Withheld, ExtraCost < Reward, Width < 0.7*AnytimeWidth, 6 lines of text", err, f)
	}
	if second, err := r.Forecast("a", report.Goal{Picks: f.Picks}); err != nil || math.Abs(second.DetectableEffect-0.05) > 1e-3 {
		t.Errorf("Forecast(%d picks): err = %v, DetectableEffect = %v, want 0.05",
			f.Picks, err, second.DetectableEffect)
	}
	for _, bad := range []report.Goal{{}, {Picks: 100, DetectableEffect: 0.1}, {Picks: -1}, {DetectableEffect: 2}, {Picks: 100, Power: 1}, {Picks: 100, Epsilon: 1}} {
		if _, err := r.Forecast("a", bad); err == nil {
			t.Errorf("Forecast(%+v): got no error, want an error", bad)
		}
	}
	if _, err := r.Forecast("unknown", report.Goal{Picks: 100}); err == nil {
		t.Error("Forecast(unknown lesson): got no error, want an error")
	}
}

// The explanation shows the numbers in the row. A lesson without sessions also has an explanation.
func TestExplanationShowsRowNumbers(t *testing.T) {
	c := bandit.New()
	addTrialSessions(c, "a@1", trial.PlannedName(time.Unix(9, 0), 400, ""), 200, 130, 100)
	r := report.Build(withChooser(report.Input{Now: time.Unix(1000, 0), Explain: "a"}, c, bandit.Config{Epsilon: 0.2}))
	row := r.Lessons[0]
	e := row.Explanation
	if e == nil || e.N != 400 || math.Abs(e.SumZ/e.N-*row.Effect) > 1e-9 || math.Abs(*e.Mean-*e.HalfWidth-*row.Lo) > 1e-9 || math.Abs(*e.ZScore-3.03) > 0.1 ||
		len(e.Propensities) != 1 || e.Propensities[0].Injected != 200 || math.Abs(*e.Propensities[0].MeanInjected-0.65) > 1e-9 || math.Abs(*e.Difference-0.15) > 1e-9 {
		t.Fatalf("Explanation = %+v in row %+v, want the row's numbers, score 3.03 and 200 injected sessions with mean 0.65", e, row)
	}
	if e.ProofBar != 0.025 { // one arm is tested for help and for harm
		t.Errorf("ProofBar = %v, want 0.025", e.ProofBar)
	}
	var text strings.Builder
	if err := r.Explain(&text, "a", 1000); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(text.String(), "\n"); n < 9 || n > 13 {
		t.Errorf("explanation has %d lines, want 9 to 13", n)
	}
	for _, want := range []string{
		"a@1 (removed): proven in trial: helps", "400 rewarded: 200 injected, 200 withheld", "eps 0.5   200 injected", "sum z / n = 60.0000 / 400 = +15.00 points",
		"standard error", "valid at any time", "evidence  E+", "e-value of the assignment", "an alarm from 1000 on", "evaluated once", "missing",
	} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("explanation lacks %q:\n%s", want, text.String())
		}
	}
	if err := r.Explain(&text, "unknown", 1000); err == nil {
		t.Error("Explain(unknown lesson): got no error, want an error")
	}
	young := report.Build(report.Input{Now: time.Unix(1000, 0), Explain: "b", Lessons: []report.Lesson{{Slug: "b", Arm: "b@1", State: "active"}}})
	if text.Reset(); young.Explain(&text, "b", 1000) != nil || !strings.Contains(text.String(), "not shown below 50") || strings.Contains(text.String(), "NaN") {
		t.Errorf(`lesson without sessions: explanation = %q, want no error, "not shown below 50" and no "NaN"`, text.String())
	}
}
