package main

import (
	"strings"
	"testing"
	"unicode/utf8"

	"precept/distill"
)

func TestTablesAndWrappedTextsFitColumns(t *testing.T) {
	rows := [][]string{
		{"SLUG", "STATE", "OUTCOME", "CONFIDENCE", "TITLE"},
		{"reproduce-before-you-fix-anything-at-all", "quarantined!", "success", "0.55", "Reproduce the fault before you change a line, and keep the command that shows it"},
		{"short", "active", "failure", "0.5", "日本語の題は一文字で二桁を取るので行は八十桁を超えてはならないことになっている"},
	}
	for _, columns := range []int{40, 80, 1 << 20} {
		var b strings.Builder
		if err := writeTable(&b, rows, columns); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(b.String()) {
			line = strings.TrimRight(line, "\n")
			if n := displayWidth(line); n > columns && !strings.HasPrefix(line, rows[1][0]) {
				t.Errorf("line %q: got %d columns, want at most %d", line, n, columns)
			}
		}
		for _, row := range rows {
			for _, cell := range row {
				joined := strings.Join(strings.Fields(b.String()), "")
				if !strings.Contains(joined, strings.Join(strings.Fields(cell), "")) {
					t.Errorf("table in a terminal with %d columns: got\n%s\nwant a table that contains %q", columns, b.String(), cell)
				}
			}
		}
		if lines := strings.Count(b.String(), "\n"); (lines == len(rows)) != (columns == 1<<20) {
			t.Errorf("table in a terminal with %d columns: got %d lines, want one line per row if the terminal is wide enough, and more lines if not:\n%s", columns, lines, b.String())
		}
	}
	var b strings.Builder
	printWrapped(&b, 80, "note: %s", strings.Repeat("each replica knows the opt-outs ", 9))
	for line := range strings.Lines(b.String()) {
		if utf8.RuneCountInString(strings.TrimRight(line, "\n")) > 80 {
			t.Errorf("wrapped line %q: got %d columns, want at most 80", line, utf8.RuneCountInString(line)-1)
		}
	}
}

func TestFoldSentenceDoesNotSplitWords(t *testing.T) {
	path := "/tmp/" + strings.Repeat("x", 40) + "/precept.yaml:1:"
	for columns := 20; columns < 80; columns++ {
		lines := foldSentence("fault: "+path+" bandit.epsilon is out of bounds", columns)
		if text := strings.Join(lines, "\n"); !strings.Contains(text, path) || len(lines) < 2 {
			t.Errorf("sentence folded at %d columns: got %q, want several lines, and the whole path on one line", columns, lines)
		}
	}
}

func TestDistillSummaryCountsSetAsideSessions(t *testing.T) {
	for want, summary := range map[string]*distill.Summary{
		"set aside 2 sessions until": {Read: 5, Unchanged: 5, SetAside: 2},
		"set aside 1 session until":  {Read: 5, Unchanged: 3, Failed: 2, SetAside: 1},
	} {
		var b strings.Builder
		if err := printDistill(&b, summary, &distillFlags{}); err != nil || !strings.Contains(b.String(), want) {
			t.Errorf("printDistill(%+v): got output %q, error %v, want output that contains %q, and no error", *summary, b.String(), err, want)
		}
	}
}
