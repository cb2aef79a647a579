package lesson_test

import (
	"strings"
	"testing"
	"time"

	"precept/inject/lesson"
)

func TestEditChangesOneFieldInAnyLayout(t *testing.T) {
	const state = "\nmetadata:\n  precept:\n    state: quarantined\n    source: import\n"
	quarantine := func(l *lesson.Lesson) { l.State = lesson.Quarantined }
	for _, tc := range []struct {
		name, from, to string // text before and after the edit
		change         func(*lesson.Lesson)
	}{
		{"added field", "outcome: success", "outcome: success", func(l *lesson.Lesson) { l.Trigger.Tools = []string{"browser"} }},
		{"value", "title: Check the page before clicking", "title: Look twice", func(l *lesson.Lesson) { l.Title = "Look twice" }},
		{"value before a comment", "outcome: success # for now", "outcome: failure # for now", func(l *lesson.Lesson) { l.Outcome = "failure" }},
		{"list in brackets", "      keywords: [load more]", "      keywords: [load more, show all]", func(l *lesson.Lesson) { l.Trigger.Keywords = append(l.Trigger.Keywords, "show all") }},
		{"item added to a block list", "  - kind: run\n    ref: r1", "  - kind: run\n    ref: r1\n  - kind: run\n    ref: r2", func(l *lesson.Lesson) {
			l.Evidence = append(l.Evidence, lesson.Evidence{Kind: "run", Ref: "r2"})
		}},
		{"item added to a block list with a comment", "  - kind: run # the first\n    ref: r1", "  - kind: run # the first\n    ref: r1\n  - kind: run\n    ref: r2", func(l *lesson.Lesson) {
			l.Evidence = append(l.Evidence, lesson.Evidence{Kind: "run", Ref: "r2"})
		}},
		{"changed item in a block list", "  - kind: run # the first\n    ref: r1", "  - kind: run\n    ref: r9", func(l *lesson.Lesson) { l.Evidence[0].Ref = "r9" }},
		{"removed last key in a mapping", "outcome: success" + state, "outcome: success\nmetadata:\n  precept:\n    state: quarantined\n", func(l *lesson.Lesson) { l.Approval.Source = "" }},
		{"removed only key in a mapping", "outcome: success\nmetadata:\n  precept:\n    created_at: 2030-01-01T00:00:00Z", "outcome: success", func(l *lesson.Lesson) { l.CreatedAt = time.Time{} }},
		{"removed key beside another program's key", "outcome: success\nmetadata:\n  team: red\n  precept:\n    created_at: 2030-01-01T00:00:00Z", "outcome: success\nmetadata:\n  team: red", func(l *lesson.Lesson) { l.CreatedAt = time.Time{} }},
		{"removed key in a mapping in braces", "outcome: success\nmetadata: {team: red, precept: {created_at: 2030-01-01T00:00:00Z}}", "outcome: success\nmetadata:\n  team: red", func(l *lesson.Lesson) { l.CreatedAt = time.Time{} }},
		{"comment before the next key", "outcome: success\n# what it rests on\nevidence:", "outcome: failure\n# what it rests on\nevidence:", func(l *lesson.Lesson) { l.Outcome = "failure" }},
		{"no change", "outcome: success # for now", "outcome: success # for now", func(*lesson.Lesson) {}},
	} {
		for _, eol := range []string{"\n", "\r\n"} {
			file := strings.ReplaceAll(lessonFile("the-edited", replacementFor(tc.from)...), "\n", eol)
			l, err := lesson.Parse("the-edited.md", []byte(file))
			if err != nil {
				t.Fatalf("%s: Parse: %v", tc.name, err)
			}
			got, err := lesson.Edit(l, tc.change)
			if err != nil {
				t.Errorf("%s: Edit: %v", tc.name, err)
				continue
			}
			want := strings.ReplaceAll(lessonFile("the-edited", replacementFor(tc.to)...), "\n", eol)
			if tc.name == "added field" {
				want = strings.Replace(want, "[load more]"+eol, "[load more]"+eol+"      tools: [browser]"+eol, 1)
			}
			if string(got.Raw) != want {
				t.Errorf("%s: edited file =\n%s\nwant\n%s", tc.name, got.Raw, want)
			}
			if again, err := lesson.Edit(got, quarantine); err != nil || again.State != lesson.Quarantined {
				t.Errorf("%s: second edit = %v, %v, want state %s", tc.name, again, err, lesson.Quarantined)
			}
		}
	}
}

// replacementFor returns a pair for the argument replaced of lessonFile: the lines of the lesson file that have the
// same keys as the given lines, and the given lines.
func replacementFor(lines string) []string {
	first, _, _ := strings.Cut(strings.TrimSpace(lines), " ")
	for _, original := range []string{"outcome: success\nevidence:", "outcome: success", "title: Check the page before clicking", "      keywords: [load more]", "  - kind: run\n    ref: r1"} {
		if key, _, _ := strings.Cut(strings.TrimSpace(original), " "); key == first && strings.HasSuffix(lines, "evidence:") == strings.HasSuffix(original, "evidence:") {
			return []string{original, strings.TrimSuffix(lines, "\n")}
		}
	}
	return nil
}

func TestEditFindsQuotedKeys(t *testing.T) {
	for _, quote := range []string{`"`, "'"} {
		key := quote + "outcome" + quote
		l, err := lesson.Parse("the-edited.md", []byte(lessonFile("the-edited", "outcome:", key+":")))
		if err != nil {
			t.Fatal(err)
		}
		got, err := lesson.Edit(l, func(l *lesson.Lesson) { l.Title, l.Confidence = "Look twice", 0.25 })
		want := lessonFile("the-edited", "outcome:", key+":", "Check the page before clicking", "Look twice", "---\n\n", "confidence: 0.25\n---\n\n")
		if err != nil || string(got.Raw) != want {
			t.Errorf("key %s: Edit = %+v, %v, want the file\n%s", key, got, err, want)
		}
	}
}
