package report_test

import (
	"math"
	"strings"
	"testing"

	"precept/bandit"
	"precept/bandit/report"
)

// NeedsPicks is the number of additional picks (sessions for which the lesson is chosen) after which a verdict is
// likely, and NeedsSessions the number of additional sessions.
func TestRowPredictsVerdictDate(t *testing.T) {
	c := bandit.New()
	addArmSessions(c, "a", armSessions{epsilon: 0.2, injected: 400, withheld: 100, injectedRate: 0.55, withheldRate: 0.5, day: today() - 6})
	r := lessonRow(t, c)
	if r.Verdict != report.Unproven || r.NeedsPicks <= 0 || r.Weeks == nil {
		t.Fatalf("Verdict = %s, NeedsPicks = %d, Weeks = %v, want %s, more than 0 and a number of weeks", r.Verdict, r.NeedsPicks, r.Weeks, report.Unproven)
	}
	day := noon.AddDate(0, 0, int(*r.Weeks*7)).Format("2006-01-02")
	if next := noon.AddDate(0, 0, int(*r.Weeks*7)+1).Format("2006-01-02"); r.Expected != day && r.Expected != next {
		t.Errorf("verdict in %v weeks: Expected = %q, want %s or %s", *r.Weeks, r.Expected, day, next)
	}
	if r.NeedsSessions < r.NeedsPicks || len(r.Speedups) != 2 || !strings.HasPrefix(r.Speedups[0], "a trial") || r.Speedups[1] != "more traffic" {
		t.Errorf("NeedsSessions = %d, Speedups = %q, want at least %d sessions, and a trial and more traffic", r.NeedsSessions, r.Speedups, r.NeedsPicks)
	}
	trial := lessonRow(t, c, func(in *report.Input) { in.Lessons[0].Epsilon = 0.5 })
	if trial.NeedsPicks >= r.NeedsPicks || len(trial.Speedups) != 1 {
		t.Errorf("in a trial: NeedsPicks = %d, Speedups = %q, want fewer than %d picks and one item", trial.NeedsPicks, trial.Speedups, r.NeedsPicks)
	}
	if unmatched := lessonRow(t, bandit.New()); unmatched.Expected != "" || !strings.Contains(strings.Join(unmatched.Speedups, "; "), "no closed session has matched") {
		t.Errorf(`lesson without a match: Expected = %q, Speedups = %q, want no date and "no closed session has matched"`, unmatched.Expected, unmatched.Speedups)
	}
	unrewarded := bandit.New()
	addArmSessions(unrewarded, "a", armSessions{epsilon: 0.2, injected: 400, withheld: 100, injectedRate: 0.55, withheldRate: 0.5, unrewardedInjected: 800, unrewardedWithheld: 200})
	if r := lessonRow(t, unrewarded); !strings.Contains(strings.Join(r.Speedups, "; "), "more feedback: only 33%") {
		t.Errorf("a third of the picks rewarded: Speedups = %q, want a remedy with \"more feedback: only 33%%\"", r.Speedups)
	}
	helps := bandit.New()
	addArmSessions(helps, "a", armSessions{epsilon: 0.2, injected: 1600, withheld: 400, injectedRate: 0.8, withheldRate: 0.5})
	if r := lessonRow(t, helps); r.Expected != "" || r.NeedsSessions != 0 || r.Speedups != nil {
		t.Errorf("verdict %s: Expected = %q, NeedsSessions = %d, Speedups = %q, want none", r.Verdict, r.Expected, r.NeedsSessions, r.Speedups)
	}
}

// A lesson that is expected to harm is benched, and picked in only 2% of sessions.
func TestExpectedDateUsesBenchedPickRate(t *testing.T) {
	c := bandit.New()
	addArmSessions(c, "a", armSessions{epsilon: 0.2, injected: 400, withheld: 100, injectedRate: 0.45, withheldRate: 0.5, day: today() - 6})
	r := lessonRow(t, c)
	if r.Verdict != report.Benched || r.Epsilon != 0.5 || r.Weeks == nil || *r.Weeks < 10*float64(r.NeedsPicks)/r.PerWeek {
		t.Errorf("row = %+v, want verdict %s, epsilon 0.5 and Weeks >= 10*NeedsPicks/PerWeek", r, report.Benched)
	}
	if len(r.Speedups) == 0 || !strings.HasPrefix(r.Speedups[0], "a trial") {
		t.Errorf("Speedups = %q, want a trial as the first remedy", r.Speedups)
	}
	if rate := float64(r.NeedsPicks) / *r.Weeks; float64(r.NeedsSessions) < float64(r.NeedsPicks)*r.PerWeek/rate {
		t.Errorf("%d picks at %v per week: NeedsSessions = %d, want at least %v", r.NeedsPicks, rate, r.NeedsSessions, float64(r.NeedsPicks)*r.PerWeek/rate)
	}
	// During a trial, a lesson is picked in each session that it matches.
	r = lessonRow(t, c, func(in *report.Input) { in.Lessons[0].Epsilon = 0.5 })
	if r.Verdict != report.Benched || r.Weeks == nil || math.Abs(*r.Weeks-float64(r.NeedsPicks)/r.PerWeek) > 0.01 || strings.Contains(r.Note, "rarely picks") {
		t.Errorf("in a trial: row = %+v, want verdict %s, Weeks = NeedsPicks/PerWeek and no note about rare picks", r, report.Benched)
	}
}

// A row names how often the chooser now picks a lesson that it hardly picks any more, whatever the verdict is.
func TestRarelyChosenLessonIsNamed(t *testing.T) {
	c := bandit.New()
	addArmSessions(c, "a", armSessions{epsilon: 0.2, injected: 400, withheld: 100, injectedRate: 0.5, withheldRate: 0.5})
	choosing := func(passOver float64) report.Row {
		return lessonRow(t, c, func(in *report.Input) {
			in.Chooser = constantChooser{report.Belief{Var: 1, Epsilon: 0.2, PassOver: passOver}}
		})
	}
	const want = "rarely chosen: currently picked in about 2% of matching sessions (500 of 500 to date)"
	r := choosing(0.98)
	if r.PickShare < 0.0199 || r.PickShare > 0.0201 || r.RarelyChosen() != want {
		t.Errorf("PassOver 0.98: PickShare = %v, RarelyChosen = %q, want 0.02 and %q", r.PickShare, r.RarelyChosen(), want)
	}
	var b strings.Builder
	if err := (report.Report{Lessons: []report.Row{r}}).Table(&b, report.FullWidth); err != nil || !strings.Contains(b.String(), want) {
		t.Errorf("Table = %v\n%s\nwant %q", err, b.String(), want)
	}
	if r := choosing(0.3); r.RarelyChosen() != "" {
		t.Errorf("PassOver 0.3: RarelyChosen = %q, want none", r.RarelyChosen())
	}
	r = choosing(0.98)
	for _, state := range []string{"paused", "candidate", "archived", "removed", "trial"} {
		if r.State = state; r.RarelyChosen() != "" {
			t.Errorf("state %s: RarelyChosen = %q, want none", state, r.RarelyChosen())
		}
	}
}

// If the effect is not clearly different from 0, the needed number of picks changes tenfold with every few sessions.
// The report then shows no number.
func TestUnclearNumberOfPicksIsNotShown(t *testing.T) {
	for name, tc := range map[string]struct {
		sessions armSessions
		unclear  bool
		want     string
	}{
		"effect within its error": {armSessions{epsilon: 0.2, injected: 400, withheld: 100, injectedRate: 0.52, withheldRate: 0.5}, true, report.TooEarly},
		"effect of 3 errors":      {armSessions{epsilon: 0.2, injected: 400, withheld: 100, injectedRate: 0.66, withheldRate: 0.5}, false, "needs about "},
		"no effect yet":           {armSessions{epsilon: 0.2, injected: 20, withheld: 5, injectedRate: 0.5, withheldRate: 0.5}, false, "needs about 25 more picks to show an effect"},
	} {
		c := bandit.New()
		addArmSessions(c, "a", tc.sessions)
		r := lessonRow(t, c, func(in *report.Input) { in.Chooser = constantChooser{report.Belief{Var: 1, Epsilon: 0.2}} })
		var b strings.Builder
		if err := (report.Report{Lessons: []report.Row{r}}).Table(&b, report.FullWidth); err != nil {
			t.Fatal(err)
		}
		if r.NeedsPicks <= 0 || r.NeedsUnclear != tc.unclear || !strings.Contains(b.String(), tc.want) || tc.unclear && r.RoundedNeeds() != 0 {
			t.Errorf("%s: NeedsPicks = %d, NeedsUnclear = %t, RoundedNeeds = %d, table =\n%s\nwant unclear %t and %q",
				name, r.NeedsPicks, r.NeedsUnclear, r.RoundedNeeds(), b.String(), tc.unclear, tc.want)
		}
	}
	for exact, want := range map[int64]int64{0: 0, 7: 7, 19: 19, 23: 20, 47: 50, 572: 600, 1342: 1300, 1960: 2000, 45_933: 50_000} {
		r := report.Row{NeedsPicks: exact, Effect: new(0.1)}
		if got := r.RoundedNeeds(); got != want {
			t.Errorf("RoundedNeeds for %d picks = %d, want %d", exact, got, want)
		}
	}
}

// In a trial with a planned number of picks, NeedsPicks is the number of picks until the planned evaluation, or until a
// verdict that is expected earlier.
func TestNeededPicksEndAtPlannedEvaluation(t *testing.T) {
	c := bandit.New()
	addArmSessions(c, "a", armSessions{epsilon: 0.2, injected: 400, withheld: 100, injectedRate: 0.55, withheldRate: 0.5, day: today() - 6})
	planned := func(in *report.Input) { in.Lessons[0].Epsilon, in.Lessons[0].Trial = 0.5, "1700000000.300" }
	if r := lessonRow(t, c, planned); r.Trial != "running" || r.NeedsPicks != 300 {
		t.Errorf("300 planned picks: Trial = %q, NeedsPicks = %d, want running and 300", r.Trial, r.NeedsPicks)
	}
	if r := lessonRow(t, c, func(in *report.Input) { planned(in); in.Lessons[0].Trial = "1700000000.900000" }); r.NeedsPicks >= 900_000 {
		t.Errorf("900,000 planned picks: NeedsPicks = %d, want the smaller number until the row's verdict", r.NeedsPicks)
	}
}
