package wire

import (
	"bytes"
	"iter"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// The functions in this file read bytes that the scanner has validated. On other bytes, they may panic.

// members iterates over the members of the object at v, with unescaped names. Other values have no members.
func members(b []byte, v span) iter.Seq2[[]byte, span] {
	return func(yield func([]byte, span) bool) {
		if firstByteAt(b, v) != '{' {
			return
		}
		s := scanner{b: b}
		i, more := s.firstElement(v.start, '}', 1)
		for more {
			name, from := s.key(i)
			member := span{from, valueEnd(b, from)}
			if !yield(unescapeBytes(name.of(b)), member) {
				return
			}
			i, more = s.nextElement(member.end, '}')
		}
	}
}

func elements(b []byte, v span) iter.Seq[span] {
	return func(yield func(span) bool) {
		if firstByteAt(b, v) != '[' {
			return
		}
		s := scanner{b: b}
		i, more := s.firstElement(v.start, ']', 1)
		for more {
			element := span{i, valueEnd(b, i)}
			if !yield(element) {
				return
			}
			i, more = s.nextElement(element.end, ']')
		}
	}
}

type field struct {
	name string
	dest *span
}

// findMembers stores the wanted members of the object at v in the fields' destinations. If a name repeats, it stores
// the last member. An absent member leaves the destination unchanged.
func findMembers(b []byte, v span, wanted ...field) {
	for name, m := range members(b, v) {
		for _, f := range wanted {
			if f.name == string(name) {
				*f.dest = m
				break
			}
		}
	}
}

func member(b []byte, v span, name string) (found span) {
	for k, m := range members(b, v) {
		if string(k) == name {
			found = m
		}
	}
	return found
}

// firstByteAt returns a value's first byte ('"', '{', '[', 't', 'f', 'n', a digit or '-'), and 0 for an absent value.
func firstByteAt(b []byte, v span) byte {
	if v.empty() {
		return 0
	}
	return b[v.start]
}

// quoteEnd returns the offset after the closing quote. The opening quote is at i-1.
func quoteEnd(b []byte, i int) int {
	from := i
	for {
		i += bytes.IndexByte(b[i:], '"')
		backslash := i
		for backslash > from && b[backslash-1] == '\\' {
			backslash--
		}
		i++
		if (i-1-backslash)%2 == 0 {
			return i
		}
	}
}

func valueEnd(b []byte, i int) int {
	switch b[i] {
	case '"':
		return quoteEnd(b, i+1)
	case '{', '[':
		return nestEnd(b, i)
	}
	for i < len(b) && b[i] > ' ' && b[i] != ',' && b[i] != '}' && b[i] != ']' {
		i++
	}
	return i
}

func nestEnd(b []byte, i int) int {
	for depth := 0; ; i++ {
		switch b[i] {
		case '"':
			i = quoteEnd(b, i+1) - 1
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return i + 1
			}
		}
	}
}

// unescapeBytes unescapes raw, the inside of a string literal. Without an escape, the result is raw itself.
func unescapeBytes(raw []byte) []byte {
	if bytes.IndexByte(raw, '\\') < 0 {
		return raw
	}
	return appendUnescaped(make([]byte, 0, len(raw)), raw)
}

// textBytes returns the text of the string at v, or nil for other values. Without escapes, the result is a slice of b.
func textBytes(b []byte, v span) []byte {
	if firstByteAt(b, v) != '"' {
		return nil
	}
	return unescapeBytes(v.inner().of(b))
}

func text(b []byte, v span) string {
	if firstByteAt(b, v) != '"' {
		return ""
	}
	raw := v.inner().of(b)
	if bytes.IndexByte(raw, '\\') < 0 {
		return string(raw)
	}
	return unescapeString(raw)
}

// unescapeString unescapes raw, the inside of a string literal. Most texts fit into the buffer on the stack, so the
// string is the only allocation.
func unescapeString(raw []byte) string {
	var buffer [2 << 10]byte
	if len(raw) > len(buffer) {
		return string(appendUnescaped(make([]byte, 0, len(raw)), raw))
	}
	return string(appendUnescaped(buffer[:0], raw))
}

// appendUnescaped appends the text for raw, the inside of a string literal. An unpaired surrogate becomes U+FFFD.
// Invalid UTF-8 stays unchanged.
func appendUnescaped(dst, raw []byte) []byte {
	for {
		n := bytes.IndexByte(raw, '\\')
		if n < 0 {
			return append(dst, raw...)
		}
		dst = append(dst, raw[:n]...)
		c := raw[n+1]
		raw = raw[n+2:]
		if c != 'u' {
			if n := strings.IndexByte("ntrbf", c); n >= 0 {
				c = "\n\t\r\b\f"[n]
			}
			dst = append(dst, c)
			continue
		}
		r := hex4(raw)
		raw = raw[4:]
		if utf16.IsSurrogate(r) {
			pair := rune(utf8.RuneError)
			if len(raw) >= 6 && raw[0] == '\\' && raw[1] == 'u' {
				pair = utf16.DecodeRune(r, hex4(raw[2:]))
			}
			if r = pair; r != utf8.RuneError {
				raw = raw[6:]
			}
		}
		dst = utf8.AppendRune(dst, r)
	}
}
