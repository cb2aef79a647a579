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

// hasDelimiter reports whether a text contains a block delimiter, or a text that looks like one.
func hasDelimiter(s string) bool {
	k := confusableSkeleton(s)
	return slices.ContainsFunc(delimiters(), func(d string) bool { return strings.Contains(k, d) })
}

// delimiters returns skeletons of the lines around blocks. Some of them include a bracket, because the words alone are
// common.
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

// confusableSkeleton returns the lower-case Latin letters that a text looks like. It drops all other characters except
// an opening bracket and the slash after it.
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

// Skeleton returns the letters that a text looks like. Two texts that look alike have equal skeletons. A skeleton must
// be compared only with another skeleton.
func Skeleton(s string) string { return confusableSkeleton(keepVisible(stripANSI(s))) }

// NormalizeLookalikes returns a text as a reader sees it: in lower case, without hidden characters and accents, and
// with Latin letters in place of letters that look like them. Line feeds, digits and punctuation stay.
func NormalizeLookalikes(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r < utf8.RuneSelf:
			return unicode.ToLower(r)
		case unicode.Is(unicode.Mn, r) && r < 0x0900: // later marks are letters
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

// lookalikes maps each rune in a lookalikes.txt row to the row's first rune.
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
		if letter, size := utf8.DecodeRuneInString(first); size == len(first) { // the line is not a comment or heading
			for _, r := range others {
				target[r] = letter
			}
		}
	}
	return all
})

// lookalike looks up the rune first and then its folded form, because a capital and its small letter can look like
// different letters.
func lookalike(r rune) rune {
	letters, folded := lookalikes().letters, fold(r)
	return cmp.Or(letters[r], letters[folded], folded)
}
