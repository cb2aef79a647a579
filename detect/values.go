package detect

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// values cuts a stream into JSON values by their brackets and quotes, without proving them: whoever
// reads a value does that.
type values struct {
	in  *bufio.Reader
	buf []byte // of the value that was given last

	depth           int
	quoted, escaped bool // inside a string, behind a backslash
	begun           bool // something of the value was seen
}

var (
	errCut   = errors.New("it ends in the middle")
	errComma = errors.New("a comma is missing")
)

// next gives the next value, until the one after it is asked for; io.EOF when there is none.
func (v *values) next() ([]byte, error) {
	if _, err := nextByte(v.in); err != nil {
		return nil, err
	}
	*v = values{in: v.in, buf: v.buf[:0]}
	for {
		if _, err := v.in.Peek(1); errors.Is(err, io.EOF) {
			if v.depth > 0 || v.quoted {
				return nil, errCut
			}
			return v.buf, nil
		} else if err != nil {
			return nil, err
		}
		chunk, _ := v.in.Peek(v.in.Buffered())
		n, done := v.scan(chunk)
		v.buf = append(v.buf, chunk[:n]...)
		_, _ = v.in.Discard(n)
		if done {
			return v.buf, nil
		}
	}
}

// element is next inside an array: nil at its end.
func (v *values) element(comma bool) ([]byte, error) {
	c, err := nextByte(v.in)
	if errors.Is(err, io.EOF) {
		return nil, errCut
	}
	if err != nil {
		return nil, err
	}
	if c == ']' {
		_, err = v.in.Discard(1)
		return nil, err
	}
	if comma {
		if c != ',' {
			return nil, errComma
		}
		_, _ = v.in.Discard(1)
	}
	raw, err := v.next()
	if errors.Is(err, io.EOF) || err == nil && len(raw) == 0 {
		err = errCut
	}
	return raw, err
}

// scan goes on over the next bytes, and says how many of them belong to the value and whether it
// ends with them.
func (v *values) scan(b []byte) (n int, done bool) {
	for n < len(b) {
		if v.quoted {
			if n = v.text(b, n); v.quoted {
				return n, false
			}
			if v.depth == 0 {
				return n, true
			}
			continue
		}
		switch b[n] {
		case '"':
			v.quoted = true
		case '{', '[':
			v.depth++
		case '}', ']':
			if v.depth == 0 { // of an array that holds the value
				return n, true
			}
			if v.depth--; v.depth == 0 {
				return n + 1, true
			}
		case ' ', '\t', '\r', '\n', ',':
			if v.depth == 0 && v.begun {
				return n, true
			}
		}
		v.begun = true
		n++
	}
	return n, false
}

// text steps over the inside of a string, and its closing quote where that is there.
func (v *values) text(b []byte, n int) int {
	if v.escaped {
		v.escaped = false
		n++
	}
	for end := -1; n < len(b); {
		if end < n {
			if end = bytes.IndexByte(b[n:], '"'); end < 0 {
				end = len(b)
			} else {
				end += n
			}
		}
		if slant := bytes.IndexByte(b[n:end], '\\'); slant >= 0 {
			if n += slant + 2; n > len(b) {
				v.escaped = true
				return len(b)
			}
			continue
		}
		if end == len(b) {
			return end
		}
		v.quoted = false
		return end + 1
	}
	return n
}
