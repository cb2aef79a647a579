package main

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

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
		for _, line := range (pageStyle{width: columns}).turnLines(&turn) {
			n := 0
			for _, r := range line {
				n += runeWidth(r) // a wide character takes two columns
			}
			if n > columns || strings.ContainsAny(line, "\x1b\x07\u202e\t") {
				t.Errorf("line %q: got %d columns, want at most %d and no control characters", line, n, columns)
			}
		}
	}
	plain := strings.Join(pageStyle{width: 80}.turnLines(&turn), "\n")
	for _, want := range []string{"turn 7", "LOOP", "PRECEPT +", "kept-back was withheld at random (probability of injection: 0.70)", "FAILED", "more lines; the dashboard shows them", "‹ESC›]0;owned"} {
		if !strings.Contains(plain, want) {
			t.Errorf("got output\n%s\nwant it to contain %q", plain, want)
		}
	}
	if coloured := strings.Join(pageStyle{width: 80, colour: true}.turnLines(&turn), "\n"); !strings.Contains(coloured, "\x1b[30;42mxxx") || strings.Count(coloured, "\x1b[0m") < 5 {
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
