package lesson

import "unicode/utf8"

// What is searched of one text: its head and its tail. People paste logs of megabytes; the words stand at the ends.
const (
	maxText  = 256 << 10
	halfText = maxText / 2
)

// Blobs are runs of base64 characters: from blobMixed on when upper case, lower case and digits are mixed as only an
// encoding does, from blobLong on in any case, unless separators are so dense that it is a path or an identifier.
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

// appendText folds a text into classes: case and white space folded, invisible runes dropped, blobs cut out.
func (a *alphabet) appendText(dst []class, s string) []class {
	if len(s) > maxText {
		dst = a.appendPart(dst, s[:halfText])
		dst = append(dst, classBreak)
		s = s[len(s)-halfText:]
	}
	return a.appendPart(dst, s)
}

func (a *alphabet) appendPart(dst []class, s string) []class {
	space := true   // leading white space is dropped
	run := 0        // where the current run of base64 characters starts in s
	out := len(dst) // and in dst
	for i := 0; i < len(s); {
		b := s[i]
		if b < utf8.RuneSelf {
			c := a.ascii[b]
			i++
			if c&asciiBlob != 0 {
				dst, space = append(dst, c&^asciiBlob), false
				continue
			}
			if i-1-run >= blobMixed && isBlob(s[run:i-1]) {
				dst, space = append(dst[:out], classBreak), false
			}
			if c == classSpace {
				if !space {
					dst, space = append(dst, classSpace), true
				}
			} else {
				dst, space = append(dst, c), false
			}
			run, out = i, len(dst)
			continue
		}
		if i-run >= blobMixed && isBlob(s[run:i]) {
			dst, space = append(dst[:out], classBreak), false
		}
		r, size := utf8.DecodeRuneInString(s[i:])
		i += size
		dst, space = a.appendRune(dst, r, space)
		run, out = i, len(dst)
	}
	if len(s)-run >= blobMixed && isBlob(s[run:]) {
		dst = append(dst[:out], classBreak)
	}
	return dst
}

func (a *alphabet) appendRune(dst []class, r rune, space bool) ([]class, bool) {
	const dotAbove = 0x0307
	switch c := a.class(r); {
	case c == classDrop:
		return dst, space
	case r == dotAbove && len(dst) > 0 && dst[len(dst)-1] == a.class('i'):
		return dst, space // the lower case of İ is i with a dot above it
	case c == classSpace:
		if !space {
			dst = append(dst, classSpace)
		}
		return dst, true
	default:
		return append(dst, c), false
	}
}
