package detect

import (
	"bytes"
	"errors"
	"slices"

	"precept/internal/wire"
)

// openValue is a JSON value whose end is not read yet.
type openValue struct {
	depth    int  // open brackets
	inString bool // the bytes so far end inside of a JSON string
	escaped  bool
	raw      []byte // the value so far
	start    int    // line on which the value begins
	starts   []int  // numbers of later lines that look like the start of another value
}

// partSize is the number of bytes that are read at once.
const partSize = 256 << 10

// longValue is the size of a value in bytes from which its buffer gets room for the rest of the file.
const longValue = 4 << 20

// extend appends a part to a buffer. A buffer of tens of megabytes that grows by copies would need the
// memory of both copies.
func (r *reading) extend(buffer, part []byte) []byte {
	if room := len(buffer) + len(part); cap(buffer) < room && cap(buffer) > 0 {
		if room > longValue && r.rest > 0 {
			room += int(r.rest) + partSize // the present part holds more of the value
		} else {
			room = max(room, 2*cap(buffer))
		}
		buffer = slices.Grow(buffer, room-len(buffer))
	}
	return append(buffer, part...)
}

// dropCutValue drops the open value if the line is a whole transcript. The value then began on a line that was
// cut, and would take in all following lines.
func (r *reading) dropCutValue(line []byte) {
	if r.open.depth == 0 || line[0] != '{' && line[0] != '[' {
		return
	}
	line = bytes.TrimSpace(line)
	if r.list != nil {
		line = bytes.TrimSuffix(line, []byte(","))
	}
	if rec, err := wire.ReadRecording(line); err != nil || rec.Request.Len() == 0 {
		r.open.starts = append(r.open.starts, r.line)
		return
	}
	r.dropBroken(r.open.start, errCut)
}

var errCut = errors.New("the JSON value ends early")

// split finds the values in a line, or in a part of a long line.
func (r *reading) split(part []byte) error {
	from := 0 // start of the value in part
	for k := 0; k < len(part); k++ {
		c := part[k]
		switch {
		case r.skipLine:
			return nil
		case r.open.inString:
			if k = r.stringEnd(part, k); r.open.inString && part[len(part)-1] == '\n' {
				r.dropBroken(r.open.start, errors.New("a JSON string contains a line break"))
			}
		case c == ' ' || c == '\t' || c == '\r' || c == '\n':
		case r.open.depth > 0:
			switch c {
			case '"':
				r.open.inString = true
			case '{', '[':
				r.open.depth++
			case '}', ']':
				r.open.depth--
			}
			if r.open.depth == 0 {
				if err := r.value(r.extend(r.open.raw, part[from:k+1])); err != nil {
					return err
				}
			}
		default:
			from = k
			if err := r.outside(c); err != nil {
				return err
			}
		}
	}
	if r.open.depth > 0 {
		r.open.raw = r.extend(r.open.raw, part[from:])
	}
	return nil
}

// stringEnd returns the offset of the quote that ends the open string, from offset k on. Without the
// quote, stringEnd returns the end of the part, and the string stays open.
func (r *reading) stringEnd(part []byte, k int) int {
	if r.open.escaped {
		r.open.escaped = false
		k++
	}
	for at := k; ; {
		i := bytes.IndexByte(part[at:], '"')
		end := at + i
		if i < 0 {
			end = len(part)
		}
		text := part[k:end]
		if escaped := (len(text)-len(bytes.TrimRight(text, `\`)))%2 == 1; i < 0 || !escaped {
			r.open.inString, r.open.escaped = i < 0, i < 0 && escaped
			return end
		}
		at = end + 1
	}
}
