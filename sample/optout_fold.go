package sample

import (
	"bytes"
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
		if start := i - p.mark; start >= 0 && equalLower(text[start:min(len(text), start+len(p.literal))], p.literal) {
			return true
		}
		from = i + 1
	}
}

// equalLower says whether s is low but for the case of ASCII letters.
func equalLower(s []byte, low string) bool {
	if len(s) != len(low) {
		return false
	}
	for i := range len(s) {
		c := s[i]
		if c >= 'A' && c <= 'Z' {
			c += 'a' - 'A'
		}
		if c != low[i] {
			return false
		}
	}
	return true
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
