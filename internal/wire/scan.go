package wire

// maxDepth bounds the nesting in a body. The scanner calls itself once per level, so 8 MB of "[" would overflow the
// stack, and Go cannot recover from a stack overflow.
const maxDepth = 256

const invalid = -1

type span struct{ start, end int }

func (s span) of(b []byte) []byte { return b[s.start:s.end] }
func (s span) empty() bool        { return s.end == 0 }

func (s span) inner() span { return span{s.start + 1, s.end - 1} }

// scanner proves in one pass that b is JSON, as strictly as encoding/json, and finds where values end.
type scanner struct {
	b    []byte
	deep bool // the scan stopped at maxDepth
}

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

// firstElement moves from the opening bracket at i to the first element, or past the closing bracket. more means
// that an element or key must follow.
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

// nextElement moves from an element's end at i to the next element, or past the closing bracket. more means that an
// element or key must follow.
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

// wholeValue returns the span of the only JSON value in b. depth is the value's nesting depth in the document that
// contained it.
func wholeValue(b []byte, depth int) (v span, ok bool) {
	s := scanner{b: b}
	v.start = s.skipSpace(0)
	v.end = s.skipValue(v.start, depth)
	return v, v.end >= 0 && s.skipSpace(v.end) == len(b)
}

func valid(b []byte) bool {
	_, ok := wholeValue(b, 0)
	return ok
}

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
