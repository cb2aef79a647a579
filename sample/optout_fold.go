package sample

import (
	"bytes"
	"strings"
	"unicode/utf8"
)

// foldedIn says whether the literal stands in text, in whatever case, without making a copy in
// lower case.
func (p *pathPattern) foldedIn(text []byte) bool {
	for from := 0; ; {
		i := bytes.IndexByte(text[from:], p.literal[p.mark])
		if i < 0 {
			return false
		}
		i += from
		start, end := i-p.mark, i-p.mark+len(p.literal)
		if start >= 0 && end <= len(text) && strings.EqualFold(string(text[start:end]), p.literal) {
			return true
		}
		from = i + 1
	}
}

// markOf is where a byte without case stands in an ASCII literal, -1 for none.
func markOf(literal string) int {
	mark := -1
	for i := range len(literal) {
		switch c := literal[i]; {
		case c >= utf8.RuneSelf:
			return -1
		case mark < 0 && (c < 'a' || c > 'z'):
			mark = i
		}
	}
	return mark
}
