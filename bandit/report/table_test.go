package report_test

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"precept/bandit"
	"precept/bandit/report"
	"precept/bandit/trial"
)

var update = flag.Bool("update", false, "rewrite the golden files") //nolint:gochecknoglobals // a test flag

func allRowsInput() report.Input {
	c := bandit.New()
	addArmSessions(c, "verify-page-id", armSessions{epsilon: 0.2, injected: 3200, withheld: 800, injectedRate: 0.72, withheldRate: 0.61, day: today() - 9})
	addArmSessions(c, "a-slug-so-long-that-it-needs-a-line-of-its-own-v1", armSessions{epsilon: 0.2, injected: 400, withheld: 100, injectedRate: 0.6, withheldRate: 0.55, day: today() - 9})
	addArmSessions(c, "a-slug-so-long-that-it-needs-a-line-of-its-own-v2", armSessions{epsilon: 0.2, injected: 80, withheld: 20, injectedRate: 0.6, withheldRate: 0.5, day: today() - 9})
	addArmSessions(c, "rebase-before-push", armSessions{epsilon: 0.5, injected: 1500, withheld: 1500, injectedRate: 0.35, withheldRate: 0.58, day: today() - 20})
	addArmSessions(c, "quote-the-path", armSessions{epsilon: 0.5, injected: 15000, withheld: 15000, injectedRate: 0.5, withheldRate: 0.5, day: today() - 20})
	addArmSessions(c, "say-please", armSessions{epsilon: 0.2, injected: 1600, withheld: 400, injectedRate: 0.7, withheldRate: 0.5, unrewardedWithheld: 1000})
	addArmSessions(c, "read-it-twice", armSessions{epsilon: 0.2, injected: 80, withheld: 20, injectedRate: 0.4, withheldRate: 0.55})
	addArmSessions(c, "verify-page-id", armSessions{controlled: true, withheld: 2088, unrewardedWithheld: 54, withheldRate: 0.5})
	return newInput(c, "verify-page-id", "a-slug-so-long-that-it-needs-a-line-of-its-own-v1", "a-slug-so-long-that-it-needs-a-line-of-its-own-v2",
		"rebase-before-push", "quote-the-path", "say-please", "read-it-twice", "brand-new")
}

// fullTable returns the table for a terminal with 100 columns. It fails the test if a line is wider than 100 columns,
// except for a line with the long slug.
func fullTable(t *testing.T, r report.Report) string {
	t.Helper()
	var b strings.Builder
	if err := r.Table(&b, report.FullWidth); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(b.String()) {
		if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); n > 100 && !strings.Contains(line, "a-slug") {
			t.Errorf("line has %d columns, want at most 100: %s", n, line)
		}
	}
	return b.String()
}

func TestTableGolden(t *testing.T) {
	whatIf := allRowsInput()
	whatIf.WhatIf, whatIf.Window, whatIf.Provisional = 0.5, 14*24*3600e9, true
	whatIf.OtherDefinitions = []report.DefinitionCount{{"user>verifier@1h0m0s", 1204}}
	for name, r := range map[string]report.Report{
		"table.txt": report.Build(allRowsInput()), "table-what-if.txt": report.Build(whatIf),
		"table-empty.txt": report.Build(report.Input{Now: noon}), "table-alarms.txt": reportWithAlarms(),
	} {
		got := fullTable(t, r)
		file := filepath.Join("testdata", name)
		if *update {
			if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if got != string(want) {
			t.Errorf("table differs from testdata/%s (go test -update rewrites the file):\n%s", name, got)
		}
	}
}

// The table names all lessons that matched no session in one sentence, without rows. The lesson "first" has two rows in
// the report, but is named only once. A lesson on trial keeps its row.
func TestTableNamesUnmatchedLessonsOnce(t *testing.T) {
	r := report.Build(report.Input{Now: noon})
	for _, slug := range []string{"first", "first~like", "second"} {
		r.Lessons = append(r.Lessons, report.Row{Slug: slug, State: "active", Verdict: report.Unproven})
	}
	r.Lessons = append(r.Lessons, report.Row{Slug: "on-trial", State: "trial", Verdict: report.Unproven, Trial: "running"})
	got := fullTable(t, r)
	if !strings.Contains(got, "no match yet (2): first, second\n") || strings.Contains(got, "~like") || !strings.Contains(got, "\non-trial ") {
		t.Errorf("table =\n%s\nwant one sentence that names first and second, and a row for on-trial", got)
	}
}

// The lessons matched in sessions that are still open. No session has closed.
func TestTableNamesLessonsMatchedInOpenSessions(t *testing.T) {
	r := report.Build(report.Input{Now: noon})
	r.Open = &report.OpenSessions{Sessions: 3, CloseAfter: "24h0m0s", FirstCloses: noon.Add(time.Hour), Inserted: 2, Matched: map[trial.Arm]int{"first@1": 3}}
	for _, slug := range []string{"first", "second"} {
		r.Lessons = append(r.Lessons, report.Row{Slug: slug, Arm: slug + "@1", State: "active", Verdict: report.Unproven})
	}
	got := strings.Join(strings.Fields(fullTable(t, r)), " ")
	for _, want := range []string{
		"3 sessions are open and do not count yet. Sessions with an inserted lesson: 2. The first session closes at " + noon.Add(time.Hour).Format("2006-01-02 15:04 UTC") + " and then counts (reward.close_after = 24h).",
		"matched only in open sessions (1): first no match yet (1): second",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("table =\n%s\nwant it to contain %q", got, want)
		}
	}
}

func reportWithAlarms() report.Report {
	r := report.Build(allRowsInput())
	r.Global.Verdict, r.Global.RefusedTreated, r.Global.RefusedControl = report.Invalid, 7, 2
	r.SRM, r.Reporting.OK, r.Reporting.EValue = report.SRM{EValue: 12345}, false, 67890
	r.PlannedTrials = report.PlannedTrials{Planned: 4, Evaluated: 2, Proven: 1}
	e, lo, hi, p := 0.12, 0.05, 0.19, 0.004
	full := report.PlannedTrial{Began: noon, Planned: 400, Rewarded: 400}
	almostFull, recent, evaluated, withoutEffect := full, full, full, full
	almostFull.Rewarded, almostFull.Effect, almostFull.Lo, almostFull.Hi = 399, &e, &lo, &hi
	recent.Rewarded = 12
	evaluated.Evaluated, evaluated.Effect, evaluated.Lo, evaluated.Hi, evaluated.P = true, &e, &lo, &hi, &p
	withoutEffect.Evaluated = true
	weeks := func(x float64) *float64 { return &x }
	for i := range r.Lessons {
		switch row := &r.Lessons[i]; row.Slug {
		case "quote-the-path":
			row.PlannedTrials, row.Trial, row.AfterTrial = []report.PlannedTrial{withoutEffect, evaluated}, "ended", "the lesson stays active"
			row.RefusedWith, row.RefusedWithout = 3, 1
		case "brand-new":
			row.PlannedTrials, row.Trial, row.State = []report.PlannedTrial{recent}, "running", "shown otherwise"
		case "rebase-before-push":
			row.PlannedTrials, row.Trial = []report.PlannedTrial{almostFull}, "reached"
		case "read-it-twice":
			row.Weeks = weeks(1.4)
		case "say-please":
			row.Weeks, row.NeedsPicks = weeks(521), 9
		}
	}
	return r
}

// A table for a narrow terminal contains all numbers, but no plot.
func TestTableFits80Columns(t *testing.T) {
	in := allRowsInput()
	in.WhatIf, in.Window, in.Provisional = 0.5, 14*24*3600e9, true
	in.OtherDefinitions = []report.DefinitionCount{{"user>verifier@1h0m0s", 1204}}
	in.RewardDefinition = strings.Repeat("user>verifier ", 20)
	in.Policy = report.Policy{Objective: "raw", Holdout: "earn"}
	in.Explain = "verify-page-id"
	r := report.Build(in)
	for _, columns := range []int{0, 40, report.NarrowWidth, report.FullWidth - 1} {
		var b strings.Builder
		if err := r.Table(&b, columns); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(b.String()) {
			if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); n > report.NarrowWidth {
				t.Errorf("table for %d columns: line has %d columns, want at most %d: %s", columns, n, report.NarrowWidth, line)
			}
		}
		for _, want := range []string{"+11.0 [ +4.8, +17.2]", "3200/800", "a-slug-so-long-that-it-needs-a-line-of-its-own-v2\n"} {
			if !strings.Contains(b.String(), want) {
				t.Errorf("table for %d columns lacks %q:\n%s", columns, want, b.String())
			}
		}
		if strings.Contains(b.String(), "--o--") {
			t.Errorf("table for %d columns has a plot", columns)
		}
	}
	var b strings.Builder
	if err := r.Explain(&b, "verify-page-id", report.NarrowWidth); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(b.String()) {
		if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); n > report.NarrowWidth {
			t.Errorf("explanation: line has %d columns, want at most %d: %s", n, report.NarrowWidth, line)
		}
	}
}

// The table does not shorten a slug. It replaces control characters in a slug by spaces.
func TestTableShowsFullEscapedSlugs(t *testing.T) {
	r := report.Build(allRowsInput())
	r.Lessons[0].Slug = "evil\x1b[2J\u202egnp.exe"
	got := fullTable(t, r)
	for _, want := range []string{"needs-a-line-of-its-own-v2\n", "evil [2J gnp.exe"} {
		if !strings.Contains(got, want) {
			t.Errorf("table lacks %q:\n%s", want, got)
		}
	}
}

// The rows for an older text and for a removed lesson have no forecast, but a note about why the lesson gets no more
// picks.
func TestOldTextRowsHaveNoForecast(t *testing.T) {
	r := report.Build(allRowsInput())
	r.Lessons = r.Lessons[:2]
	for i, state := range []string{"edited", "removed"} {
		r.Lessons[i].State, r.Lessons[i].NeedsPicks, r.Lessons[i].RetireReason = state, 100, ""
	}
	got := fullTable(t, r)
	if !strings.Contains(got, "    an earlier text") || !strings.Contains(got, "    the lesson no longer exists") || strings.Contains(got, "more picks") {
		t.Errorf("table =\n%s\nwant \"an earlier text\", \"the lesson no longer exists\" and no \"more picks\"", got)
	}
}

type failingWriter struct{}

func (failingWriter) Write([]byte) (int, error) { return 0, errors.New("the pipe is closed") }

func TestTableReturnsWriteError(t *testing.T) {
	if err := report.Build(allRowsInput()).Table(failingWriter{}, report.FullWidth); err == nil || !strings.Contains(err.Error(), "the pipe is closed") {
		t.Errorf(`err = %v, want "the pipe is closed"`, err)
	}
}

// The table names the holdout rule only if it is not the default rule, "prove".
func TestTableNamesNonDefaultHoldoutRule(t *testing.T) {
	for rule, want := range map[bandit.Holdout]string{"": "", bandit.Prove: "", bandit.Earn: "Holdout: earn, which", bandit.Fixed: "Holdout: fixed, which"} { // "" means no line
		in := report.Input{Now: noon, Policy: report.Policy{Holdout: string(rule)}}
		r := report.Build(in)
		if name := string(rule); r.Holdout != name && (name != "" || r.Holdout != "prove") {
			t.Errorf("holdout rule %q: Holdout = %q, want the same rule, or prove for the empty rule", rule, r.Holdout)
		}
		var b strings.Builder
		if err := r.Table(&b, report.FullWidth); err != nil {
			t.Fatal(err)
		}
		if out := b.String(); !strings.Contains(out, want) || (want == "" && strings.Contains(out, "Holdout:")) {
			t.Errorf("holdout rule %q: table =\n%s\nwant a line that contains %q (if empty: no line with \"Holdout:\")", rule, out, want)
		}
	}
}

// If there are only a few sessions, an interval can extend beyond the largest possible effect, 100 points. Points
// limits each number to this range.
func TestPointsAreLimitedTo100(t *testing.T) {
	for effect, want := range map[float64]float64{0.05: 5, 1.5: 100, -1.02: -100, 0: 0} {
		if got := report.Points(effect); got < want-1e-9 || got > want+1e-9 {
			t.Errorf("Points(%v) = %v, want %v", effect, got, want)
		}
	}
}

// If a number is so close to 0 that one decimal would hide the sign, SignedPoints prints a second decimal.
func TestSignedPointsNearZeroShowSign(t *testing.T) {
	for effect, want := range map[float64]string{
		0.05: "+5.0", -0.05: "-5.0", -0.00047: "-0.05", 0.0004: "+0.04", -0.00049: "-0.05", -0.0006: "-0.1",
		0: "+0.0", -0.00001: "+0.0", -3: "-100.0",
	} {
		if got := report.SignedPoints(effect); got != want {
			t.Errorf("SignedPoints(%v) = %q, want %q", effect, got, want)
		}
	}
}
