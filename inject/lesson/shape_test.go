package lesson_test

import (
	"testing"

	"precept/inject/bank/banktest"
	"precept/inject/lesson"
)

// Each match of a pattern contains one of its words. Without a word the pattern would not run.
func TestEveryPatternMatchHoldsOneOfItsWords(t *testing.T) {
	attacks := banktest.Hostile()
	if len(attacks) < 500 {
		t.Fatalf("got %d, want >= 500", len(attacks))
	}
	for _, a := range attacks {
		if p := lesson.Overlooked(string(a.Text)); len(p) > 0 {
			t.Errorf("%s: got %q, want an empty result", a.Name, p)
		}
	}
}
