package report_test

import (
	"os"
	"strings"
	"testing"

	"precept/bandit/report"
)

// The documentation states the advice of each verdict in the words of the code.
func TestDocumentationStatesTheAdviceOfEachVerdict(t *testing.T) {
	page, err := os.ReadFile("../../docs/EXPERIMENT.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range report.Advices() {
		if row := "| `" + string(a.Verdict) + "` | " + a.Text + " |\n"; !strings.Contains(string(page), row) {
			t.Errorf("docs/EXPERIMENT.md has no row %s", row)
		}
	}
}

// A row that claims an effect although its interval contains 0 has a note with the reason. No other
// row has the note.
func TestVerdictBesideZeroHasAReason(t *testing.T) {
	for _, a := range report.Advices() {
		measured := strings.HasPrefix(string(a.Verdict), "proven") || a.Verdict == report.Helps || a.Verdict == report.Harms
		inside := report.Row{Verdict: a.Verdict, Lo: new(-.01), Hi: new(.02)}
		outside := report.Row{Verdict: a.Verdict, Lo: new(.01), Hi: new(.02)}
		if got := inside.ZeroNote(); (got != "") != measured {
			t.Errorf("the verdict %s with an interval that contains 0 has the note %q, want a note: %t", a.Verdict, got, measured)
		}
		if got := outside.ZeroNote(); got != "" {
			t.Errorf("%s with an interval above 0: got the note %q, want none", a.Verdict, got)
		}
	}
}
