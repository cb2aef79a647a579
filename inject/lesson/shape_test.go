package lesson_test

import (
	"testing"

	"precept/inject/bank/banktest"
	"precept/inject/lesson"
)

// The scan runs a pattern of orders.txt only if the text has one of the words of the pattern's section. So every text
// that a pattern matches must have one of these words.
func TestScanSkipsNoMatchingPattern(t *testing.T) {
	attacks := banktest.Hostile()
	if len(attacks) < 500 {
		t.Fatalf("len(Hostile()) = %d, want at least 500", len(attacks))
	}
	for _, a := range attacks {
		if p := lesson.Overlooked(string(a.Text)); len(p) > 0 {
			t.Errorf("%s: patterns %q match, but the scan skips them because none of their words occurs", a.Name, p)
		}
	}
}
