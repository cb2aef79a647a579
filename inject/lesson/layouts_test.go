package lesson_test

import (
	"strings"
	"testing"
	"time"

	"precept/inject/lesson"
)

// An edit changes only the lines of the edited field, in many layouts of the frontmatter. Other lines, comments and the
// order stay the same.
func TestEditTouchesOnlyItsFieldInAnyLayout(t *testing.T) {
	const state = "\nmetadata:\n  precept:\n    state: quarantined\n    source: import\n"
	quarantine := func(l *lesson.Lesson) { l.State = lesson.Quarantined }
	for _, c := range []struct {
		name, from, to string // lines of the frontmatter, before and after the edit
		change         func(*lesson.Lesson)
	}{
		{"an added field", "outcome: success", "outcome: success", func(l *lesson.Lesson) { l.Trigger.Tools = []string{"browser"} }},
		{"a value", "title: Check the page before clicking", "title: Look twice", func(l *lesson.Lesson) { l.Title = "Look twice" }},
		{"a value before a comment", "outcome: success # for now", "outcome: failure # for now", func(l *lesson.Lesson) { l.Outcome = "failure" }},
		{"a list in brackets", "      keywords: [load more]", "      keywords: [load more, show all]", func(l *lesson.Lesson) { l.Trigger.Keywords = append(l.Trigger.Keywords, "show all") }},
		{"a list of lines that grows", "  - kind: run\n    ref: r1", "  - kind: run\n    ref: r1\n  - kind: run\n    ref: r2", func(l *lesson.Lesson) {
			l.Evidence = append(l.Evidence, lesson.Evidence{Kind: "run", Ref: "r2"})
		}},
		{"a list of lines that grows beside a comment", "  - kind: run # the first\n    ref: r1", "  - kind: run # the first\n    ref: r1\n  - kind: run\n    ref: r2", func(l *lesson.Lesson) {
			l.Evidence = append(l.Evidence, lesson.Evidence{Kind: "run", Ref: "r2"})
		}},
		{"a list of lines that changes", "  - kind: run # the first\n    ref: r1", "  - kind: run\n    ref: r9", func(l *lesson.Lesson) { l.Evidence[0].Ref = "r9" }},
		{"the last key of a mapping", "outcome: success" + state, "outcome: success\nmetadata:\n  precept:\n    state: quarantined\n", func(l *lesson.Lesson) { l.Approval.Source = "" }},
		{"a mapping that would be left empty", "outcome: success\nmetadata:\n  precept:\n    created_at: 2030-01-01T00:00:00Z", "outcome: success", func(l *lesson.Lesson) { l.CreatedAt = time.Time{} }},
		{"beside the key of another program", "outcome: success\nmetadata:\n  team: red\n  precept:\n    created_at: 2030-01-01T00:00:00Z", "outcome: success\nmetadata:\n  team: red", func(l *lesson.Lesson) { l.CreatedAt = time.Time{} }},
		{"a mapping in braces", "outcome: success\nmetadata: {team: red, precept: {created_at: 2030-01-01T00:00:00Z}}", "outcome: success\nmetadata:\n  team: red", func(l *lesson.Lesson) { l.CreatedAt = time.Time{} }},
		{"a comment in front of the next key", "outcome: success\n# what it rests on\nevidence:", "outcome: failure\n# what it rests on\nevidence:", func(l *lesson.Lesson) { l.Outcome = "failure" }},
		{"no change", "outcome: success # for now", "outcome: success # for now", func(*lesson.Lesson) {}},
	} {
		for _, eol := range []string{"\n", "\r\n"} {
			file := strings.ReplaceAll(lessonFile("the-edited", replacementFor(c.from)...), "\n", eol)
			l, err := lesson.Parse("the-edited.md", []byte(file))
			if err != nil {
				t.Fatalf("%s: Parse: got error %v, want none", c.name, err)
			}
			got, err := lesson.Edit(l, c.change)
			if err != nil {
				t.Errorf("%s: Edit: got error %v, want none", c.name, err)
				continue
			}
			want := strings.ReplaceAll(lessonFile("the-edited", replacementFor(c.to)...), "\n", eol)
			if c.name == "an added field" {
				want = strings.Replace(want, "[load more]"+eol, "[load more]"+eol+"      tools: [browser]"+eol, 1)
			}
			if string(got.Raw) != want {
				t.Errorf("%s: the edited file is\n%s\nwant\n%s", c.name, got.Raw, want)
			}
			if again, err := lesson.Edit(got, quarantine); err != nil || again.State != lesson.Quarantined {
				t.Errorf("%s: a second edit gives lesson %v, error %v, want state %s", c.name, again, err, lesson.Quarantined)
			}
		}
	}
}

// replacementFor returns arguments for written that replace the lines with the same key by the given lines.
func replacementFor(lines string) []string {
	first, _, _ := strings.Cut(strings.TrimSpace(lines), " ")
	for _, original := range []string{"outcome: success\nevidence:", "outcome: success", "title: Check the page before clicking", "      keywords: [load more]", "  - kind: run\n    ref: r1"} {
		if key, _, _ := strings.Cut(strings.TrimSpace(original), " "); key == first && strings.HasSuffix(lines, "evidence:") == strings.HasSuffix(original, "evidence:") {
			return []string{original, strings.TrimSuffix(lines, "\n")}
		}
	}
	return nil
}

// A file may have keys in quotes. An edit finds these keys and keeps the quotes.
func TestEditsFindQuotedKeys(t *testing.T) {
	for _, quote := range []string{`"`, "'"} {
		key := quote + "outcome" + quote
		l, err := lesson.Parse("the-edited.md", []byte(lessonFile("the-edited", "outcome:", key+":")))
		if err != nil {
			t.Fatal(err)
		}
		got, err := lesson.Edit(l, func(l *lesson.Lesson) { l.Title, l.Confidence = "Look twice", 0.25 })
		want := lessonFile("the-edited", "outcome:", key+":", "Check the page before clicking", "Look twice", "---\n\n", "confidence: 0.25\n---\n\n")
		if err != nil || string(got.Raw) != want {
			t.Errorf("key %s: the edit gives %+v, error %v, want the file\n%s", key, got, err, want)
		}
	}
}
