package lesson

import (
	"unicode"
	"unicode/utf8"
)

// fold returns the representative of a rune's simple case folding orbit (ß and ẞ, σ ς Σ, k and the
// Kelvin sign). The Turkish dotted and dotless i have no simple folding and become i, so that a
// word from a Turkish keyboard matches its upper-case form.
func fold(r rune) rune {
	if r < utf8.RuneSelf {
		return rune(lowerASCII(byte(r))) //nolint:gosec // an ASCII code
	}
	if r == 'İ' || r == 'ı' {
		return 'i'
	}
	least := r
	for o := unicode.SimpleFold(r); o != r; o = unicode.SimpleFold(o) {
		least = min(least, o)
	}
	return unicode.ToLower(least)
}

func lowerASCII(c byte) byte {
	if c >= 'A' && c <= 'Z' {
		c += 'a' - 'A'
	}
	return c
}

// appendFolded appends a rune in the form for comparison: case folded, white space as a single
// blank and none at the start, invisible runes dropped.
func appendFolded(text []byte, r rune) []byte {
	const dotAbove = 0x0307
	last := byte(' ')
	if n := len(text); n > 0 {
		last = text[n-1]
	}
	switch {
	case unicode.IsSpace(r):
		if last != ' ' {
			text = append(text, ' ')
		}
	case r < utf8.RuneSelf:
		text = append(text, lowerASCII(byte(r)))
	case invisible(r), r == dotAbove && last == 'i': // the lower case of İ is i with a combining dot
	default:
		text = utf8.AppendRune(text, fold(r))
	}
	return text
}

// runeKind is the role of a rune in words.
type runeKind uint8

const (
	signKind runeKind = iota // neither letter nor digit
	wordKind                 // letter, digit, mark or underscore: part of a word
	loneKind                 // letter of a script without spaces: a word by itself
)

// firstLone is the start of the scripts without spaces.
const firstLone = 0x0E00

func kindOf(r rune) runeKind {
	switch {
	case r == '_' || unicode.IsDigit(r):
		return wordKind
	case r >= firstLone && unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar):
		return loneKind
	case unicode.IsLetter(r) || unicode.IsNumber(r) || unicode.IsMark(r):
		return wordKind
	default:
		return signKind
	}
}

// around gives the kinds of the runes before and behind a place of a folded text.
func around(text []byte, from, to int) (before, behind runeKind) {
	last, _ := utf8.DecodeLastRune(text[:from])
	next, _ := utf8.DecodeRune(text[to:])
	return kindOf(last), kindOf(next)
}

// boundary says whether a word may end or start at a place of a folded text.
func boundary(text []byte, at int) bool {
	before, behind := around(text, at, at)
	return before != wordKind || behind != wordKind
}

// invisible reports whether a rune is not drawn, so that a word with the rune looks like the word
// without it.
func invisible(r rune) bool {
	switch {
	case r == 0x00AD, r == 0x034F, r == 0x061C, r == 0x115F, r == 0x1160, r == 0x17B4, r == 0x17B5, r == 0x3164, r == 0xFEFF, r == 0xFFA0:
		return true
	case r >= 0x180B && r <= 0x180F, r >= 0x200B && r <= 0x200F, r >= 0x202A && r <= 0x202E, r >= 0x2060 && r <= 0x206F:
		return true
	case r >= 0xFE00 && r <= 0xFE0F, r >= 0xE0000 && r <= 0xE0FFF, r >= 0xFFF9 && r <= 0xFFFB, r >= 0x1D173 && r <= 0x1D17A:
		return true
	default:
		return false
	}
}
