package lesson_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"precept/inject/lesson"
)

// lessonFile returns a valid lesson file in the format learning/v1. The arguments in replaced are pairs of a text in
// the file and the text that replaces it.
func lessonFile(slug string, replaced ...string) string {
	return strings.NewReplacer(append(replaced, "SLUG", slug)...).Replace(`---
schema: learning/v1
slug: SLUG
title: Check the page before clicking
trigger:
  description: when pages are clicked
  metadata:
    precept:
      keywords: [load more]
outcome: success
evidence:
  - kind: run
    ref: r1
---

## What to do (or avoid)

Read the page id again.
`)
}

func gptmeFile(front, body string) string { return "---\n" + front + "---\n" + body }

// A problem names the file, the line and a remedy. All other files are loaded.
func TestUnusualFileLoadsOrReportsProblem(t *testing.T) {
	t.Parallel()
	const rule = "# Look\n\n## Rule\nLook twice.\n"
	for _, tc := range []struct{ name, text, fault string }{
		{"crlf.md", strings.ReplaceAll(lessonFile("crlf"), "\n", "\r\n"), ""},
		{"bom.md", "\ufeff" + lessonFile("bom"), ""},
		{"Name With Spaces.md", lessonFile("name-with-spaces"), ""},
		{"лекция.md", lessonFile("in-cyrillic"), ""},
		{"quoted.md", lessonFile("quoted", "Check the page before clicking", `"say: \"hi\" # loud"`), ""},
		{"tab-after-key.md", lessonFile("tab-after-key", "description: when", "description:\twhen"), ""},
		{"gptme.md", gptmeFile("match:\n  keywords: [look twice]\n  session_categories: [code]\nstatus: active\nlesson_version: 1.2\n", rule), ""},

		{"tab-indent.md", lessonFile("tab-indent", "  metadata:", "\tmetadata:"), "(line 7): the frontmatter is not valid YAML: a tab indents the line; indent with spaces"},
		{"colon.md", lessonFile("colon", "title: Check", "title: Check: the"), "(line 4): the frontmatter is not valid YAML: mapping value is not allowed in this context; correct it, and put text with punctuation into quotes"},
		{"bracket.md", lessonFile("bracket", "more]", "more"), "(line 10): the frontmatter is not valid YAML"},
		{"anchors.md", lessonFile("anchors", "[load more]", "&a [x y]", "outcome: success", "outcome: *a"), "(line 9): anchors, aliases, merge keys and explicit tags are not supported; write the value itself"},
		{"twice.md", lessonFile("twice", "outcome: success", "outcome: success\noutcome: failure"), `(line 11): the key "outcome" occurs twice; keep one`},
		{"merge.md", lessonFile("merge", "outcome: success", "outcome: success\n<<: {a: b}"), "(line 11): the key is not a plain word; write one"},
		{"deep.md", lessonFile("deep", "[load more]", strings.Repeat("[", 40)+strings.Repeat("]", 40)), "(line 9): values are nested more than 32 deep; flatten them"},
		{"brackets.md", lessonFile("brackets", "[load more]", strings.Repeat("[", 200)), "is nested too deeply; flatten it"},
		{"number.md", lessonFile("number", "slug: SLUG", "slug: 17"), "slug (line 3): is a number; write text, in quotes if it looks like something else"},
		{"list.md", lessonFile("list", "trigger:\n", "trigger: yes\nother:\n"), "trigger (line 5): is text; write a mapping"},
		{"confidence.md", lessonFile("confidence", "outcome:", "confidence: 1.5\noutcome:"), "confidence_out_of_range: confidence (line 10): 1.5 is not between 0 and 1"},
		{"day.md", lessonFile("day", "outcome:", "expires_at: 2030-01-01\noutcome:"), `expires_at (line 10): "2030-01-01" is not a date and time; write one such as`},
		{"unknown.md", lessonFile("unknown", "outcome:", "priority: 3\noutcome:"), "priority (line 10): is not a known key; remove it, or use one of schema, slug"},
		{"misspelt.md", lessonFile("misspelt", "outcome:", "confidense: 0.5\noutcome:"), "confidense (line 10): is not a known key; write confidence, or use one of schema, slug"},
		{"misplaced.md", lessonFile("misplaced", "trigger:\n", "trigger:\n  keywords: [load more]\n"), "trigger.keywords (line 6): is not a known key; move it to trigger.metadata.precept.keywords, or use one of description, tags"},
		{"latin.md", lessonFile("latin", "Read", "R\xe9ad"), "(line 18): the file is not valid UTF-8; save it as UTF-8"},
		{"long.md", lessonFile("long", "Check the page", strings.Repeat("x", 200)), "title (line 4): has 216 characters; write 1 to 200"},
		{"one-keyword.md", gptmeFile("match:\n  keywords: look twice\n", rule), "match.keywords (line 3): is text; write a list"},
		{"draft.md", gptmeFile("match:\n  keywords: [look twice]\nstatus: draft\n", rule), "status (line 4): is not a status; write active"},
		{"日本.md", gptmeFile("match:\n  keywords: [look twice]\n", rule), "cannot be used as a slug; name the file with 2 to"},
		{"g.md", gptmeFile("match:\n  keywords: [look twice]\n", rule), "cannot be used as a slug; name the file with 2 to"},

		{"SKILL.md", "---\nname: pdf\ndescription: Read PDF files.\nallowed-tools: Read\n---\n# PDF\n", "the file is not a lesson: it has neither the line schema: learning/v1 nor gptme's key match"},
		{"rule.md", "---\ndescription: Use pnpm\nglobs: \"*.ts\"\nalwaysApply: false\n---\n- Use pnpm.\n", "the file is not a lesson"},
		{"copilot-instructions.md", "---\napplyTo: \"**/*.py\"\n---\nUse black.\n", "the file is not a lesson"},
		{"one-glob.mdc.md", "---\ndescription: Use pnpm\nglobs: *.ts\n---\n- Use pnpm.\n", "the file is not a lesson"},
		{"late.md", "A word before.\n" + lessonFile("late"), "the file has no frontmatter"},
		{"globs.md", "---\ndescription: Use pnpm\nglobs: **/*.ts\n---\n- Use pnpm.\n", "(line 3): the frontmatter is not valid YAML"},
		{"AGENTS.md", "# AGENTS.md\n\n## Setup\n\n- `pnpm i`\n", "the file has no frontmatter; begin with a line ---, the fields, and another line --- (`precept lessons new` writes such a file); if the file is not a lesson, rename it to start with _"},
		{"few-fields.md", "---\ntitle: Read\ntrigger: read the log\n---\nRead.\n", "slug (line 2): is missing; write slug: pin-the-page"},
		{"text-trigger.md", "---\ntitle: Read\ntrigger: read the log\n---\nRead.\n", "write a mapping, such as trigger: {description: "},
		{"no-outcome.md", "---\ntitle: Read\n---\nRead.\n", "outcome (line 2): is missing; write outcome: success"},
		{"empty.md", "", "the file has no frontmatter"},
		{"blank.md", "  \n\n", "the file has no frontmatter"},
		{"open.md", "---\nschema: learning/v1\n", "(line 1): the frontmatter is not closed; add a line --- after the fields"},
		{"nothing.md", "---\n---\n", "the frontmatter is empty; write key: value lines"},
		{"binary.md", "\x89PNG\r\n\x1a\n\xff\xfe", "is not valid UTF-8; save it as UTF-8"},
		{"nul.md", lessonFile("nul", "Read", "Re\x00ad"), "(line 18): the file contains a NUL byte; remove it"},
		{"large.md", lessonFile("large") + strings.Repeat("x", lesson.MaxFileSize), "more than the 1048576 allowed; move the long part to a companion file"},
	} {
		dir := t.TempDir()
		writeFile(t, filepath.Join(dir, "good.md"), lessonFile("good"))
		writeFile(t, filepath.Join(dir, tc.name), tc.text)
		book, problems, err := lesson.Load(dir)
		if _, ok := book.Get("good"); err != nil || !ok {
			t.Errorf("%s: Load: err = %v, lessons = %v, want no error and the lesson \"good\"", tc.name, err, slugs(book))
		}
		report := ""
		for _, p := range problems {
			report += p.Error()
		}
		switch {
		case tc.fault == "" && (book.Len() != 2 || report != ""):
			t.Errorf("%s: %d lessons, problem %q, want 2 lessons and no problem", tc.name, book.Len(), report)
		case tc.fault != "" && (book.Len() != 1 || !strings.Contains(report, tc.fault) || !strings.HasPrefix(report, filepath.Join(dir, tc.name)) || strings.Contains(report, "stays in effect")):
			t.Errorf("%s: %d lessons, problem %q, want 1 lesson and the problem %q for this file", tc.name, book.Len(), report, tc.fault)
		}
	}
}

func writeFile(t testing.TB, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// The directory has link loops, dangling links, links to a parent directory, and a folder that is too deep.
func TestLessonsInUnusualFoldersLoadOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	in := func(names ...string) string { return filepath.Join(append([]string{dir}, names...)...) }
	writeFile(t, in("good.md"), lessonFile("good"))
	writeFile(t, in("sub", "below.md"), lessonFile("below"))
	writeFile(t, in("a.md", "inside.md"), lessonFile("inside"))
	writeFile(t, in("1", "2", "3", "4", "5", "6", "deep.md"), lessonFile("deep"))
	writeFile(t, in("1", "2", "3", "4", "5", "6", "7", "deeper.md"), lessonFile("deeper"))
	writeFile(t, in(".hidden", "x.md"), lessonFile("hidden"))
	for i := range 20 { // each link leads to a folder that contains all of the links
		makeSymlink(t, "..", in("sub", fmt.Sprintf("back-%d", i)))
	}
	makeSymlink(t, dir, in("all"))
	makeSymlink(t, "nowhere.md", in("dangling.md"))
	makeSymlink(t, "self", in("self"))
	book, problems, err := lesson.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	var slugs, report []string
	for _, l := range book.Lessons() {
		slugs = append(slugs, l.Slug)
	}
	for _, p := range problems {
		report = append(report, p.Error())
	}
	if got := strings.Join(slugs, " "); got != "below deep good inside" {
		t.Errorf("lessons = %s, want \"below deep good inside\"", got)
	}
	if len(report) != 2 || !strings.Contains(report[0], "7: internal: is nested more than 6 folders deep; move the folder's lessons up") || !strings.Contains(report[1], "cannot be read; repair or remove the file") {
		t.Errorf("problems = %q, want a folder that is too deep and a file that cannot be read", report)
	}
	if strings.Contains(strings.Join(report, ""), "stays in effect") {
		t.Errorf("problems = %q, want none that mentions a previous version", report)
	}
}

// makeSymlink skips the test if the system has no symbolic links.
func makeSymlink(t *testing.T, to, path string) {
	t.Helper()
	if err := os.Symlink(to, path); err != nil {
		t.Skip(err)
	}
}
