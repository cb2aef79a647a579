package wire

import (
	"bytes"
	"slices"
)

// nesting tracks the nesting depth in a JSON value that arrives in pieces. It reads each byte once.
type nesting struct {
	readLen   int
	depth     int
	inString  bool
	escaped   bool
	validLen  int  // readLen when the text was last found to be one JSON value
	neverJSON bool // brackets do not match, and no further bytes can make the text one value
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

const shortValue = 64

// isWholeValue reports whether the text so far is one JSON value. It is cheap enough to be called for every piece.
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
