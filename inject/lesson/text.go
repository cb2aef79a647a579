package lesson

import (
	"slices"
	"unicode/utf8"
)

// Only the start and the end of a long text are searched, because people paste megabytes of logs before or after their
// own words.
const (
	maxText  = 64 << 10    // bytes searched as a whole
	halfText = maxText / 2 // bytes at each end of a longer text
)

// Minimum lengths for a blob, a sequence of base64 characters with encoded data. A sequence with many separators is a
// path or identifier.
const (
	minMixedBlob = 64  // with upper case, lower case and digits
	minLongBlob  = 256 // with any characters
)

// blobBytes maps base64 characters to lower case, and other bytes to 0. A table is used because it is fast and every
// byte of a text is looked up.
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
	if len(run) < minMixedBlob {
		return false
	}
	var upper, lower, digit, separators int
	for i := range len(run) {
		switch b := run[i]; {
		case b >= 'a' && b <= 'z':
			lower++
		case b >= 'A' && b <= 'Z':
			upper++
		case b >= '0' && b <= '9':
			digit++
		default:
			separators++
		}
	}
	if len(run) >= minLongBlob && separators <= len(run)/8 {
		return true
	}
	return upper > 0 && lower > 0 && digit > 0 && separators <= len(run)/16
}

// omittedByte replaces omitted text. UTF-8 never contains this byte, so no phrase matches across it.
const omittedByte = 0xFF

// appendText appends s in folded form, without blobs. If s is very long, its middle is omitted as well.
func appendText(dst []byte, s string) []byte {
	if len(s) > maxText {
		dst = append(appendPart(dst, s[:halfText]), omittedByte)
		s = s[len(s)-halfText:]
	}
	return appendPart(dst, s)
}

func appendPart(dst []byte, s string) []byte {
	s = toNFKC(s)
	if len(s) > maxText { // toNFKC can replace one character by eighteen
		s = s[:maxText]
	}
	dst = slices.Grow(dst, len(s))
	runStart, dstStart := 0, len(dst) // where the current base64 sequence starts, in s and in dst
	for i := 0; i < len(s); {
		if c := blobBytes[s[i]]; c != 0 {
			dst = append(dst, c)
			i++
			continue
		}
		if i-runStart >= minMixedBlob && isBlob(s[runStart:i]) {
			dst = append(dst[:dstStart], omittedByte)
		}
		r, size := rune(s[i]), 1
		if r >= utf8.RuneSelf {
			r, size = utf8.DecodeRuneInString(s[i:])
		}
		dst = appendFolded(dst, r)
		i += size
		runStart, dstStart = i, len(dst)
	}
	if isBlob(s[runStart:]) {
		dst = append(dst[:dstStart], omittedByte)
	}
	return dst
}
