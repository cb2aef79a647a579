package lesson_test

import (
	"testing"

	"precept/inject/lesson"
)

// Two readers of a bank share the parsed lesson of an equal text. For a text with a fault each reader keeps its own
// last valid version.
func TestReadersOfABankShareParsedTexts(t *testing.T) {
	t.Parallel()
	const name = "retry.md"
	valid := []byte(titledLesson("retry", "Retry once"))
	changed := []byte(titledLesson("retry", "Retry twice"))
	parsed := lesson.NewParsed()
	first, second := lesson.NewTexts("bank").Share(parsed), lesson.NewTexts("bank").Share(parsed)
	get := func(texts *lesson.Texts, text []byte) *lesson.Lesson {
		t.Helper()
		book, _, _ := texts.Load(map[string][]byte{name: text})
		l, ok := book.Get("retry")
		if !ok {
			t.Fatalf("no lesson in %q, want the lesson retry", text)
		}
		return l
	}
	if get(first, valid) != get(second, valid) {
		t.Error("the second reader parsed an equal text, want the lesson of the first reader")
	}
	if l := get(first, changed); l.Title != "Retry twice" {
		t.Errorf("the first reader has title %q after a change of the text, want \"Retry twice\"", l.Title)
	}
	if l := get(second, valid); l.Title != "Retry once" {
		t.Errorf("the second reader has title %q after the change of the first, want its own text", l.Title)
	}
	fault := []byte("---\ntitle: [\n---\n")
	if l := get(first, fault); l.Title != "Retry twice" {
		t.Errorf("the first reader has title %q for a text with a fault, want its last valid version", l.Title)
	}
	if l := get(second, fault); l.Title != "Retry once" {
		t.Errorf("the second reader has title %q for a text with a fault, want its last valid version", l.Title)
	}
}
