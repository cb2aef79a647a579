package lesson

import (
	"cmp"
	_ "embed"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// hasDelimiter says whether a text holds one of the delimiters of inserted blocks, in whatever
// disguise.
func hasDelimiter(s string) bool {
	k := skeleton(s)
	for _, d := range delimiters() {
		if strings.Contains(k, d) {
			return true
		}
	}
	return false
}

// delimiters are the skeletons of the lines that open and close blocks. Those in brackets keep the
// bracket, for without it they are words that anyone may write.
//
//nolint:gochecknoglobals // immutable, made at first use
var delimiters = sync.OnceValue(func() []string {
	plain := []string{
		"End of lessons", "Lessons from past experience", "Advice from earlier runs", "Cautions (these approaches",
		"[KNOWN PITFALLS", "[END KNOWN PITFALLS", "[LOOP DETECTED", "[END LOOP DETECTED", "[END LESSON", "[/lesson",
	}
	for i, p := range plain {
		plain[i] = skeleton(p)
	}
	return plain
})

// skeleton reduces a text to the letters that it looks like: compatibility forms, accents, case,
// look-alikes of other scripts and digits in place of letters are folded; everything that is no
// letter goes, except an opening bracket and the slash behind it. It is for comparing with other
// skeletons only.
func skeleton(s string) string {
	b := make([]byte, 0, len(s))
	for _, r := range norm.NFKD.String(s) {
		switch r = lookalike(r); {
		case r == '[', r == '/' && len(b) > 0 && b[len(b)-1] == '[', unicode.IsLetter(r):
			b = utf8.AppendRune(b, r)
		}
	}
	return string(b)
}

//go:embed lookalikes.txt
var lookalikesText string

// lookalikes are the rows of lookalikes.txt, by what they are compared for: the first rune of a row
// by each of the others. i and l, which no font keeps apart for certain, are one.
//
//nolint:gochecknoglobals // immutable, made at first use
var lookalikes = sync.OnceValue(func() (all struct{ letters, signs map[rune]rune }) {
	all.letters, all.signs = map[rune]rune{}, map[rune]rune{}
	open := all.letters
	for row := range strings.Lines(lookalikesText) {
		first, others, _ := strings.Cut(strings.TrimSpace(row), " ")
		if first == "[signs]" {
			open = all.signs
		}
		if like, size := utf8.DecodeRuneInString(first); size == len(first) { // no comment, and no heading
			for _, r := range others {
				open[r] = like
			}
		}
	}
	return all
})

// lookalike maps a rune to the Latin letter that it is drawn like, in lower case: a capital of
// another script may be drawn like another letter than its small form.
func lookalike(r rune) rune {
	letters, folded := lookalikes().letters, fold(r)
	return cmp.Or(letters[r], letters[folded], folded)
}
