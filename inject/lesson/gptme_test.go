package lesson

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// gptmeText returns a gptme file with the given lines below the "match" key.
func gptmeText(lines string) string {
	return "---\nmatch:\n  " + strings.ReplaceAll(lines, "\n", "\n  ") + "\nstatus: active\n---\n\n# Look twice\n\n## Rule\nRead the log.\n"
}

// A lesson file is in the AIP-11 format or in gptme's format, and a book can contain both. A * between spaces matches
// one word in a gptme file, but only a literal * in an AIP-11 file.
func TestStarMatchesWordOnlyInGptmeFormat(t *testing.T) {
	gptme := mustParse(t, "gptme-one.md", gptmeText(`keywords: ["killed at * seconds", "select * from", "* refused", "go test*", "*"]`))
	aip11 := lessonWithKeywords("own-one", "killed at * seconds", "select * from", "* refused", "go test*")
	book := NewBook([]*Lesson{aip11, gptme})
	for text, want := range map[string][]string{
		"process killed at 120 seconds":     {"gptme-one@"},
		"Killed AT\n 120  seconds.":         {"gptme-one@"},
		"killed at * seconds":               {"own-one@"},
		"killed at a few seconds":           nil,
		"killed at seconds":                 nil,
		"select name from users":            {"gptme-one@"},
		"SELECT * FROM users":               {"own-one@"},
		"connection refused":                {"gptme-one@"},
		"* refused":                         {"gptme-one@", "own-one@"},
		"go testing":                        {"gptme-one@", "own-one@"},
		"killed at 무 seconds":               {"gptme-one@"},
		"anything else with a * and a star": nil,
	} {
		q := &Query{Words: []string{text}}
		if got := matchedSlugs(book, q); !slices.Equal(got, want) {
			t.Errorf("%q matches %q, want %q", text, got, want)
		}
		if got := book.Explain(q); len(got) != len(want) {
			t.Errorf("len(Explain(%q)) = %d, want %d", text, len(got), len(want))
		}
	}
	if got := book.Contradicting(gptme); len(got) != 0 {
		t.Errorf("Contradicting(gptme-one) = %v, want none, because the stars have a different meaning", got)
	}
}

// CheckBook also reports unsupported keys below the "match" key.
func TestGptmeFindingsNameGptmeFields(t *testing.T) {
	noon := time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)
	checks := Checker{
		Now:      noon,
		Resolve:  func(Evidence) bool { return false },
		Backtest: func(*Lesson) (int, int) { return 90, 100 },
		Secrets: func(text string) []string {
			if strings.Contains(text, "sk-secret") {
				return []string{"a key"}
			}
			return nil
		},
	}
	for _, tc := range []struct{ text, want string }{
		{gptmeText("keywords: [the]"), "match.keywords[0]"},
		{gptmeText("keywords: [look again, '!!']"), "match.keywords[1]"},
		{gptmeText("keywords: [read the log]"), "match.keywords[0]"},
		{gptmeText("keywords: [look again, sk-secret]"), "match.keywords[1]"},
		{gptmeText("keywords: []"), "match"},
		{gptmeText("keywords: [look again]"), "match"}, // these keywords match too many sessions
		{gptmeText("keywords: [look again]\npatterns: ['a.*b']"), "match.patterns"},
		{gptmeText("patterns: ['a.*b']"), "match.patterns"},
		{gptmeText("keywords: [look again]\ntools: [shell]"), "match.tools"},
		{gptmeText("keywords: [look again]\nsession_categories: [code]"), "match.session_categories"},
		{strings.Replace(gptmeText("keywords: [look again]"), "# Look twice", "# sk-secret", 1), "# (title)"},
		{gptmeText("keywords: [look again]") + "## Context\nsk-secret\n", "# Context"},
	} {
		book := NewBook([]*Lesson{mustParse(t, "look-twice.md", tc.text)})
		var fields []string
		for _, f := range checks.CheckBook(book) {
			fields = append(fields, f.Field)
			if strings.Contains(f.Field, "trigger") || strings.Contains(f.Message, "not_keywords") || strings.Contains(f.Message, "What to do") {
				t.Errorf("finding %q names an AIP-11 field:\n%s", f, tc.text)
			}
		}
		if !slices.Contains(fields, tc.want) {
			t.Errorf("finding fields = %q, want %s among them:\n%s", fields, tc.want, tc.text)
		}
	}
	if got := NewBook([]*Lesson{mustParse(t, "look-twice.md", gptmeText("keywords: [look again]"))}); len((Checker{}).CheckBook(got)) > 0 {
		t.Errorf("valid file: findings = %v, want none", (Checker{}).CheckBook(got))
	}
}

// gptme would read a literal * as a word, so GptmeText writes a regular expression instead.
func TestGptmeTextKeepsKeywords(t *testing.T) {
	text, err := GptmeText(mustParse(t, "browser/verify-page-id.md", strings.Replace(sampleFile, "load more", "select * from", 1)))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), `select \\* from`) || !strings.Contains(string(text), "patterns:") {
		t.Errorf("GptmeText =\n%s\nwant the pattern select \\\\* from", text)
	}
	l := mustParse(t, "verify-page-id.md", string(text))
	if l.Form != FormGptme || slices.ContainsFunc(l.Trigger.Keywords, holdsLiteralStar) || !slices.Contains(l.Trigger.Keywords, "next page") {
		t.Errorf("written lesson: form %s, keywords %q, want form %s, \"next page\" and no literal star",
			l.Form, l.Trigger.Keywords, FormGptme)
	}
}
