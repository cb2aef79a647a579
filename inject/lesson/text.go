package lesson

import (
	"slices"
	"unicode/utf8"
)

// Bounds of the part of a text that is searched for phrases. People paste logs of megabytes, and their own words are
// before or after the log.
const (
	maxText  = 64 << 10    // maximum number of bytes of a text that is searched as a whole
	halfText = maxText / 2 // number of bytes at the start and at the end of a longer text that are searched
)

// Minimum lengths of a blob in bytes. A blob is a sequence of base64 characters that is encoded data. A sequence with
// many separators is a path or an identifier, and not a blob.
const (
	blobMixed = 64  // for a sequence with upper-case letters, lower-case letters and digits
	blobLong  = 256 // for any other sequence
)

// blobBytes maps each base64 character to its lower-case form, and every other byte to 0. It is a table, because
// appendPart looks up each byte of a text.
const blobBytes = "" +
	"\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00" +
	"\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00+\x00-\x00/0123456789\x00\x00\x00=\x00\x00" +
	"\x00abcdefghijklmnopqrstuvwxyz\x00\x00\x00\x00_" +
	"\x00abcdefghijklmnopqrstuvwxyz\x00\x00\x00\x00\x00" +
	zeros + zeros + zeros + zeros

const zeros = "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"

func isBlobByte(b byte) bool { return blobBytes[b] != 0 }

// isBlob reports whether a sequence of base64 characters is encoded data.
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

// cutOut stands for omitted text in a folded text. UTF-8 never contains this byte, so no phrase matches across it.
const cutOut = 0xFF

// appendText appends the folded form of s (see appendFolded) to dst, without blobs and without the middle of a very
// long text.
func appendText(dst []byte, s string) []byte {
	if len(s) > maxText {
		dst = append(appendPart(dst, s[:halfText]), cutOut)
		s = s[len(s)-halfText:]
	}
	return appendPart(dst, s)
}

// appendPart appends the folded form of s to dst, with cutOut in place of each blob.
func appendPart(dst []byte, s string) []byte {
	s = toNFKC(s)
	if len(s) > maxText { // one character may become eighteen
		s = s[:maxText]
	}
	dst = slices.Grow(dst, len(s))
	run, at := 0, len(dst) // start of the present sequence of base64 characters, in s and in dst
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
