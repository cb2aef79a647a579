package lesson

import (
	"cmp"
	_ "embed"
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// hasDelimiter reports whether a text contains a delimiter of inserted blocks, or a text that looks like a delimiter.
func hasDelimiter(s string) bool {
	k := confusableSkeleton(s)
	return slices.ContainsFunc(delimiters(), func(d string) bool { return strings.Contains(k, d) })
}

// delimiters returns the skeletons of the lines that begin and end blocks. Some delimiters include a bracket, because
// their words alone are common.
//
//nolint:gochecknoglobals // immutable, made at first use
var delimiters = sync.OnceValue(func() []string {
	plain := []string{
		"End of lessons", "Lessons from past experience", "Advice from earlier runs", "Cautions (these approaches",
		"[KNOWN PITFALLS", "[END KNOWN PITFALLS", "[LOOP DETECTED", "[END LOOP DETECTED", "[END LESSON", "[/lesson",
	}
	for i, p := range plain {
		plain[i] = confusableSkeleton(p)
	}
	return plain
})

// confusableSkeleton returns the letters that a text looks like. Letters that differ only in case, accents or
// compatibility form become equal. Letters of other scripts and digits become the Latin letters that they look like.
// All other characters are dropped, except an opening bracket and a slash directly after the bracket. Compare a
// skeleton only with a skeleton.
func confusableSkeleton(s string) string {
	b := make([]byte, 0, len(s))
	for _, r := range norm.NFKD.String(s) {
		switch r = lookalike(r); {
		case r == '[', r == '/' && len(b) > 0 && b[len(b)-1] == '[', unicode.IsLetter(r):
			b = utf8.AppendRune(b, r)
		}
	}
	return string(b)
}

// Skeleton returns the letters that a text looks like, without hidden characters and escape sequences. Two texts
// that look alike to a reader have equal skeletons. Compare a skeleton only with a skeleton.
func Skeleton(s string) string { return confusableSkeleton(keepVisible(stripANSI(s))) }

// NormalizeLookalikes returns a text in lower case as a reader sees it. Hidden characters, escape sequences and accents
// are removed. Compatibility forms and look-alike letters of other scripts become Latin letters. Line feeds, digits and
// punctuation stay.
func NormalizeLookalikes(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r < utf8.RuneSelf:
			return unicode.ToLower(r)
		case unicode.Is(unicode.Mn, r) && r < 0x0900: // marks above this rune are separate letters
			return -1
		case r == '。' || r == '․' || r == '·':
			return '.'
		case r == '∕' || r == '⁄':
			return '/'
		}
		return cmp.Or(lookalikes().letters[r], fold(r))
	}, norm.NFKD.String(keepVisible(stripANSI(s))))
}

//go:embed lookalikes.txt
var lookalikesText string

// lookalikes returns lookalikes.txt as maps from each rune of a row to the first rune of the row.
//
//nolint:gochecknoglobals // immutable, made at first use
var lookalikes = sync.OnceValue(func() (all struct{ letters, signs map[rune]rune }) {
	all.letters, all.signs = map[rune]rune{}, map[rune]rune{}
	target := all.letters
	for row := range strings.Lines(lookalikesText) {
		first, others, _ := strings.Cut(strings.TrimSpace(row), " ")
		if first == "[signs]" {
			target = all.signs
		}
		if letter, size := utf8.DecodeRuneInString(first); size == len(first) { // neither a comment nor a heading
			for _, r := range others {
				target[r] = letter
			}
		}
	}
	return all
})

// lookalike returns the lower-case Latin letter that a rune looks like. The rune itself is looked up before its folded
// form, because a capital may look like a different letter from its small form.
func lookalike(r rune) rune {
	letters, folded := lookalikes().letters, fold(r)
	return cmp.Or(letters[r], letters[folded], folded)
}
