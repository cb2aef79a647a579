package detect

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestSpeech: the triples rule out nothing that a search of the text finds, and let nothing in.
func TestSpeech(t *testing.T) {
	words := []string{"it", "it's", "works", "doesn't", "wrong", "ty", "k", "но", "да", "不对", "que", "\xff", "", "still", "fails"}
	rapid.Check(t, func(t *rapid.T) {
		list := rapid.SliceOfN(rapid.OneOf(rapid.SampledFrom(words), rapid.String()), 0, 40)
		text := strings.Join(list.Draw(t, "text"), rapid.SampledFrom([]string{" ", ""}).Draw(t, "between"))
		p := strings.Join(rapid.SliceOfN(rapid.SampledFrom(words), 1, 3).Draw(t, "phrase"), " ")
		if len(text) > 0 && rapid.Bool().Draw(t, "of the text") {
			from := rapid.IntRange(0, len(text)-1).Draw(t, "from")
			p = text[from:min(len(text), from+rapid.IntRange(1, 12).Draw(t, "length"))]
		}
		if p == "" { // no wording is empty
			p = "it"
		}
		s := listen(text)
		if got := s.phrase("not in any text", p); got != phrase(text, p) {
			t.Errorf("phrase(%q) in %q: %v", p, text, got)
		}
		if got, want := s.hasWord("not in any text", p), strings.Contains(text, p); got != want {
			t.Errorf("hasWord(%q) in %q: %v, want %v", p, text, got, want)
		}
	})
}

func TestSpeechRulesOut(t *testing.T) {
	s := listen("please open the file and read what stands in it")
	for _, p := range []string{"doesn't work", "looks good", "instead", "谢谢"} {
		if s.mayHold(p) {
			t.Errorf("%q was not ruled out", p)
		}
	}
}
