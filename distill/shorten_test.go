package distill

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// Each é is two bytes long, so the limit of 100 bytes can fall inside a letter. shorten must not cut a letter into two.
func TestShortenedTextsKeepWholeLetters(t *testing.T) {
	for prefixLen := range 2 {
		text := strings.Repeat("a", prefixLen) + strings.Repeat("é", 200)
		if got := shorten(text, 100); !utf8.ValidString(got) || len(got) < 99 || len(got) > 100 {
			t.Errorf("shorten(%d letters a and 200 é, 100) = %q, want 99 or 100 bytes in whole letters", prefixLen, got)
		}
	}
}
