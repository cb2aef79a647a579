package wire

// maxDepth is the maximum nesting depth of a body. The scanner calls itself once per level, and would overflow the
// stack on 8 MB of "[". Go cannot recover from a stack overflow.
const maxDepth = 256

// invalid is the offset that the scanner returns for an invalid value.
const invalid = -1

// span is a half-open range of offsets.
type span struct{ start, end int }

func (s span) of(b []byte) []byte { return b[s.start:s.end] }
func (s span) empty() bool        { return s.end == 0 }

// inner returns the span between the quotes of a string literal.
func (s span) inner() span { return span{s.start + 1, s.end - 1} }

// scanner proves in one pass that b is JSON, as strictly as encoding/json, and finds the ends of
// values.
type scanner struct {
	b    []byte
	deep bool // the nesting is deeper than maxDepth, and the scan stopped
}

// skipValue returns the offset after the value at i, or invalid.
func (s *scanner) skipValue(i, depth int) int {
	if uint(i) >= uint(len(s.b)) {
		return invalid
	}
	switch s.b[i] {
	case '"':
		return stringEnd(s.b, i+1)
	case '{':
		return s.skipObject(i, depth+1)
	case '[':
		return s.skipArray(i, depth+1)
	case 't':
		return s.skipLiteral(i, "true")
	case 'f':
		return s.skipLiteral(i, "false")
	case 'n':
		return s.skipLiteral(i, "null")
	}
	return numberEnd(s.b, i)
}

func (s *scanner) skipObject(i, depth int) int {
	i, more := s.firstElement(i, '}', depth)
	for more {
		_, i = s.key(i)
		i, more = s.nextElement(s.skipValue(i, depth), '}')
	}
	return i
}

func (s *scanner) skipArray(i, depth int) int {
	i, more := s.firstElement(i, ']', depth)
	for more {
		i, more = s.nextElement(s.skipValue(i, depth), ']')
	}
	return i
}

// firstElement moves from the opening bracket at i to the first element, or past the closing bracket. more is true if
// an element or a key must follow at the offset.
func (s *scanner) firstElement(i int, closing byte, depth int) (at int, more bool) {
	if depth > maxDepth {
		s.deep = true
		return invalid, false
	}
	i = s.skipSpace(i + 1)
	if i < len(s.b) && s.b[i] == closing {
		return i + 1, false
	}
	return i, true
}

// nextElement moves from the end of an element at i to the next element, or past the closing bracket. more is true if
// an element or a key must follow at the offset.
func (s *scanner) nextElement(i int, closing byte) (at int, more bool) {
	if i < 0 {
		return invalid, false
	}
	i = s.skipSpace(i)
	if i >= len(s.b) {
		return invalid, false
	}
	switch s.b[i] {
	case ',':
		return s.skipSpace(i + 1), true
	case closing:
		return i + 1, false
	}
	return invalid, false
}

// key returns the span between the quotes of a member's name at i, and the offset of the value, or
// invalid.
func (s *scanner) key(i int) (name span, value int) {
	if uint(i) >= uint(len(s.b)) || s.b[i] != '"' {
		return span{}, invalid
	}
	end := stringEnd(s.b, i+1)
	if end < 0 {
		return span{}, invalid
	}
	colon := s.skipSpace(end)
	if colon >= len(s.b) || s.b[colon] != ':' {
		return span{}, invalid
	}
	return span{i + 1, end - 1}, s.skipSpace(colon + 1)
}

// skipSpace returns the offset of the first byte at or after i that is not white space.
func (s *scanner) skipSpace(i int) int {
	for i < len(s.b) && s.b[i] <= ' ' && isBlank(s.b[i]) {
		i++
	}
	return i
}

func (s *scanner) skipLiteral(i int, word string) int {
	end := i + len(word)
	if end > len(s.b) || string(s.b[i:end]) != word {
		return invalid
	}
	return end
}

func isBlank(c byte) bool { return c == ' ' || c == '\n' || c == '\t' || c == '\r' }

// wholeValue returns the span of the JSON value in b. ok is false unless b holds exactly one JSON value. depth is the
// nesting depth of the value in its document.
func wholeValue(b []byte, depth int) (v span, ok bool) {
	s := scanner{b: b}
	v.start = s.skipSpace(0)
	v.end = s.skipValue(v.start, depth)
	return v, v.end >= 0 && s.skipSpace(v.end) == len(b)
}

// valid reports whether b is one JSON value, at most maxDepth deep.
func valid(b []byte) bool {
	_, ok := wholeValue(b, 0)
	return ok
}

// numberEnd returns the offset after the number at i, or invalid.
func numberEnd(b []byte, i int) int {
	if b[i] == '-' {
		i++
	}
	if i < len(b) && b[i] == '0' {
		i++
	} else if i = digitsEnd(b, i); i < 0 {
		return invalid
	}
	if i < len(b) && b[i] == '.' {
		if i = digitsEnd(b, i+1); i < 0 {
			return invalid
		}
	}
	if i < len(b) && b[i]|0x20 == 'e' {
		i++
		if i < len(b) && (b[i] == '+' || b[i] == '-') {
			i++
		}
		return digitsEnd(b, i)
	}
	return i
}

// digitsEnd returns the offset after the digits at i, or invalid if no digit is at i.
func digitsEnd(b []byte, i int) int {
	from := i
	for i < len(b) && b[i]-'0' <= 9 {
		i++
	}
	if i == from {
		return invalid
	}
	return i
}
