package wire

import (
	"encoding/binary"
	"encoding/hex"
	"math/bits"
	"unicode/utf8"
)

// Strings make up nine tenths of a body. The functions in this file find where strings end, and prove eight bytes at a
// time that strings have no control characters and no invalid escapes.

// Each constant except highs repeats one byte eight times, to compare eight bytes in one operation. highs has the
// highest bit of each byte set.
const (
	ones        = 0x0101010101010101
	highs       = 0x80 * ones
	quotes      = '"' * ones
	backslashes = '\\' * ones
	blanks      = ' ' * ones
)

// stopBits sets the highest bit of each byte in w that ends plain text: a quote, a backslash or a control character.
// Only the lowest set bit is reliable, because a subtraction can borrow from the bytes above.
func stopBits(w uint64) uint64 {
	q, s := w^quotes, w^backslashes
	return ((q-ones)&^q | (s-ones)&^s | (w-blanks)&^w) & highs
}

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

func hex4(b []byte) rune {
	var n [2]byte
	if _, err := hex.Decode(n[:], b[:4]); err != nil {
		return -1
	}
	return rune(binary.BigEndian.Uint16(n[:]))
}

// AppendString appends s as a JSON string. Invalid UTF-8 becomes U+FFFD, as in encoding/json.
func AppendString(dst []byte, s string) []byte {
	if !utf8.ValidString(s) {
		s = string([]rune(s))
	}
	return append(appendEscaped(append(dst, '"'), s), '"')
}

// appendEscaped appends s as the inside of a string literal, with only the required escapes. Invalid UTF-8 stays
// unchanged.
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
