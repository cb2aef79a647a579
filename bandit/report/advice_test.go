package report_test

import (
	"os"
	"strings"
	"testing"

	"precept/bandit/report"
)

// docs/EXPERIMENT.md must have a table row with the advice for each verdict.
func TestDocsStateAdviceForEachVerdict(t *testing.T) {
	page, err := os.ReadFile("../../docs/EXPERIMENT.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range report.Advices() {
		if row := "| `" + string(a.Verdict) + "` | " + a.Text + " |\n"; !strings.Contains(string(page), row) {
			t.Errorf("docs/EXPERIMENT.md has no row for %s, want %s", a.Verdict, row)
		}
	}
}

// The state "shown otherwise" means that the lesson's text is still in use, but is now presented in a different way.
func TestNextActionDependsOnStateAndVerdict(t *testing.T) {
	for _, tc := range []struct {
		row  report.Row
		want string
	}{
		{report.Row{State: "active", Verdict: report.Unproven}, "Wait, or put the lesson on trial."},
		{report.Row{State: "trial", Verdict: report.Unproven, Trial: "running"}, "Wait: the trial is running."},
		{report.Row{State: "trial", Verdict: report.ProvenHelps, Trial: "running"}, "Wait: the trial is running. Keep the lesson."},
		{report.Row{State: "trial", Verdict: report.TrialHelps, Trial: "ended"}, "Approve the lesson. An approved lesson is withheld less often."},
		{
			report.Row{State: "shown otherwise", Verdict: report.TrialHarms},
			"The lesson is now shown in another form (as advice or as a caution), which has a separate row. Retire or rewrite the lesson: a new text starts a new measurement.",
		},
	} {
		if got := tc.row.NextAction(); got != tc.want {
			t.Errorf("%s, %s, trial %q: NextAction = %q, want %q", tc.row.State, tc.row.Verdict, tc.row.Trial, got, tc.want)
		}
	}
}

// If a verdict claims an effect although the interval contains 0, the row has a note with the reason.
func TestVerdictWithZeroInIntervalHasNote(t *testing.T) {
	for _, a := range report.Advices() {
		measured := strings.HasPrefix(string(a.Verdict), "proven") || a.Verdict == report.Helps || a.Verdict == report.Harms
		inside := report.Row{Verdict: a.Verdict, Lo: new(-.01), Hi: new(.02)}
		outside := report.Row{Verdict: a.Verdict, Lo: new(.01), Hi: new(.02)}
		if got := inside.ZeroNote(); (got != "") != measured {
			t.Errorf("%s with an interval that contains 0: ZeroNote = %q, want a note: %t", a.Verdict, got, measured)
		}
		if got := outside.ZeroNote(); got != "" {
			t.Errorf("%s with an interval above 0: ZeroNote = %q, want none", a.Verdict, got)
		}
	}
}
