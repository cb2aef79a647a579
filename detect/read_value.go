package detect

import (
	"bytes"
	"errors"
	"slices"

	"precept/internal/wire"
)

// openValue is the JSON value that is being read.
type openValue struct {
	depth          int // open brackets; 0 if no value is open
	inString       bool
	escaped        bool // the bytes so far end with a backslash
	raw            []byte
	start          int   // line number
	possibleStarts []int // later lines on which a value may begin, for the error messages
}

const readSize = 256 << 10 // bytes read at once

// longValueBytes is the size in bytes above which a value's buffer gets room for the whole rest of the file.
const longValueBytes = 4 << 20

// extend appends part to buffer. The buffer of a long value grows only once, because during each growth there are two
// copies of many megabytes.
func (r *transcriptReader) extend(buffer, part []byte) []byte {
	if room := len(buffer) + len(part); cap(buffer) < room && cap(buffer) > 0 {
		if room > longValueBytes && r.unreadBytes > 0 {
			room += int(r.unreadBytes) + readSize
		} else {
			room = max(room, 2*cap(buffer))
		}
		buffer = slices.Grow(buffer, room-len(buffer))
	}
	return append(buffer, part...)
}

// dropTruncatedValue drops the open value if the line on its own is a complete transcript. In that case, the open value
// began on a truncated line, and would otherwise include all following lines.
func (r *transcriptReader) dropTruncatedValue(line []byte) {
	if r.openValue.depth == 0 || line[0] != '{' && line[0] != '[' {
		return
	}
	line = bytes.TrimSpace(line)
	if r.array != nil {
		line = bytes.TrimSuffix(line, []byte(","))
	}
	if rec, err := wire.ReadRecording(line); err != nil || rec.Request.Len() == 0 {
		r.openValue.possibleStarts = append(r.openValue.possibleStarts, r.line)
		return
	}
	r.dropInvalid(r.openValue.start, errTruncated)
}

var errTruncated = errors.New("the JSON value ends early")

// split reads the next part of the input, and calls addValue with each value that ends in it.
func (r *transcriptReader) split(part []byte) error {
	from := 0 // start of the value in part
	for k := 0; k < len(part); k++ {
		c := part[k]
		switch {
		case r.skipLine:
			return nil
		case r.openValue.inString:
			if k = r.stringEnd(part, k); r.openValue.inString && part[len(part)-1] == '\n' {
				r.dropInvalid(r.openValue.start, errors.New("a JSON string contains a line break"))
			}
		case c == ' ' || c == '\t' || c == '\r' || c == '\n':
		case r.openValue.depth > 0:
			switch c {
			case '"':
				r.openValue.inString = true
			case '{', '[':
				r.openValue.depth++
			case '}', ']':
				r.openValue.depth--
			}
			if r.openValue.depth == 0 {
				if err := r.addValue(r.extend(r.openValue.raw, part[from:k+1])); err != nil {
					return err
				}
			}
		default:
			from = k
			if err := r.readStructural(c); err != nil {
				return err
			}
		}
	}
	if r.openValue.depth > 0 {
		r.openValue.raw = r.extend(r.openValue.raw, part[from:])
	}
	return nil
}

// stringEnd returns the offset of the quote that ends the open string, searched from start, or len(part).
func (r *transcriptReader) stringEnd(part []byte, start int) int {
	if r.openValue.escaped {
		r.openValue.escaped = false
		start++
	}
	for at := start; ; {
		i := bytes.IndexByte(part[at:], '"')
		end := at + i
		if i < 0 {
			end = len(part)
		}
		text := part[start:end]
		if escaped := (len(text)-len(bytes.TrimRight(text, `\`)))%2 == 1; i < 0 || !escaped {
			r.openValue.inString, r.openValue.escaped = i < 0, i < 0 && escaped
			return end
		}
		at = end + 1
	}
}
