package lesson

import (
	"slices"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// What is searched of one text: its head and its tail. People paste logs of megabytes; the words
// stand at the ends.
const (
	maxText  = 64 << 10
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

// isBlob judges a run of base64 characters.
func isBlob(run string) bool {
	if len(run) < blobMixed {
		return false
	}
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

// cutOut stands in a folded text for what was left out: nothing matches across it, and it bounds
// words. No UTF-8 holds it.
const cutOut = 0xFF

// appendText folds a text: see appendFolded. Blobs are cut out, and the middle of a very long text.
func appendText(dst []byte, s string) []byte {
	if len(s) > maxText {
		dst = append(appendPart(dst, s[:halfText]), cutOut)
		s = s[len(s)-halfText:]
	}
	return appendPart(dst, s)
}

func appendPart(dst []byte, s string) []byte {
	s = norm.NFC.String(s) // a keyboard writes ü as one character, a file name of macOS as two
	dst = slices.Grow(dst, len(s))
	run, at := 0, len(dst) // where the run of base64 characters that goes on begins, in s and in dst
	for i := 0; i < len(s); {
		if isBlobByte(s[i]) {
			dst = append(dst, lowerASCII(s[i]))
			i++
			continue
		}
		if isBlob(s[run:i]) {
			dst = append(dst[:at], cutOut)
		}
		r, size := utf8.DecodeRuneInString(s[i:])
		dst = appendFolded(dst, r)
		i += size
		run, at = i, len(dst)
	}
	if isBlob(s[run:]) {
		dst = append(dst[:at], cutOut)
	}
	return dst
}
