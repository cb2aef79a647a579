package demo

import (
	"errors"
	"strings"
	"testing"
	"time"
)

func someTable() Table {
	return Table{World: NewWorld(1), Rows: map[string]Row{
		"reproduce-before-fixing":    {Effect: .2049, Lo: .11, Hi: .2951, Known: true, Injected: 1234, Withheld: 310, Verdict: "proven helps"},
		"read-the-failing-assertion": {Effect: .9, Lo: -1, Hi: 1, Injected: 12, Verdict: "unproven"},
		"restart-the-service-first":  {Effect: -.16, Lo: -.21, Hi: -.1, Known: true, Injected: 80, Withheld: 90, Verdict: "harms"},
		"add-more-comments":          {Known: true},
		"no-lesson-of-ours":          {Verdict: "proven helps"},
	}}
}

const goldenTable = `lesson                      truth  found  95% interval       in/out  verdict
reproduce-before-fixing     +22.0  +20.5  +11.0 to +29.5   1234/310  proven helps
read-the-failing-assertion  +14.0      -  -                    12/0  unproven
pin-the-dependency           +9.0      -  -                     0/0  not matched yet
restart-the-service-first   -16.0  -16.0  -21.0 to -10.0      80/90  harms
rewrite-the-module          -10.0      -  -                     0/0  not matched yet
add-more-comments            +0.0   +0.0  +0.0 to +0.0          0/0  not matched yet
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
add-more-comments            +0.0   +0.0  +0.0 to +0.0     not matched yet
run-the-full-suite           +0.0      -  -                not matched yet
ask-for-a-screenshot         +0.0      -  -                not matched yet
`

// someNews are the lines that someTable brings.
func someNews(when string) string {
	return when + ": a first effect: reproduce-before-fixing +20.5 points (+11.0 to +29.5)\n" +
		when + ": reproduce-before-fixing is proven to help, by +20.5 points\n" +
		when + ": restart-the-service-first harms, by -16.0 points\n"
}

func TestTable(t *testing.T) {
	var b strings.Builder
	if err := someTable().Write(&b, wideTable); err != nil || b.String() != goldenTable {
		t.Errorf("%v\n%s\nwant\n%s", err, b.String(), goldenTable)
	}
	for _, columns := range []int{0, 40, 80, wideTable - 1} {
		if b.Reset(); someTable().Write(&b, columns) != nil || b.String() != goldenNarrow {
			t.Errorf("%d columns:\n%s\nwant\n%s", columns, b.String(), goldenNarrow)
		}
	}
	claimed := someTable()
	claimed.Rows["reproduce-before-fixing"] = Row{Effect: .05, Lo: -.01, Hi: .11, Known: true, Verdict: "helps"}
	b.Reset()
	if err := claimed.Write(&b, 80); err != nil || !strings.Contains(b.String(), "\nA claim rests on what was known when it was made") {
		t.Errorf("%v\n%s\nsays nothing of a claim beside an interval that holds 0", err, b.String())
	}
	if err := someTable().Write(broken{}, 80); err == nil {
		t.Error("a fault was not told")
	}
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errors.New("the pipe is broken") }

func TestProgressLines(t *testing.T) {
	var b strings.Builder
	p := &Progress{Out: &b}
	p.Draw(0, 0, 0, 0, someTable(), Loops{})
	p.Draw(0, 200, 0, 0, someTable(), Loops{})
	p.Draw(50, 200, 20, 2*time.Second, someTable(), Loops{})
	p.Draw(200, 200, 111, 5*time.Second, someTable(), Loops{})
	p.Draw(300, 200, 300, 5*time.Second, someTable(), Loops{})
	want := `[....................] 0 of 0 sessions, 0 a second, 0.0% succeeded
` + strings.Replace(someNews("  after 0 sessions"), " to +29.5", "\n    to +29.5", 1) + `[....................] 0 of 200 sessions, 0 a second, 0.0% succeeded
[#####...............] 50 of 200 sessions, 25 a second, 40.0% succeeded
[####################] 200 of 200 sessions, 40 a second, 55.5% succeeded
[####################] 300 of 200 sessions, 60 a second, 100.0% succeeded
`
	if b.String() != want {
		t.Errorf("%s\nwant\n%s", b.String(), want)
	}
}

// On a terminal each drawing takes the place of the one before; the news stay above.
func TestProgressOnATerminal(t *testing.T) {
	var b strings.Builder
	p := &Progress{Out: &b, Terminal: true, Columns: wideTable}
	p.Draw(1, 4, 1, time.Second, someTable(), Loops{})
	p.Draw(2, 4, 1, time.Second, someTable(), Loops{})
	p.Draw(3, 4, 1, time.Second, someTable(), Loops{})
	head := func(bar, text string) string { return "[" + bar + "] " + text + " succeeded\n\n" + goldenTable }
	want := someNews("after 1 sessions") + "\n" + head("#####...............", "1 of 4 sessions, 1 a second, 100.0%") +
		"\x1b[11A\x1b[J" + head("##########..........", "2 of 4 sessions, 2 a second, 50.0%") +
		"\x1b[11A\x1b[J" + head("###############.....", "3 of 4 sessions, 3 a second, 33.3%")
	if b.String() != want {
		t.Errorf("%q\nwant\n%q", b.String(), want)
	}
}
