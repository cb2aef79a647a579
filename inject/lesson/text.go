package lesson

import (
	"slices"
	"unicode/utf8"
)

// Bounds of the searched part of a text. People paste logs of megabytes, with their own words at the ends.
const (
	maxText  = 64 << 10    // bytes of a text that is searched as a whole
	halfText = maxText / 2 // bytes of the head, and of the tail, of a longer text
)

// Minimum lengths of a blob, a run of base64 characters that is encoded data. A run with many separators is a path or
// an identifier.
const (
	blobMixed = 64  // length of a run with upper case, lower case and digits
	blobLong  = 256 // length of any other run
)

// blobBytes holds the lower-case form of each base64 character, and 0 for every other byte. A table is
// the fastest test, and the test runs for each byte of a text.
const blobBytes = "" +
	"\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00" +
	"\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00+\x00-\x00/0123456789\x00\x00\x00=\x00\x00" +
	"\x00abcdefghijklmnopqrstuvwxyz\x00\x00\x00\x00_" +
	"\x00abcdefghijklmnopqrstuvwxyz\x00\x00\x00\x00\x00" +
	zeros + zeros + zeros + zeros

const zeros = "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"

func isBlobByte(b byte) bool { return blobBytes[b] != 0 }

// isBlob reports whether a run of base64 characters is encoded data.
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

// cutOut replaces omitted text in a folded text. UTF-8 never contains this byte, so no phrase matches across it. The
// byte separates words.
const cutOut = 0xFF

// appendText folds a text (see appendFolded), without blobs and without the middle of a very long text.
func appendText(dst []byte, s string) []byte {
	if len(s) > maxText {
		dst = append(appendPart(dst, s[:halfText]), cutOut)
		s = s[len(s)-halfText:]
	}
	return appendPart(dst, s)
}

// appendPart appends a folded text with cutOut in place of each blob.
func appendPart(dst []byte, s string) []byte {
	s = compatible(s)
	if len(s) > maxText { // one character may become eighteen
		s = s[:maxText]
	}
	dst = slices.Grow(dst, len(s))
	run, at := 0, len(dst) // start of the present run of base64 characters, in s and in dst
	for i := 0; i < len(s); {
		if c := blobBytes[s[i]]; c != 0 {
			dst = append(dst, c)
			i++
			continue
		}
		if i-run >= blobMixed && isBlob(s[run:i]) {
			dst = append(dst[:at], cutOut)
		}
		r, size := rune(s[i]), 1
		if r >= utf8.RuneSelf {
			r, size = utf8.DecodeRuneInString(s[i:])
		}
		dst = appendFolded(dst, r)
		i += size
		run, at = i, len(dst)
	}
	if isBlob(s[run:]) {
		dst = append(dst[:at], cutOut)
	}
	return dst
}
