package lesson

import (
	"regexp"
	"strings"
	"sync"
	"unicode"
)

// cleanLines returns the lines of an untrusted text without hidden characters, HTML comments, and lines with delimiters
// of inserted blocks. It rewrites role labels and chat templates. Unchanged lines are substrings of s.
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

// SanitizeExcerpt returns an untrusted text in a form that is safe inside of a line of a block. The text is cleaned
// like a lesson and joined to one line, and its square brackets become round. A text of more than maxBytes bytes is cut
// and ends with "...".
func SanitizeExcerpt(s string, maxBytes int) string {
	const read = 16 // read only the first read*n bytes, because s may be as long as a file; cleaning may remove some of them
	round := strings.NewReplacer("[", "(", "［", "(", "⟦", "(", "【", "(", "]", ")", "］", ")", "⟧", ")", "】", ")").Replace
	s = round(stripANSI(strings.ToValidUTF8(s[:min(len(s), read*maxBytes)], "")))
	s = round(strings.Join(cleanLines(s), " ")) // round again, because clean may turn an unusual bracket into a square bracket
	if short := clipBytes(s, maxBytes); short != s {
		return short + "..."
	}
	return s
}

// stripANSI removes whole terminal escape sequences, so that no part such as "[31m" remains.
func stripANSI(s string) string {
	if !strings.ContainsAny(s, "\x1b\u009b\u009d") {
		return s
	}
	return ansi().ReplaceAllString(s, "")
}

// keepVisible keeps the characters that a reader sees, and drops control, format, tag and private-use characters. Line
// separators become line feeds, and other white space becomes a space. Full-width letters, digits and brackets get
// their usual width.
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

// isHidden reports whether a rune is invisible, or is displayed differently by different programs.
func isHidden(r rune) bool {
	return isInvisible(r) || unicode.IsControl(r) || unicode.In(r, unicode.Cf, unicode.Co, unicode.Cs, unicode.Noncharacter_Code_Point)
}

// stripComments removes HTML comments. It repeats the search, because the removal of a comment may join the halves of
// another comment.
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
