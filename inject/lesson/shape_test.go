//go:build !race

package lesson_test

import (
	"testing"

	"precept/inject/bank/banktest"
	"precept/inject/lesson"
)

// The scan skips a pattern if the text has none of the pattern's words. Therefore each text that matches a pattern must
// contain one of the pattern's words.
func TestScanTriesEveryMatchingPattern(t *testing.T) {
	attacks := banktest.Hostile()
	if len(attacks) < 500 {
		t.Fatalf("len(Hostile()) = %d, want at least 500", len(attacks))
	}
	for _, a := range attacks {
		if p := lesson.SkippedPatterns(string(a.Text)); len(p) > 0 {
			t.Errorf("%s: patterns %q match, but the scan skips them, because the text has none of their words", a.Name, p)
		}
	}
}
