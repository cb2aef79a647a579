package detect

import (
	"slices"
	"strings"
)

// speech is what a person said, lower-cased and with white space folded. It knows which triples of
// bytes stand in the text: of the several hundred wordings that are looked for, nearly all are
// ruled out by a triple that is not there, and the text need not be searched for them.
type speech struct {
	text    string
	triples [1 << (tripleBits - 6)]uint64 // a set of hashes: what is not in it is not in the text
}

// tripleBits makes the set large enough for most of the 4,000 bytes that are read to be told apart.
const tripleBits = 14

func listen(low string) *speech {
	s := &speech{text: low}
	for i := 2; i < len(low); i++ {
		h := triple(low[i-2], low[i-1], low[i])
		s.triples[h>>6] |= 1 << (h & 63)
	}
	return s
}

// triple hashes three bytes (Knuth, The Art of Computer Programming 3, 6.4: multiplicative
// hashing).
func triple(a, b, c byte) uint32 {
	return (uint32(a) | uint32(b)<<8 | uint32(c)<<16) * 2654435761 >> (32 - tripleBits)
}

// mayHold says whether p can stand in the text.
func (s *speech) mayHold(p string) bool {
	for i := 2; i < len(p); i++ {
		if h := triple(p[i-2], p[i-1], p[i]); s.triples[h>>6]&(1<<(h&63)) == 0 {
			return false
		}
	}
	return true
}

// phrase: one of the phrases stands in the text on word boundaries.
func (s *speech) phrase(phrases ...string) bool {
	return slices.ContainsFunc(phrases, func(p string) bool { return s.mayHold(p) && phrase(s.text, p) })
}

// hasWord: one of the words stands in the text, wherever.
func (s *speech) hasWord(words ...string) bool {
	return slices.ContainsFunc(words, func(w string) bool { return s.mayHold(w) && strings.Contains(s.text, w) })
}
