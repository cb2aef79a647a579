package lesson

import (
	"regexp"
	"strings"
	"sync"
	"unicode"
)

// cleanLines removes hidden characters, HTML comments and lines with block delimiters from an untrusted text, and
// rewrites role labels and chat templates.
func cleanLines(s string) []string {
	for _, plain := range [...][2]string{{"\r\n", "\n"}, {"\r", "\n"}, {"\t", "    "}} {
		s = strings.ReplaceAll(s, plain[0], plain[1])
	}
	s = keepVisible(stripANSI(s))
	s = neutralize(stripComments(s))
	lines := strings.Split(s, "\n")
	kept := lines[:0]
	for _, line := range lines {
		if !hasDelimiter(line) && !strings.Contains(line, "<!--") {
			kept = append(kept, line)
		}
	}
	return kept
}

// SanitizeExcerpt makes an untrusted text safe inside a line of a block. It cleans the text, joins the lines, and
// replaces other brackets by round brackets. A text longer than maxBytes is cut and ends with "...".
func SanitizeExcerpt(s string, maxBytes int) string {
	const read = 16 // bytes read for each byte of the result, because cleaning can remove some
	round := strings.NewReplacer("[", "(", "［", "(", "⟦", "(", "【", "(", "]", ")", "］", ")", "⟧", ")", "】", ")").Replace
	s = round(stripANSI(strings.ToValidUTF8(s[:min(len(s), read*maxBytes)], "")))
	s = round(strings.Join(cleanLines(s), " ")) // cleaning can turn an unusual bracket into a square bracket
	if short := clipBytes(s, maxBytes); short != s {
		return short + "..."
	}
	return s
}

// stripANSI removes whole escape sequences. No part such as "[31m" remains.
func stripANSI(s string) string {
	if !strings.ContainsAny(s, "\x1b\u009b\u009d") {
		return s
	}
	return ansi().ReplaceAllString(s, "")
}

// keepVisible drops control, format, tag and private-use characters. It replaces special white space and full-width
// characters by normal ones.
func keepVisible(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\v' || r == '\f' || r == 0x85 || r == 0x2028 || r == 0x2029:
			return '\n'
		case r == '\r':
			return -1
		case unicode.IsSpace(r):
			return ' '
		case isHidden(r), r == unicode.ReplacementChar:
			return -1
		case r >= 'Ａ' && r <= 'Ｚ', r >= 'ａ' && r <= 'ｚ', r >= '０' && r <= '９',
			r == '＜', r == '＞', r == '｜', r == '［', r == '］', r == '＃', r == '／':
			return r - 0xFEE0
		default:
			return r
		}
	}, s)
}

// isHidden reports whether some programs display a rune differently or not at all.
func isHidden(r rune) bool {
	return isInvisible(r) || unicode.IsControl(r) || unicode.In(r, unicode.Cf, unicode.Co, unicode.Cs, unicode.Noncharacter_Code_Point)
}

// stripComments removes HTML comments. It searches again after each removal, because the removal can join the two
// halves of another comment.
func stripComments(s string) string {
	for {
		start := strings.Index(s, "<!--")
		if start < 0 {
			return s
		}
		end := strings.Index(s[start:], "-->")
		if end < 0 {
			s = s[:start] + s[start+len("<!--"):]
			continue
		}
		s = s[:start] + s[start+end+len("-->"):]
	}
}

// ansi matches terminal escape sequences.
//
//nolint:gochecknoglobals // immutable, compiled at first use
var ansi = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile("(?:\x1b\\[|\u009b)[0-?]*[ -/]*[@-~]|(?:\x1b\\]|\u009d)[^\x07\x1b]*(?:\x07|\x1b\\\\)?|\x1b[ -/]*[0-~]?")
})
