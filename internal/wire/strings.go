package wire

import (
	"encoding/binary"
	"encoding/hex"
	"math/bits"
	"unicode/utf8"
)

// Strings are nine tenths of a body. The functions of this file find the end of a string, and prove that it has no
// control characters and no invalid escapes. They read eight bytes at once, because most bytes are plain text and need
// no other check.

// Words in which all eight bytes are the same.
const (
	ones        = 0x0101010101010101
	highs       = 0x80 * ones
	quotes      = '"' * ones
	backslashes = '\\' * ones
	blanks      = ' ' * ones
)

// stopBits sets the highest bit of each byte of w that ends a run of plain text in a string: a quote, a backslash, or a
// control character. Only the lowest set bit is reliable, because the subtraction may carry into higher bytes.
func stopBits(w uint64) uint64 {
	q, s := w^quotes, w^backslashes
	return ((q-ones)&^q | (s-ones)&^s | (w-blanks)&^w) & highs
}

// stringEnd returns the offset after the closing quote of the string whose text begins at i, or invalid.
func stringEnd(b []byte, i int) int {
	for i < len(b) {
		if i+8 <= len(b) {
			m := stopBits(binary.LittleEndian.Uint64(b[i:]))
			if m == 0 {
				i += 8
				continue
			}
			i += bits.TrailingZeros64(m) >> 3
		}
		switch c := b[i]; {
		case c == '"':
			return i + 1
		case c == '\\':
			if i = escapeEnd(b, i+1); i < 0 {
				return invalid
			}
		case c < ' ':
			return invalid
		default:
			i++
		}
	}
	return invalid
}

// escapeEnd returns the offset after the escape whose letter is at i, or invalid.
func escapeEnd(b []byte, i int) int {
	if i >= len(b) {
		return invalid
	}
	switch b[i] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return i + 1
	case 'u':
		if i+5 <= len(b) && hex4(b[i+1:]) >= 0 {
			return i + 5
		}
	}
	return invalid
}

// hex4 returns the value of four hexadecimal digits; -1 for other bytes.
func hex4(b []byte) rune {
	var n [2]byte
	if _, err := hex.Decode(n[:], b[:4]); err != nil {
		return -1
	}
	return rune(binary.BigEndian.Uint16(n[:]))
}

// AppendString appends s as a JSON string. Each byte that is not UTF-8 becomes U+FFFD, as in
// encoding/json.
func AppendString(dst []byte, s string) []byte {
	if !utf8.ValidString(s) {
		s = string([]rune(s))
	}
	return append(appendEscaped(append(dst, '"'), s), '"')
}

// appendEscaped appends s as the inside of a string literal. It writes only the required escapes, no HTML escapes, and
// keeps bytes that are not UTF-8.
func appendEscaped(dst []byte, s string) []byte {
	const digit = "0123456789abcdef"
	from := 0
	for i := range len(s) {
		c := s[i]
		if c >= ' ' && c != '"' && c != '\\' {
			continue
		}
		dst = append(dst, s[from:i]...)
		from = i + 1
		switch c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\n':
			dst = append(dst, '\\', 'n')
		case '\t':
			dst = append(dst, '\\', 't')
		case '\r':
			dst = append(dst, '\\', 'r')
		default:
			dst = append(dst, '\\', 'u', '0', '0', digit[c>>4], digit[c&15])
		}
	}
	return append(dst, s[from:]...)
}
