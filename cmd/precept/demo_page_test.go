package main

import (
	"strings"
	"testing"
	"time"

	"precept/bandit/report"
	"precept/cmd/precept/demo"
)

// someRows are what a report may have of the demo's lessons.
func someRows() []report.Row {
	return []report.Row{
		{Slug: "reproduce-before-fixing", Effect: new(.2049), Lo: new(.11), Hi: new(.2951), NInjected: 1234, NWithheld: 310, Verdict: report.ProvenHelps},
		{Slug: "read-the-failing-assertion", NInjected: 12, Verdict: report.Unproven},
		{Slug: "restart-the-service-first", Effect: new(-.16), Lo: new(-.21), Hi: new(-.1), NInjected: 80, NWithheld: 90, Verdict: report.Harms},
		{Slug: "add-more-comments", Effect: new(0.), Lo: new(0.), Hi: new(0.), Verdict: report.NoEffect},
		{Slug: "no-lesson-of-ours", Verdict: report.ProvenHelps},
	}
}

// pageOf is the demo's page on an output of so many columns.
func pageOf(out *strings.Builder, live bool, columns int) *demoPage {
	return &demoPage{out: out, live: live, columns: columns, truths: demo.NewWorld(1).Truths, told: map[string]bool{}}
}

const goldenTable = `lesson                      truth  found  95% interval       in/out  verdict
reproduce-before-fixing     +22.0  +20.5  +11.0 to +29.5   1234/310  proven helps
read-the-failing-assertion  +14.0      -  -                    12/0  unproven
pin-the-dependency           +9.0      -  -                     0/0  not matched yet
restart-the-service-first   -16.0  -16.0  -21.0 to -10.0      80/90  harms
rewrite-the-module          -10.0      -  -                     0/0  not matched yet
add-more-comments            +0.0   +0.0  +0.0 to +0.0          0/0  no material effect
run-the-full-suite           +0.0      -  -                     0/0  not matched yet
ask-for-a-screenshot         +0.0      -  -                     0/0  not matched yet
`

// goldenNarrow is the same on a terminal of 80 columns.
const goldenNarrow = `lesson                      truth  found  95% interval     verdict
reproduce-before-fixing     +22.0  +20.5  +11.0 to +29.5   proven helps
read-the-failing-assertion  +14.0      -  -                unproven
pin-the-dependency           +9.0      -  -                not matched yet
restart-the-service-first   -16.0  -16.0  -21.0 to -10.0   harms
rewrite-the-module          -10.0      -  -                not matched yet
add-more-comments            +0.0   +0.0  +0.0 to +0.0     no material effect
run-the-full-suite           +0.0      -  -                not matched yet
ask-for-a-screenshot         +0.0      -  -                not matched yet
`

// The table has the truth beside what was found out, and the arms' sessions where there is room.
func TestDemoTable(t *testing.T) {
	for columns, want := range map[int]string{0: goldenNarrow, 40: goldenNarrow, 80: goldenNarrow, 89: goldenNarrow, 90: goldenTable} {
		if got := pageOf(nil, false, columns).table(someRows()); got != want {
			t.Errorf("%d columns:\n%s\nwant\n%s", columns, got, want)
		}
	}
	rows := someRows()
	rows[0].Lo, rows[0].Verdict = new(-.01), report.Helps
	if text := pageOf(nil, false, 80).table(rows); !strings.Contains(text, "\nA claim rests on what was known when it was made") {
		t.Errorf("%s\nsays nothing of a claim beside an interval that holds 0", text)
	}
}

// What is new is told once.
func TestDemoMilestones(t *testing.T) {
	p := pageOf(nil, false, 80)
	first := p.milestones(soFar{done: 1500, loops: 2, calls: 3}, someRows())
	for i, want := range []string{
		"after 1500 sessions: a loop is caught: 3 equal calls failed alike",
		"after 1500 sessions: a first effect: reproduce-before-fixing +20.5 points (+11.0 to +29.5)",
		"after 1500 sessions: reproduce-before-fixing is proven to help, by +20.5 points",
		"after 1500 sessions: restart-the-service-first harms, by -16.0 points",
	} {
		if i >= len(first) || !strings.HasPrefix(first[i], want) {
			t.Errorf("line %d of %q, want %q", i, first, want)
		}
	}
	if again := p.milestones(soFar{done: 1600, loops: 9, calls: 3}, someRows()); len(first) != 4 || len(again) != 0 {
		t.Errorf("%d lines, and then once more %q", len(first), again)
	}
	rows := append(someRows(), report.Row{Slug: "run-the-full-suite", Verdict: report.Benched})
	if more := p.milestones(soFar{done: 1700}, rows); len(more) != 1 || !strings.Contains(more[0], "run-the-full-suite is benched") {
		t.Errorf("%q", more)
	}
}

// Where no terminal is, a line tells how far it is, and what is new stands below it once.
func TestDemoLines(t *testing.T) {
	var b strings.Builder
	p := pageOf(&b, false, 80)
	p.draw(soFar{}, someRows())
	p.draw(soFar{done: 50, total: 200, success: 20, elapsed: 2 * time.Second}, someRows())
	p.draw(soFar{done: 300, total: 200, success: 300, elapsed: 5 * time.Second}, someRows())
	want := `[                        ] 0 of 0 sessions, 0 a second, 0.0% succeeded
  after 0 sessions: a first effect: reproduce-before-fixing +20.5 points
      (+11.0 to +29.5)
  after 0 sessions: reproduce-before-fixing is proven to help, by +20.5
      points
  after 0 sessions: restart-the-service-first harms, by -16.0 points
[======                  ] 50 of 200 sessions, 25 a second, 40.0% succeeded
[========================] 300 of 200 sessions, 60 a second, 100.0% succeeded
`
	if b.String() != want {
		t.Errorf("%s\nwant\n%s", b.String(), want)
	}
}

// On a terminal each drawing takes the place of the one before; the milestones stay above.
func TestDemoOnATerminal(t *testing.T) {
	var b strings.Builder
	p := pageOf(&b, true, 100)
	for n := range int64(3) {
		p.draw(soFar{done: n + 1, total: 4, success: 1, elapsed: time.Second}, someRows())
	}
	head := func(bar, text string) string { return "[" + bar + "] " + text + " succeeded\n\n" + goldenTable }
	want := "after 1 sessions: a first effect: reproduce-before-fixing +20.5 points (+11.0 to +29.5)\n" +
		"after 1 sessions: reproduce-before-fixing is proven to help, by +20.5 points\n" +
		"after 1 sessions: restart-the-service-first harms, by -16.0 points\n\n" +
		head("======                  ", "1 of 4 sessions, 1 a second, 100.0%") +
		"\x1b[11A\x1b[J" + head("============            ", "2 of 4 sessions, 2 a second, 50.0%") +
		"\x1b[11A\x1b[J" + head("==================      ", "3 of 4 sessions, 3 a second, 33.3%")
	if b.String() != want {
		t.Errorf("%q\nwant\n%q", b.String(), want)
	}
}
