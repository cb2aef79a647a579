package lesson_test

import (
	"testing"

	"precept/inject/bank/banktest"
	"precept/inject/lesson"
)

// The scan runs a pattern of orders.txt only if a text has one of the words of the pattern's section. So each text that
// a pattern matches must have one of these words.
func TestEveryPatternMatchHoldsOneOfItsWords(t *testing.T) {
	attacks := banktest.Hostile()
	if len(attacks) < 500 {
		t.Fatalf("Hostile returns %d lessons, want at least 500", len(attacks))
	}
	for _, a := range attacks {
		if p := lesson.Overlooked(string(a.Text)); len(p) > 0 {
			t.Errorf("%s: patterns %q match, but none of their words occurs, want no such pattern", a.Name, p)
		}
	}
}
