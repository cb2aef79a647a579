package lesson

import (
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
		switch r = lookalike(fold(r)); {
		case r == '[', r == '/' && len(b) > 0 && b[len(b)-1] == '[', unicode.IsLetter(r):
			b = utf8.AppendRune(b, r)
		}
	}
	return string(b)
}

// lookalike maps a folded rune to the Latin letter it is drawn like; i and l, which no font keeps
// apart for certain, are one. It covers the letters of our delimiters.
func lookalike(r rune) rune { //nolint:funlen // a table
	switch r {
	case 'а', 'ɑ', 'α', '∂', '@', '4', 'ᴀ', 'ꭺ':
		return 'a'
	case 'с', 'ϲ', 'ᴄ', '¢', 'ƈ', 'ꮯ':
		return 'c'
	case 'ԁ', 'ɗ', 'ɖ', 'ᴅ', 'đ', 'ժ', 'ꭰ':
		return 'd'
	case 'е', 'ε', 'є', 'ҽ', 'ɛ', '℮', '3', 'ᴇ', 'ə', 'ē', '€', 'ꭼ':
		return 'e'
	case 'ƒ', 'ϝ', 'ғ', 'ꜰ', 'ք', 'ẝ':
		return 'f'
	case 'ɢ', 'ց', 'ɡ':
		return 'g'
	case 'н', 'һ', 'ʜ', 'հ', 'ɦ':
		return 'h'
	case 'i', 'ӏ', 'і', 'ι', 'ɩ', '|', '!', '1', 'ɪ', 'ⅼ', 'ʟ', 'ł', 'ǀ', '∣', 'ꮮ':
		return 'l'
	case 'к', 'κ', 'ᴋ', 'ĸ':
		return 'k'
	case 'м', 'ᴍ', 'ʍ':
		return 'm'
	case 'п', 'ո', 'ɴ', 'ռ', 'η', 'ɳ', 'ñ', 'ṉ', 'и':
		return 'n'
	case 'о', 'ο', 'օ', '0', 'ᴏ', 'ø', 'σ', 'ہ', '○', '◯':
		return 'o'
	case 'р', 'ρ', 'ᴘ', 'ƥ':
		return 'p'
	case 'г', 'ʀ', 'я', 'ɾ', 'ɼ', 'ᴦ', 'ꭱ':
		return 'r'
	case 'ѕ', 'ꜱ', 'ʂ', '5', '$', '§', 'ƽ', 'ꮪ':
		return 's'
	case 'т', 'τ', 'ᴛ', '7', '+', '†', 'ꭲ':
		return 't'
	case 'υ', 'ս', 'ᴜ':
		return 'u'
	case 'ѵ', 'ν', 'ᴠ':
		return 'v'
	case 'х', 'χ', '×':
		return 'x'
	case 'у', 'ү', 'γ', 'ʏ':
		return 'y'
	case '【', '〔', '⟦', '〚', '❲', '⁅':
		return '['
	default:
		return r
	}
}
