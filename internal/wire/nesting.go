package wire

import (
	"bytes"
	"slices"
)

// nesting tracks the nesting depth of a JSON value that arrives in pieces. Each byte is read only once.
type nesting struct {
	readLen  int // number of bytes that were read
	depth    int
	quoted   bool // inside a string
	escaped  bool // after a backslash
	validLen int  // value of readLen when the text was last found to be one whole value
	broken   bool // all brackets are closed and the text is not JSON, so further bytes cannot make it JSON
}

func (n *nesting) read(piece []byte) {
	n.readLen += len(piece)
	for _, c := range piece {
		switch {
		case n.escaped:
			n.escaped = false
		case n.quoted:
			n.escaped, n.quoted = c == '\\', c != '"'
		case c == '"':
			n.quoted = true
		case c == '{' || c == '[':
			n.depth++
		case c == '}' || c == ']':
			n.depth--
		}
	}
}

// shortValue is the maximum length, in bytes, of arguments that are neither an object nor a list.
const shortValue = 64

// isWholeValue reports whether the text is one JSON value. isWholeValue may be called for every piece.
func (s *replyItem) isWholeValue() bool {
	skip := s.nesting.readLen
	for i := range len(s.full) + 1 {
		piece := s.text
		if i < len(s.full) {
			piece = s.full[i]
		}
		if skip < len(piece) {
			s.nesting.read(piece[skip:])
		}
		skip = max(skip-len(piece), 0)
	}
	n := &s.nesting
	if n.quoted || n.depth != 0 || n.broken || n.readLen == 0 {
		return false
	}
	if n.validLen == n.readLen {
		return true
	}
	if valid(bytes.Join(append(slices.Clip(s.full), s.text), nil)) {
		n.validLen = n.readLen
		return true
	}
	n.broken = n.readLen > shortValue
	return false
}
