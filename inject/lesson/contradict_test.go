package lesson

import (
	"fmt"
	"testing"
)

// Asking each lesson of a book for its contradictions looks at the book once, not once a lesson.
func TestContradictionsAreIndexedOnce(t *testing.T) {
	var list []*Lesson
	for i := range 50 {
		list = append(list, &Lesson{Slug: fmt.Sprintf("l%02d", i), State: Active, Outcome: "success", Trigger: Trigger{Keywords: []string{fmt.Sprintf("number %d", i)}}})
	}
	list = append(list, &Lesson{Slug: "other", State: Active, Outcome: "failure", Trigger: Trigger{Keywords: []string{"number 7"}}})
	b := NewBook(list)
	if got := b.Contradicts(list[7]); len(got) != 1 || got[0].Slug != "other" {
		t.Fatalf("%v", got)
	}
	if n := testing.AllocsPerRun(20, func() { b.Contradicts(list[3]) }); n > 20 {
		t.Errorf("%.0f allocations for one lesson of 51", n)
	}
}
