package wire

import (
	"encoding/binary"
	"math/bits"
)

// maxDepth is how deep a body may nest. The scanner below calls itself once a level, so this bounds the stack, too:
// a validator without a bound overflows on 8 MB of "[", and Go cannot recover from that.
const maxDepth = 256

// bad is the end of a value that is not one.
const bad = -1

// span is a half-open range of offsets.
type span struct{ start, end int }

func (s span) of(b []byte) []byte { return b[s.start:s.end] }
func (s span) empty() bool        { return s.end == 0 }

// inner is the text between the quotes of a string literal.
func (s span) inner() span { return span{s.start + 1, s.end - 1} }

// scanner proves in one pass that b is JSON, as strictly as encoding/json does, and says where values end.
type scanner struct {
	b    []byte
	deep bool // stopped because of maxDepth
}

// value returns the offset behind the value that begins at i, or bad.
func (s *scanner) value(i, depth int) int {
	if uint(i) >= uint(len(s.b)) {
		return bad
	}
	switch s.b[i] {
	case '"':
		return stringEnd(s.b, i+1)
	case '{':
		return s.object(i, depth+1)
	case '[':
		return s.array(i, depth+1)
	case 't':
		return s.literal(i, "true")
	case 'f':
		return s.literal(i, "false")
	case 'n':
		return s.literal(i, "null")
	}
	return numberEnd(s.b, i)
}

func (s *scanner) object(i, depth int) int {
	i, more := s.open(i, '}', depth)
	for more {
		_, i = s.key(i)
		i, more = s.next(s.value(i, depth), '}')
	}
	return i
}

func (s *scanner) array(i, depth int) int {
	i, more := s.open(i, ']', depth)
	for more {
		i, more = s.next(s.value(i, depth), ']')
	}
	return i
}

// open steps over the bracket at i; more says that a first element or key must follow at the offset.
func (s *scanner) open(i int, closing byte, depth int) (at int, more bool) {
	if depth > maxDepth {
		s.deep = true
		return bad, false
	}
	i = s.blank(i + 1)
	if i < len(s.b) && s.b[i] == closing {
		return i + 1, false
	}
	return i, true
}

// next steps from the end of an element to the next one, or behind the closing bracket.
func (s *scanner) next(i int, closing byte) (at int, more bool) {
	if i < 0 {
		return bad, false
	}
	i = s.blank(i)
	if i >= len(s.b) {
		return bad, false
	}
	switch s.b[i] {
	case ',':
		return s.blank(i + 1), true
	case closing:
		return i + 1, false
	}
	return bad, false
}

// key reads a member's name at i: the span between its quotes, and where its value begins, or bad.
func (s *scanner) key(i int) (name span, value int) {
	if uint(i) >= uint(len(s.b)) || s.b[i] != '"' {
		return span{}, bad
	}
	end := stringEnd(s.b, i+1)
	if end < 0 {
		return span{}, bad
	}
	colon := s.blank(end)
	if colon >= len(s.b) || s.b[colon] != ':' {
		return span{}, bad
	}
	return span{i + 1, end - 1}, s.blank(colon + 1)
}

// blank steps over white space.
func (s *scanner) blank(i int) int {
	for i < len(s.b) && s.b[i] <= ' ' && isBlank(s.b[i]) {
		i++
	}
	return i
}

func (s *scanner) literal(i int, word string) int {
	end := i + len(word)
	if end > len(s.b) || string(s.b[i:end]) != word {
		return bad
	}
	return end
}

func isBlank(c byte) bool { return c == ' ' || c == '\n' || c == '\t' || c == '\r' }

// valid says whether b is one JSON value, nested no deeper than maxDepth.
func valid(b []byte) bool {
	s := scanner{b: b}
	end := s.value(s.blank(0), 0)
	return end >= 0 && s.blank(end) == len(b)
}

// Bytes of a word, for eight comparisons at once.
const (
	low    = 0x0101010101010101
	high   = 0x8080808080808080
	quotes = low * '"'
	slants = low * '\\'
	blanks = low * ' '
)

// special marks the bytes of w that end a run of plain text in a string: quote, backslash, control. The lowest mark is
// exact; higher ones may be wrong, by the borrow.
func special(w uint64) uint64 {
	q, s := w^quotes, w^slants
	return ((q-low)&^q | (s-low)&^s | (w-blanks)&^w) & high
}

// stringEnd returns the offset behind the closing quote of a string whose text begins at i, or bad.
func stringEnd(b []byte, i int) int {
	for {
		for i+16 <= len(b) {
			m, n := special(binary.LittleEndian.Uint64(b[i:])), special(binary.LittleEndian.Uint64(b[i+8:]))
			if m|n == 0 {
				i += 16
				continue
			}
			if m == 0 {
				i, m = i+8, n
			}
			i += bits.TrailingZeros64(m) >> 3
			break
		}
		for i < len(b) && b[i] >= ' ' && b[i] != '"' && b[i] != '\\' {
			i++
		}
		if i >= len(b) || b[i] < ' ' {
			return bad
		}
		if b[i] == '"' {
			return i + 1
		}
		if i = escapeEnd(b, i+1); i < 0 {
			return bad
		}
	}
}

// escapeEnd returns the offset behind the escape whose letter stands at i, or bad.
func escapeEnd(b []byte, i int) int {
	if i >= len(b) {
		return bad
	}
	switch b[i] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return i + 1
	case 'u':
		if i+5 > len(b) || hex4(b[i+1:]) < 0 {
			return bad
		}
		return i + 5
	}
	return bad
}

// hex4 reads four hexadecimal digits; -1 when they are not.
func hex4(b []byte) rune {
	var r rune
	for _, c := range b[:4] {
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c|0x20 >= 'a' && c|0x20 <= 'f':
			c = c | 0x20 - 'a' + 10
		default:
			return -1
		}
		r = r<<4 | rune(c)
	}
	return r
}

// numberEnd returns the offset behind the number that begins at i, or bad.
func numberEnd(b []byte, i int) int {
	if b[i] == '-' {
		i++
	}
	if i < len(b) && b[i] == '0' {
		i++
	} else if i = digits(b, i); i < 0 {
		return bad
	}
	if i < len(b) && b[i] == '.' {
		if i = digits(b, i+1); i < 0 {
			return bad
		}
	}
	if i < len(b) && b[i]|0x20 == 'e' {
		i++
		if i < len(b) && (b[i] == '+' || b[i] == '-') {
			i++
		}
		return digits(b, i)
	}
	return i
}

// digits steps over at least one digit.
func digits(b []byte, i int) int {
	from := i
	for i < len(b) && b[i]-'0' <= 9 {
		i++
	}
	if i == from {
		return bad
	}
	return i
}
