package main

import (
	"strings"
	"testing"

	"precept/inject/rules"
)

// The title of a lesson made from a bullet point is the first complete phrase of the bullet point, or the name of the
// section if this phrase is too long.
func TestSectionLessonTitleIsCompletePhrase(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"- Run `make generate` after each change of a file in api, and commit the result. Never edit gen by hand.": "Run make generate after each change of a file in api, and commit the result",
		"- Use **pnpm**.": "Use pnpm",
		"- Put new SQL migrations into db/migrations with the next free number in front of the name of the file; the deployment applies the files in this order.": "Put new SQL migrations into db/migrations with the next free number in front of the name of the file",
		"- Write tests for e.g. parsers and printers of all formats that we read:\n  - one\n  - two":                                                              "Write tests for e.g. parsers and printers of all formats that we read",
		"## Migrations\n\nBefore a migration, make a backup.":                                                                                                     "Migrations",
	} {
		sections := rules.Split(text)
		got := sectionLesson("AGENTS.md", &sections[0], text, nil).Title
		if got != want {
			t.Errorf("title of the lesson from %q = %q, want %q", text, got, want)
		}
	}
	long := "- " + strings.Repeat("word ", 60) + "end."
	sections := rules.Split(long)
	if got := sectionLesson("AGENTS.md", &sections[0], long, nil).Title; got != sections[0].Name {
		t.Errorf("title of the lesson from a sentence with 61 words = %q, want the section name %q", got, sections[0].Name)
	}
}
