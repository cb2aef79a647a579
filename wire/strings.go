package wire

import (
	"encoding/binary"
	"math/bits"
)

// Strings are nine tenths of a body. Here their end is found and their text proved: no control
// characters, no escape that JSON does not know. Short ones go by words of eight bytes. Long ones
// go by blocks of 64, where quotes and backslashes become bits: source code sent as JSON has an
// escape every ten bytes, and a branch for each of them would be guessed wrong by the processor
// half the time (16 ns each, measured; by bits it is 3).

// A byte of a word, for eight comparisons at once.
const (
	ones   = 0x0101010101010101
	highs  = 0x80 * ones
	lows   = 0x7f * ones
	quotes = '"' * ones
	slants = '\\' * ones
	blanks = ' ' * ones
)

// special marks the bytes of w that end a run of plain text in a string: quote, backslash, control.
// The lowest mark is exact; higher ones may be wrong, by the borrow.
func special(w uint64) uint64 {
	q, s := w^quotes, w^slants
	return ((q-ones)&^q | (s-ones)&^s | (w-blanks)&^w) & highs
}

// zeros gathers into eight bits which bytes of w are zero; exact.
func zeros(w uint64) uint64 {
	z := ^((w&lows + lows) | w) & highs
	return z * 0x0002040810204081 >> 56
}

// stringEnd returns the offset behind the closing quote of a string whose text begins at i, or bad.
func stringEnd(b []byte, i int) int {
	for range 6 { // most strings end here: names, words, pieces of a stream
		if i+8 > len(b) {
			break
		}
		m := special(binary.LittleEndian.Uint64(b[i:]))
		if m == 0 {
			i += 8
			continue
		}
		i += bits.TrailingZeros64(m) >> 3
		if b[i] == '"' {
			return i + 1
		}
		break
	}
	return longEnd(b, i)
}

// blockBits is 64 bytes of a string with one bit for each.
type blockBits struct{ quote, slant, control uint64 }

// bitsOf makes the bits; plain says that there are none. Written out word by word: shifts by
// constants are what makes it fast.
func bitsOf(p *[64]byte) (m blockBits, plain bool) {
	w0, w1 := binary.LittleEndian.Uint64(p[0:]), binary.LittleEndian.Uint64(p[8:])
	w2, w3 := binary.LittleEndian.Uint64(p[16:]), binary.LittleEndian.Uint64(p[24:])
	w4, w5 := binary.LittleEndian.Uint64(p[32:]), binary.LittleEndian.Uint64(p[40:])
	w6, w7 := binary.LittleEndian.Uint64(p[48:]), binary.LittleEndian.Uint64(p[56:])
	if special(w0)|special(w1)|special(w2)|special(w3)|special(w4)|special(w5)|special(w6)|special(w7) == 0 {
		return m, true
	}
	m.quote = zeros(w0^quotes) | zeros(w1^quotes)<<8 | zeros(w2^quotes)<<16 | zeros(w3^quotes)<<24 |
		zeros(w4^quotes)<<32 | zeros(w5^quotes)<<40 | zeros(w6^quotes)<<48 | zeros(w7^quotes)<<56
	m.slant = zeros(w0^slants) | zeros(w1^slants)<<8 | zeros(w2^slants)<<16 | zeros(w3^slants)<<24 |
		zeros(w4^slants)<<32 | zeros(w5^slants)<<40 | zeros(w6^slants)<<48 | zeros(w7^slants)<<56
	if (controls(w0)|controls(w1)|controls(w2)|controls(w3)|controls(w4)|controls(w5)|controls(w6)|controls(w7))&highs != 0 {
		const top = 0xe0 * ones
		m.control = zeros(w0&top) | zeros(w1&top)<<8 | zeros(w2&top)<<16 | zeros(w3&top)<<24 |
			zeros(w4&top)<<32 | zeros(w5&top)<<40 | zeros(w6&top)<<48 | zeros(w7&top)<<56
	}
	return m, false
}

// controls marks control characters as special does.
func controls(w uint64) uint64 { return (w - blanks) &^ w }

// longEnd is stringEnd by blocks.
func longEnd(b []byte, i int) int {
	carry := uint64(0) // 1: the last block ended with a backslash that escapes the first byte of the next
	for ; i+64 <= len(b); i += 64 {
		m, plain := bitsOf((*[64]byte)(b[i:]))
		if plain && carry == 0 {
			continue
		}
		escaped := carry
		if m.slant != 0 {
			escaped, carry = escapedBits(m.slant, carry)
		} else {
			carry = 0
		}
		text := ^uint64(0) // the bytes before the closing quote
		if quote := m.quote &^ escaped; quote != 0 {
			text = quote&-quote - 1
		}
		if m.control&text != 0 || !escapesFit(b, i, escaped&text) {
			return bad
		}
		if text != ^uint64(0) {
			return i + bits.OnesCount64(text) + 1
		}
	}
	if carry != 0 {
		if i = escapeEnd(b, i); i < 0 {
			return bad
		}
	}
	return shortEnd(b, i)
}

// escapedBits says which bytes of a block are escaped: those behind an odd run of backslashes. The
// subtraction carries through each run at once (Langdale and Lemire, Parsing Gigabytes of JSON per
// Second, section 3.1.1).
func escapedBits(slant, carry uint64) (escaped, next uint64) {
	const odd = 0xaaaaaaaaaaaaaaaa
	slant &^= carry
	ends := ((slant<<1 | odd) - slant) ^ odd
	return ends ^ (slant | carry), ends & slant >> 63
}

// escapesFit says whether every escaped byte of the block at i makes an escape.
func escapesFit(b []byte, i int, escaped uint64) bool {
	p := (*[64]byte)(b[i:])
	for ; escaped != 0; escaped &= escaped - 1 {
		n := bits.TrailingZeros64(escaped) & 63
		if !shortEscape(p[n]) && escapeEnd(b, i+n) < 0 {
			return false
		}
	}
	return true
}

// shortEnd is stringEnd byte by byte, for the last block of the body.
func shortEnd(b []byte, i int) int {
	for i < len(b) && b[i] >= ' ' {
		switch b[i] {
		case '"':
			return i + 1
		case '\\':
			if i = escapeEnd(b, i+1); i < 0 {
				return bad
			}
		default:
			i++
		}
	}
	return bad
}

// The letters that make an escape of two bytes, as bits: of the bytes below 64, and of those from
// 64.
const (
	escapeLow  = 1<<'"' | 1<<'/'
	escapeHigh = 1<<('\\'-64) | 1<<('b'-64) | 1<<('f'-64) | 1<<('n'-64) | 1<<('r'-64) | 1<<('t'-64)
)

// shortEscape says whether a backslash and c are an escape. No switch: its jump would be guessed
// wrong.
func shortEscape(c byte) bool {
	return (uint64(escapeLow)>>c|uint64(escapeHigh)>>(c-64))&1 != 0
}

// escapeEnd returns the offset behind the escape whose letter stands at i, or bad.
func escapeEnd(b []byte, i int) int {
	if i >= len(b) {
		return bad
	}
	if shortEscape(b[i]) {
		return i + 1
	}
	if b[i] != 'u' || i+5 > len(b) || hex4(b[i+1:]) < 0 {
		return bad
	}
	return i + 5
}

// hex4 reads four hexadecimal digits; -1 when they are not.
func hex4(b []byte) rune {
	var r rune
	for _, c := range b[:4] {
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c|0x20 >= 'a' && c|0x20 <= 'f':
			c = c | 0x20 - 'a' + 10
		default:
			return -1
		}
		r = r<<4 | rune(c)
	}
	return r
}
