package lesson

import (
	"bytes"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// fold maps equivalent runes to one rune. The cases of a letter (σ, ς and Σ) are equivalent, as are the Turkish dotless
// and dotted i, the variants of an Arabic letter, and the forms of a digit in different scripts.
func fold(r rune) rune {
	if r < utf8.RuneSelf {
		return rune(lowerASCII(byte(r))) //nolint:gosec // r is ASCII
	}
	if r == 'İ' || r == 'ı' {
		return 'i'
	}
	switch r {
	case 'أ', 'إ', 'آ', 'ٱ': // the marks on an alif are often left out
		return 'ا'
	case 'ى', 'ی': // Arabic ya without dots, and Persian ya
		return 'ي'
	case 'ک': // Persian
		return 'ك'
	}
	if unicode.IsDigit(r) {
		return asciiDigit(r)
	}
	smallest := r
	for o := unicode.SimpleFold(r); o != r; o = unicode.SimpleFold(o) {
		smallest = min(smallest, o)
	}
	return unicode.ToLower(smallest)
}

// asciiDigit returns the ASCII digit for a digit in any script. In Unicode, a script's ten digits are consecutive.
func asciiDigit(r rune) rune {
	for _, t := range unicode.Nd.R16 {
		if lo, hi := rune(t.Lo), rune(t.Hi); lo <= r && r <= hi {
			return '0' + (r-lo)%10
		}
	}
	return r
}

// asciiPunctuation returns the ASCII form for typographic quotes and hyphens, or r.
func asciiPunctuation(r rune) rune {
	switch r {
	case '‘', '’', '‚', '‛', '′', '‵', '‹', '›', 'ʹ', 'ʻ', 'ʼ', '׳', '՚':
		return '\''
	case '“', '”', '„', '‟', '″', '‶', '«', '»', '〝', '〞', '〟', '״':
		return '"'
	case '‐', '‑', '‒', '–', '—', '―', '−', '⁃', '־', '֊':
		return '-'
	case '〜':
		return '~'
	case '⁄', '∕':
		return '/'
	default:
		return r
	}
}

// toNFKC returns the Unicode form NFKC, in which compatible characters are equal. Examples are full-width letters,
// ligatures, half-width kana, and letters with a separate accent.
func toNFKC(s string) string {
	if isASCII(s) {
		return s
	}
	return norm.NFKC.String(strings.NewReplacer("´", "'", "″", `"`).Replace(s)) // NFKC would replace each of these two by two runes
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

func lowerASCII(c byte) byte {
	if c >= 'A' && c <= 'Z' {
		c += 'a' - 'A'
	}
	return c
}

// appendFolded appends a rune in folded form. Phrases and texts are compared in this form: letters are folded,
// typographic characters are ASCII, white space is one blank, and there are no invisible runes. Blanks next to Chinese
// and Japanese characters are dropped, because these scripts do not separate words.
func appendFolded(text []byte, r rune) []byte {
	const dotAbove = 0x0307
	last := byte(' ')
	if n := len(text); n > 0 {
		last = text[n-1]
	}
	switch {
	case r > ' ' && r < utf8.RuneSelf:
		text = append(text, lowerASCII(byte(r)))
	case unicode.IsSpace(r):
		if last != ' ' && (last < utf8.RuneSelf || !endsUnspaced(text)) {
			text = append(text, ' ')
		}
	case r < utf8.RuneSelf:
		text = append(text, lowerASCII(byte(r)))
	case isInvisible(r), r == dotAbove && last == 'i': // in lower case, İ is i with a combining dot
	case isUnspaced(r):
		text = utf8.AppendRune(bytes.TrimSuffix(text, []byte(" ")), r)
	default:
		text = utf8.AppendRune(text, fold(asciiPunctuation(r)))
	}
	return text
}

// isUnspaced reports whether a rune belongs to Chinese or Japanese, which are written without spaces.
func isUnspaced(r rune) bool {
	return r == 'ー' || r >= 0x2E80 && unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana)
}

func endsUnspaced(text []byte) bool {
	r, _ := utf8.DecodeLastRune(text)
	return isUnspaced(r)
}

// runeKind says whether a rune can be part of a word.
type runeKind uint8

const (
	punctuationKind runeKind = iota
	wordKind                 // letter, digit, mark or underscore
	loneKind                 // letter that is a word by itself, in a script without spaces
)

// firstLone is the first rune that can have loneKind: the start of Thai.
const firstLone = 0x0E00

func classifyRune(r rune) runeKind {
	switch {
	case r == '_' || unicode.IsDigit(r):
		return wordKind
	case r >= 0x1100 && r < 0x1200: // part of a Korean syllable, as in ㅋㅋ or ㅠㅠ for a sound
		return punctuationKind
	case r >= firstLone && (isUnspaced(r) || unicode.In(r, unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar)):
		return loneKind
	case unicode.IsLetter(r) || unicode.IsNumber(r) || unicode.IsMark(r):
		return wordKind
	default:
		return punctuationKind
	}
}

// kindsAround returns the kinds of the runes before from and after to.
func kindsAround(text []byte, from, to int) (before, after runeKind) {
	last, _ := utf8.DecodeLastRune(text[:from])
	next, _ := utf8.DecodeRune(text[to:])
	return classifyRune(last), classifyRune(next)
}

// isWordBoundary reports whether a word can end or start at an offset. A new script starts a new word even without a
// space, as in "docker를".
func isWordBoundary(text []byte, at int) bool {
	last, _ := utf8.DecodeLastRune(text[:at])
	next, _ := utf8.DecodeRune(text[at:])
	if classifyRune(last) != wordKind || classifyRune(next) != wordKind {
		return true
	}
	return (last >= utf8.RuneSelf || next >= utf8.RuneSelf) && !unicode.IsMark(next) && runeScript(last) != runeScript(next)
}

// isInvisible reports whether a word looks the same without the rune. Arabic and Hebrew vowel signs count as invisible,
// because people usually omit them.
func isInvisible(r rune) bool {
	switch {
	case r == 0x0640, r >= 0x064B && r <= 0x0652, r == 0x0670: // Arabic elongation and vowel signs
		return true
	case r >= 0x0591 && r <= 0x05BD, r == 0x05BF, r == 0x05C1, r == 0x05C2, r == 0x05C4, r == 0x05C5, r == 0x05C7: // Hebrew vowel signs
		return true
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
