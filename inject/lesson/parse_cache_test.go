package lesson_test

import (
	"testing"

	"precept/inject/lesson"
)

// If a text becomes invalid, each reader keeps the last valid version that this reader has loaded.
func TestTextsShareParsedLessons(t *testing.T) {
	t.Parallel()
	const name = "retry.md"
	valid := []byte(titledLesson("retry", "Retry once"))
	changed := []byte(titledLesson("retry", "Retry twice"))
	parsed := lesson.NewParseCache()
	first, second := lesson.NewTexts("bank").ShareCache(parsed), lesson.NewTexts("bank").ShareCache(parsed)
	get := func(texts *lesson.Texts, text []byte) *lesson.Lesson {
		t.Helper()
		book, _, _ := texts.Load(map[string][]byte{name: text})
		l, ok := book.Get("retry")
		if !ok {
			t.Fatalf("Load(%q): the lesson \"retry\" is missing", text)
		}
		return l
	}
	if get(first, valid) != get(second, valid) {
		t.Error("second reader parsed an equal text again, want the first reader's lesson")
	}
	if l := get(first, changed); l.Title != "Retry twice" {
		t.Errorf("first reader, changed text: title = %q, want \"Retry twice\"", l.Title)
	}
	if l := get(second, valid); l.Title != "Retry once" {
		t.Errorf("second reader, old text: title = %q, want \"Retry once\"", l.Title)
	}
	fault := []byte("---\ntitle: [\n---\n")
	if l := get(first, fault); l.Title != "Retry twice" {
		t.Errorf("first reader, invalid text: title = %q, want the last valid version, \"Retry twice\"", l.Title)
	}
	if l := get(second, fault); l.Title != "Retry once" {
		t.Errorf("second reader, invalid text: title = %q, want the last valid version, \"Retry once\"", l.Title)
	}
}
