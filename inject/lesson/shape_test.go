package lesson_test

import (
	"testing"

	"precept/inject/bank/banktest"
	"precept/inject/lesson"
)

// Each match of a pattern of orders.txt contains one of the words of its section: a text without them is not searched.
func TestEveryPatternMatchHoldsOneOfItsWords(t *testing.T) {
	attacks := banktest.Hostile()
	if len(attacks) < 500 {
		t.Fatalf("Hostile returns %d lessons, want at least 500", len(attacks))
	}
	for _, a := range attacks {
		if p := lesson.Overlooked(string(a.Text)); len(p) > 0 {
			t.Errorf("%s: the patterns %q match without their words, want no such pattern", a.Name, p)
		}
	}
}
