package wire

import (
	"bytes"
	"iter"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// The functions here walk bytes that the scanner has proved; on other bytes they would run out of
// bounds.

// members walks the object at v: each name (unescaped) and the span of its value. What is no object
// has none.
func members(b []byte, v span) iter.Seq2[[]byte, span] {
	return func(yield func([]byte, span) bool) {
		if kindAt(b, v) != '{' {
			return
		}
		s := scanner{b: b}
		i, more := s.open(v.start, '}', 1)
		for more {
			name, from := s.key(i)
			member := span{from, valueEnd(b, from)}
			if !yield(plain(name.of(b)), member) {
				return
			}
			i, more = s.next(member.end, '}')
		}
	}
}

// elements walks the array at v. What is no array has none.
func elements(b []byte, v span) iter.Seq[span] {
	return func(yield func(span) bool) {
		if kindAt(b, v) != '[' {
			return
		}
		s := scanner{b: b}
		i, more := s.open(v.start, ']', 1)
		for more {
			element := span{i, valueEnd(b, i)}
			if !yield(element) {
				return
			}
			i, more = s.next(element.end, ']')
		}
	}
}

// field is a member that is looked for, and where its place is noted.
type field struct {
	name string
	at   *span
}

// locate finds members of the object at v, of equal names the last. Those that are absent, and all
// of them where v is no object, stay as they are.
func locate(b []byte, v span, wanted ...field) {
	for name, m := range members(b, v) {
		for _, f := range wanted {
			if f.name == string(name) {
				*f.at = m
				break
			}
		}
	}
}

// member is the place of one member, an empty span where it is absent.
func member(b []byte, v span, name string) (found span) {
	for k, m := range members(b, v) {
		if string(k) == name {
			found = m
		}
	}
	return found
}

// kindAt is the first byte of the value: '"', '{', '[', 't', 'f', 'n', a digit or '-'; 0 for an
// absent one.
func kindAt(b []byte, v span) byte {
	if v.empty() {
		return 0
	}
	return b[v.start]
}

// quoteEnd returns the offset behind the quote that closes the string whose text begins at i.
func quoteEnd(b []byte, i int) int {
	from := i
	for {
		i += bytes.IndexByte(b[i:], '"')
		n := i
		for n > from && b[n-1] == '\\' {
			n--
		}
		i++
		if (i-1-n)%2 == 0 {
			return i
		}
	}
}

// valueEnd returns the offset behind the value at i.
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

// plain unescapes the inside of a string literal; without an escape it is the same bytes.
func plain(raw []byte) []byte {
	if bytes.IndexByte(raw, '\\') < 0 {
		return raw
	}
	return appendPlain(make([]byte, 0, len(raw)), raw)
}

// chars is the unescaped text of the string at v, nil when it is none; most often it is a part of
// b.
func chars(b []byte, v span) []byte {
	if kindAt(b, v) != '"' {
		return nil
	}
	return plain(v.inner().of(b))
}

// text is chars as a string.
func text(b []byte, v span) string { return string(chars(b, v)) }

// appendPlain appends the unescaped raw to dst. A surrogate without its half becomes U+FFFD; bytes
// that are no UTF-8 stay.
func appendPlain(dst, raw []byte) []byte {
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
