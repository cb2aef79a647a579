package wire

import (
	"bytes"
	"slices"
)

// nesting tracks the nesting depth of a JSON value that arrives in pieces. Each byte is read only once.
type nesting struct {
	readLen   int // number of bytes that were read
	depth     int
	inString  bool // inside a string
	escaped   bool // after a backslash
	validLen  int  // value of readLen when the text was last found to be one whole value
	neverJSON bool // all brackets are closed and the text is not one JSON value, so no further bytes can make the text one JSON value
}

func (n *nesting) read(piece []byte) {
	n.readLen += len(piece)
	for _, c := range piece {
		switch {
		case n.escaped:
			n.escaped = false
		case n.inString:
			n.escaped, n.inString = c == '\\', c != '"'
		case c == '"':
			n.inString = true
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
func (r *replyItem) isWholeValue() bool {
	skip := r.nesting.readLen
	for i := range len(r.fullPieces) + 1 {
		piece := r.text
		if i < len(r.fullPieces) {
			piece = r.fullPieces[i]
		}
		if skip < len(piece) {
			r.nesting.read(piece[skip:])
		}
		skip = max(skip-len(piece), 0)
	}
	n := &r.nesting
	if n.inString || n.depth != 0 || n.neverJSON || n.readLen == 0 {
		return false
	}
	if n.validLen == n.readLen {
		return true
	}
	if valid(bytes.Join(append(slices.Clip(r.fullPieces), r.text), nil)) {
		n.validLen = n.readLen
		return true
	}
	n.neverJSON = n.readLen > shortValue
	return false
}
