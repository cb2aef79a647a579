package main

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"precept/bandit/report"
)

// Top tells what a running server has done, and what its lessons are worth.
func TestTop(t *testing.T) {
	t.Setenv("PRECEPT_ADMIN_TOKEN", "e2e-token")
	m := newModel(t, []step{{Text: "Done."}})
	dir := t.TempDir()
	p := start(t, dir, append(always(m, lessonDir(t)), "--reward-close-after", "1s")...)
	a := &writer{t: t, base: p.Data, dialect: "chat", header: map[string]string{"Precept-Session": "one"}}
	a.user("Run the build script.")
	a.send(false)
	var r reading
	eventually(t, "a row of the report", func() bool {
		out, err := runVerb(t, "top", "--once", "--json", "--data-dir", dir)
		if err != nil || json.Unmarshal([]byte(out), &r) != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return len(r.Report.Lessons) > 0
	})
	if r.Requests < 1 || r.Sessions != 1 || r.Injected != 1 || r.Errors != 0 || len(r.Report.Lessons) != 1 || r.Report.Lessons[0].Slug != "check-the-target" {
		t.Errorf("%+v", r)
	}
	out, err := runVerb(t, "top", "--data-dir", dir)
	if err != nil || !strings.Contains(out, "lessons injected 1, withheld 0") || strings.Contains(out, "\x1b") {
		t.Errorf("%v: %s", err, out)
	}
	if out, err := runVerb(t, "top", "--data-dir", t.TempDir()); err == nil || !strings.Contains(err.Error(), "no server runs on this data directory") {
		t.Errorf("%v: %s", err, out)
	}
}

// What top draws fits the terminal, whatever lessons are called.
func TestTopFits(t *testing.T) {
	e := 0.123
	r := reading{Requests: 12345678, Sessions: 1234567, Injected: 1234567, Withheld: 123456, Stored: 12345678, Pending: 1234, Dropped: 5, FailOpen: 1}
	r.Report.Global = report.Global{Effect: &e, Lo: &e, Hi: &e, NTreated: 1234567, NControl: 123456}
	r.Report.Lessons = []report.Row{{Slug: strings.Repeat("ä", 300) + "\x1b[31m", Verdict: report.TrialHarms, Effect: &e, Lo: &e, Hi: &e, NInjected: 123456, NWithheld: 12345}}
	for _, width := range []int{40, 80, 200} {
		for _, line := range r.lines(width) {
			if n := utf8.RuneCountInString(line); n > width || strings.Contains(line, "\x1b") {
				t.Errorf("%d columns of %d: %q", n, width, line)
			}
		}
	}
	r.Report.Lessons = []report.Row{{Slug: "quote-the-error-of-deploys", Verdict: report.Unproven, Effect: &e, Lo: &e, Hi: &e}}
	if out := strings.Join(r.lines(80), "\n"); !strings.Contains(out, r.Report.Lessons[0].Slug) {
		t.Errorf("a name is cut although there is room:\n%s", out)
	}
}
