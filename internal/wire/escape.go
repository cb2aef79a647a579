package wire

import "unicode/utf8"

// AppendString appends s as a JSON string. Bytes that are no UTF-8 become U+FFFD each, as
// encoding/json has it.
func AppendString(dst []byte, s string) []byte {
	if !utf8.ValidString(s) {
		s = string([]rune(s))
	}
	return append(appendEscaped(append(dst, '"'), s), '"')
}

// appendEscaped appends s as the inside of a string literal, with no more escapes than JSON wants:
// no HTML escapes, and bytes that are no UTF-8 stay as they are.
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
