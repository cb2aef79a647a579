package lesson

import (
	"slices"
	"unicode/utf8"
)

// Limits of the part of a text that is searched for phrases. Only the start and the end of a long text are searched,
// because people paste logs of megabytes, and their own words are before or after the log.
const (
	maxText  = 64 << 10    // maximum number of bytes of a text that is searched as a whole
	halfText = maxText / 2 // number of bytes at the start and at the end of a longer text that are searched
)

// Minimum lengths of a blob in bytes. A blob is a sequence of base64 characters that is encoded data. A sequence with
// many separators is not a blob, but a path or an identifier.
const (
	minMixedBlob = 64  // for a sequence with upper-case letters, lower-case letters and digits
	minLongBlob  = 256 // for any other sequence
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

// omittedByte replaces omitted text in a folded text. UTF-8 never contains this byte, so no phrase matches across it.
const omittedByte = 0xFF

// appendText appends the folded form of s (see appendFolded) to dst, without blobs and without the middle of a very
// long text.
func appendText(dst []byte, s string) []byte {
	if len(s) > maxText {
		dst = append(appendPart(dst, s[:halfText]), omittedByte)
		s = s[len(s)-halfText:]
	}
	return appendPart(dst, s)
}

// appendPart appends the folded form of s to dst, with omittedByte in place of each blob.
func appendPart(dst []byte, s string) []byte {
	s = toNFKC(s)
	if len(s) > maxText { // toNFKC may replace one character by eighteen
		s = s[:maxText]
	}
	dst = slices.Grow(dst, len(s))
	runStart, dstStart := 0, len(dst) // start of the current sequence of base64 characters, in s and in dst
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
