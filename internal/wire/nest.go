package wire

import (
	"bytes"
	"slices"
)

// nest follows a JSON object or list that comes in pieces, and looks at each byte once.
type nest struct {
	looked  int // how many bytes
	depth   int
	quoted  bool // inside a string
	escaped bool // behind a backslash
	sound   int  // so many bytes were one whole value
	broken  bool // it was closed, and is no JSON: more of it mends nothing
}

func (n *nest) read(piece []byte) {
	n.looked += len(piece)
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

// shortValue is how long arguments may be that are no object or list.
const shortValue = 64

// whole says that the text is one JSON value. It may be asked with every piece.
func (s *slot) whole() bool {
	skip := s.nest.looked
	for i := range len(s.full) + 1 {
		piece := s.text
		if i < len(s.full) {
			piece = s.full[i]
		}
		if skip < len(piece) {
			s.nest.read(piece[skip:])
		}
		skip = max(skip-len(piece), 0)
	}
	n := &s.nest
	if n.quoted || n.depth != 0 || n.broken || n.looked == 0 {
		return false
	}
	if n.sound == n.looked {
		return true
	}
	if valid(bytes.Join(append(slices.Clip(s.full), s.text), nil)) {
		n.sound = n.looked
		return true
	}
	n.broken = n.looked > shortValue
	return false
}
