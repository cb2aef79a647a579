package main

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"precept/bandit/trial"
	"precept/internal/sample"
	"precept/store"
)

func TestWatchPageFitsColumns(t *testing.T) {
	turn := store.TurnItem{Turn: 7, Outcome: sample.Failed, Loops: 1, Input: 12, Entries: []store.Entry{
		{Kind: sample.EventUser, Text: strings.Repeat("日本語のとても長い文章 ", 20) + "\x1b]0;owned\x07\u202eevil"},
		{Kind: store.KindBlock, Text: strings.Repeat("x", 500) + "\nEnd of lessons.\n\n", Slugs: []string{"a"}},
		{Kind: store.KindWithheld, Slugs: []string{"kept-back"}, Propensity: 0.7, Why: "withheld"},
		{Kind: sample.EventCall, Tool: "bash", Text: "{\t}"},
		{Kind: sample.MessageResult, Tool: "bash", Outcome: "error", Text: "Error 2"},
		{Kind: sample.MessageSystem, Text: strings.Repeat("rule\n", 50)},
	}}
	for _, columns := range []int{40, 80, 132} {
		for _, line := range (pageStyle{width: columns}).turnLines(&turn, nil) {
			n := 0
			for _, r := range line {
				n += runeWidth(r) // a wide character takes two columns
			}
			if n > columns || strings.ContainsAny(line, "\x1b\x07\u202e\t") {
				t.Errorf("line %q: got %d columns, want at most %d and no control characters", line, n, columns)
			}
		}
	}
	plain := strings.Join(pageStyle{width: 80}.turnLines(&turn, nil), "\n")
	for _, want := range []string{"turn 7", "LOOP", "PRECEPT +", "kept-back was withheld at random (probability of injection: 0.70)", "FAILED", "more lines; the dashboard shows them", "‹ESC›]0;owned"} {
		if !strings.Contains(plain, want) {
			t.Errorf("got output\n%s\nwant it to contain %q", plain, want)
		}
	}
	if coloured := strings.Join(pageStyle{width: 80, colour: true}.turnLines(&turn, nil), "\n"); !strings.Contains(coloured, "\x1b[30;42mxxx") || strings.Count(coloured, "\x1b[0m") < 5 {
		t.Errorf("got coloured output %q, want it to contain \"\\x1b[30;42mxxx\" and at least five colour resets", coloured)
	}
	w := &invocation{stdout: &bytes.Buffer{}, env: func(string) (string, bool) { return "", false }}
	if w.newPageStyle().colour {
		t.Error("without a terminal: got a page with colours, want a page without colours")
	}
	if s := fmt.Sprint(pageStyle{width: 20}.wrap("one two three four five", 10)); s != "[one two three four five]" {
		t.Errorf(`wrap with width 20 and indent 10 = %q, want "[one two three four five]"`, s)
	}
}

// A lesson that matched may be missing from a turn because it was withheld, or because it was not picked. Watch names
// the reason in either case.
func TestWatchPageSaysWhyAMatchedLessonIsMissing(t *testing.T) {
	turn := store.TurnItem{Turn: 1, Lessons: []sample.Lesson{
		{Slug: "third-choice", State: "matched"}, {Slug: "long-text", State: "matched"}, {Slug: "no-gain", State: "matched"}, {Slug: "inserted", State: "injected"},
	}}
	fates := []store.Fate{
		{Slug: "third-choice", State: store.NotPicked, Why: "slots"}, {Slug: "long-text", State: store.NotPicked, Why: "room"}, {Slug: "no-gain", State: store.NotPicked, Why: "rank"},
	}
	page := strings.Join(pageStyle{width: 120}.turnLines(&turn, fates), "\n")
	for _, want := range []string{
		"PRECEPT    third-choice matched, but was not picked: better lessons took all places (inject.k)",
		"PRECEPT    long-text matched, but was not picked: no room for the text (inject.budget_bytes)",
		"PRECEPT    no-gain matched, but was not picked: the chooser expects less gain",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("got output\n%s\nwant it to contain %q", page, want)
		}
	}
	if strings.Contains(page, "inserted matched") || strings.Contains(page, "no lesson for this turn") {
		t.Errorf("got output\n%s\nwant no reason for the inserted lesson", page)
	}
	page = strings.Join(pageStyle{width: 120}.turnLines(&store.TurnItem{Turn: 1}, []store.Fate{{Slug: "near", State: store.NotMatched, Why: "a word is missing"}}), "\n")
	for _, want := range []string{"PRECEPT    near did not match: a word is missing", "PRECEPT    no lesson for this turn; `precept lessons try TEXT`"} {
		if !strings.Contains(page, want) {
			t.Errorf("first turn without a match: got output\n%s\nwant it to contain %q", page, want)
		}
	}
}

// Watch says whether the report counts the session, in the report's words.
func TestWatchNamesExclusion(t *testing.T) {
	const why = "not counted, because the session is outside the experiment (identical histories)"
	page := pageStyle{width: 200}
	counted := store.Transcript{SessionItem: store.SessionItem{Turns: 3, Verdict: sample.Good}}
	counted.Rewarded.Value, counted.Rewarded.Counted, counted.Rewarded.Tier = new(1.0), new(1.0), 2
	if got := page.endLines(&counted); got != "closed after turn 3: reward 1.00 (good), from a verifier; counted" {
		t.Errorf("counted session: last line = %q", got)
	}
	if got := page.headLines(&counted); strings.Contains(got, "counted") {
		t.Errorf("counted session: first line = %q, want no word on the experiment", got)
	}
	twin := counted
	twin.Excluded, twin.ExcludedFor, twin.Rewarded.Counted = true, trial.ExcludedTwin, nil
	for _, got := range []string{page.headLines(&twin), page.endLines(&twin)} {
		if !strings.Contains(got, why) || strings.Contains(got, "; counted") {
			t.Errorf("session with a twin: line = %q, want %q", got, why)
		}
	}
}
