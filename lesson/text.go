package lesson

import (
	"slices"
	"unicode/utf8"
)

// What is searched of one text: its head and its tail. People paste logs of megabytes; the words
// stand at the ends.
const (
	maxText  = 256 << 10
	halfText = maxText / 2
)

// Blobs are runs of base64 characters: from blobMixed on when upper case, lower case and digits are
// mixed as only an encoding does, from blobLong on in any case, unless separators are so dense that
// it is a path or an identifier.
const (
	blobMixed = 64
	blobLong  = 256
)

func isBlobByte(b byte) bool {
	return b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b >= '0' && b <= '9' || b == '+' || b == '/' || b == '=' || b == '-' || b == '_'
}

// isBlob judges a run of base64 characters of at least blobMixed bytes.
func isBlob(run string) bool {
	var upper, lower, digit, sep int
	for i := range len(run) {
		switch b := run[i]; {
		case b >= 'a' && b <= 'z':
			lower++
		case b >= 'A' && b <= 'Z':
			upper++
		case b >= '0' && b <= '9':
			digit++
		default:
			sep++
		}
	}
	if len(run) >= blobLong && sep <= len(run)/8 {
		return true
	}
	return upper > 0 && lower > 0 && digit > 0 && sep <= len(run)/16
}

// appendText folds a text into classes: case and white space folded, invisible runes dropped, blobs
// cut out.
func (a *alphabet) appendText(dst []class, s string) []class {
	if len(s) > maxText {
		dst = a.appendPart(dst, s[:halfText])
		dst = append(dst, classBreak)
		s = s[len(s)-halfText:]
	}
	return a.appendPart(dst, s)
}

func (a *alphabet) appendPart(dst []class, s string) []class {
	n := len(dst)
	dst = slices.Grow(dst, len(s)+1)[:n+len(s)+1] // a rune gives at most one class
	space := true                                 // leading white space is dropped
	joined := class(0)                            // 1 when the last class joins the next one to its word
	run, out := 0, n                              // where the current run of base64 characters starts in s and in dst
	for i := 0; i < len(s); i++ {
		b := s[i]
		if b >= utf8.RuneSelf {
			if i-run >= blobMixed && isBlob(s[run:i]) {
				dst[out], n, joined, space = classBreak, out+1, 0, false
			}
			r, size := utf8.DecodeRuneInString(s[i:])
			n, joined, space = a.putRune(dst, n, r, joined, space)
			i += size - 1
			run, out = i+1, n
			continue
		}
		c := a.ascii[b]
		j := c >> shiftJoins & 1
		if c&bitBlob != 0 {
			dst[n], space = c&(bitJoins-1)+j&^joined, false
			joined = j
			n++
			continue
		}
		joined = j // no letter is beyond base64, so there is no beginning of a word here
		if i-run >= blobMixed && isBlob(s[run:i]) {
			dst[out], n, space = classBreak, out+1, false
		}
		if c != classSpace {
			dst[n], space = c&(bitJoins-1), false
			n++
		} else if !space {
			dst[n], space = classSpace, true
			n++
		}
		run, out = i+1, n
	}
	if len(s)-run >= blobMixed && isBlob(s[run:]) {
		dst[out], n = classBreak, out+1
	}
	return dst[:n]
}

// putRune is the slow path of appendPart, for a rune beyond ASCII.
func (a *alphabet) putRune(dst []class, n int, r rune, joined class, space bool) (int, class, bool) {
	const dotAbove = 0x0307
	c := a.class(r)
	switch {
	case c == classDrop:
		return n, joined, space
	case r == dotAbove && n > 0 && a.base[dst[n-1]] == a.class('i'):
		return n, joined, space // the lower case of İ is i with a dot above it
	case c == classSpace:
		if !space {
			dst[n] = classSpace
			n++
		}
		return n, 0, true
	}
	if !a.joins(c) {
		dst[n] = c
		return n + 1, 0, false
	}
	dst[n] = c + 1 - joined
	return n + 1, 1, false
}
