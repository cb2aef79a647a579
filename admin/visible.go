package admin

import (
	"fmt"
	"strings"
	"unicode"
)

// visible shows what a text would hide: characters that turn the writing round, that take no room,
// or that move a terminal's cursor become names in angle quotes. What stands between them is what
// was stored.
func visible(text string) string {
	if strings.IndexFunc(text, hides) < 0 {
		return text
	}
	var b strings.Builder
	for _, r := range text {
		switch {
		case r == '\x1b':
			b.WriteString("‹ESC›")
		case hides(r):
			fmt.Fprintf(&b, "‹U+%04X›", r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// short is a name that has its place in a line: agents and models can be called anything.
func short(text string) string {
	const most = 48
	if r := []rune(text); len(r) > most {
		return string(r[:most]) + "…"
	}
	return text
}

// Visible is the same for a terminal.
func Visible(text string) string { return visible(strings.ToValidUTF8(text, "\uFFFD")) }

// hides says that a character is not seen, or changes what is seen of others. Joiners stay: emoji
// and Indic scripts are made with them.
func hides(r rune) bool {
	switch r {
	case '\n', '\t', '\u200d', '\u200c':
		return false
	case '\u2028', '\u2029', '\ufeff', '\u00ad', '\u034f', '\u115f', '\u1160', '\u3164', '\uffa0':
		return true
	}
	return unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || r >= 0xE0000 && r <= 0xE0FFF
}
