package main

import (
	"fmt"
	"strings"
	"testing"

	"precept/bandit/report"
	"precept/cmd/precept/demo"
)

// newDemoRows returns report rows for four of the demo's lessons, and one row for another lesson.
func newDemoRows() []report.Row {
	return []report.Row{
		{Slug: "reproduce-before-fixing", Effect: new(.2049), Lo: new(.11), Hi: new(.2951), NInjected: 1234, NWithheld: 310, Verdict: report.ProvenHelps},
		{Slug: "read-the-failing-assertion", NInjected: 12, Verdict: report.Unproven},
		{Slug: "restart-the-service-first", Effect: new(-.16), Lo: new(-.21), Hi: new(-.1), NInjected: 80, NWithheld: 90, Verdict: report.Harms},
		{Slug: "add-more-comments", Effect: new(0.), Lo: new(0.), Hi: new(0.), Verdict: report.NoEffect},
		{Slug: "no-lesson-of-ours", Verdict: report.ProvenHelps},
	}
}

// goldenTable is the table for newDemoRows in a terminal with at least 90 columns.
const goldenTable = `lesson                       true  found  95% interval    with/without  verdict
reproduce-before-fixing     +22.0  +20.5  +11.0 to +29.5      1234/310  proven helps
read-the-failing-assertion  +14.0      -  -                       12/0  unproven
pin-the-dependency           +9.0      -  -                        0/0  not matched yet
restart-the-service-first   -16.0  -16.0  -21.0 to -10.0         80/90  harms
rewrite-the-module          -10.0      -  -                        0/0  not matched yet
add-more-comments            +0.0   +0.0  +0.0 to +0.0             0/0  no material effect
run-the-full-suite           +0.0      -  -                        0/0  not matched yet
ask-for-a-screenshot         +0.0      -  -                        0/0  not matched yet
`

// goldenNarrow is the table for newDemoRows in a narrower terminal. It lacks the column with/without.
const goldenNarrow = `lesson                       true  found  95% interval     verdict
reproduce-before-fixing     +22.0  +20.5  +11.0 to +29.5   proven helps
read-the-failing-assertion  +14.0      -  -                unproven
pin-the-dependency           +9.0      -  -                not matched yet
restart-the-service-first   -16.0  -16.0  -21.0 to -10.0   harms
rewrite-the-module          -10.0      -  -                not matched yet
add-more-comments            +0.0   +0.0  +0.0 to +0.0     no material effect
run-the-full-suite           +0.0      -  -                not matched yet
ask-for-a-screenshot         +0.0      -  -                not matched yet
`

func TestDemoTableShowsTrueAndMeasuredEffects(t *testing.T) {
	for columns, want := range map[int]string{0: goldenNarrow, 40: goldenNarrow, 80: goldenNarrow, 89: goldenNarrow, 90: goldenTable} {
		if got := demoTable(demo.NewWorld(1).Truths, newDemoRows(), columns); got != want {
			t.Errorf("table for %d columns: got\n%s\nwant\n%s", columns, got, want)
		}
	}
	rows := newDemoRows()
	rows[0].Lo, rows[0].Verdict = new(-.01), report.Helps
	if text := demoTable(demo.NewWorld(1).Truths, rows, 80); !strings.Contains(text, "\nA verdict is final.") {
		t.Errorf("table with an interval that contains 0: got\n%s\nwant the table with the note that a verdict is final", text)
	}
}

// The report has one row for each presentation of a lesson. A lesson that was first presented as advice and then as a
// caution has two rows, which the demo explains.
func TestCircleReportExplainsLessonWithTwoRows(t *testing.T) {
	active := report.Row{Slug: demo.CircleHarm, State: "active", Caution: true, Verdict: report.LikelyHarms}
	earlier := active
	earlier.State = "shown otherwise"
	for name, tc := range map[string]struct {
		rows      []report.Row
		explained bool // the output explains the two rows
	}{
		"two presentations": {[]report.Row{earlier, active}, true},
		"one presentation":  {[]report.Row{active}, false},
	} {
		var out strings.Builder
		rows := printCircleRows(tc.rows, func(format string, args ...any) { fmt.Fprintf(&out, format+"\n", args...) })
		if text := out.String(); len(rows) != len(tc.rows) || !strings.Contains(text, "active, as a caution\n") || strings.Contains(text, "each presentation is measured separately") != tc.explained {
			t.Errorf("%s: got %d rows and output\n%s\nwant %d rows and the two-row explanation = %v", name, len(rows), text, len(tc.rows), tc.explained)
		}
	}
}
