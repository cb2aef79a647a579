package lesson

import (
	"bytes"
	"slices"
	"strings"
	"unicode/utf8"
)

// maxRun is the maximum number of word characters that a * matches, which limits the work on one
// very long word.
const maxRun = 256

// phrase is a trigger in the form for comparison: folded text with stars. A star matches the rest of a word.
// A * next to a letter or digit is a star, and adjacent stars are one star. Any other * is literal in the
// AIP-11 form, as in "select * from". In the gptme form it is a star that matches one word.
type phrase struct {
	key         string   // folded, with the byte starByte for a star: equal for phrases that match identical texts
	pieces      [][]byte // texts before, between and after the stars
	longest     int      // index of the longest piece, which the automaton searches
	left, right bool     // a word must start at the left end, or end at the right end
	letters     int      // number of letters in the first word
}

// Parts of keys with bytes that occur in no UTF-8 text, and therefore in no phrase.
const (
	starByte   = 0xFF           // replaces a star
	errorKey   = "\xFEerror "   // begins the key of a kind of errors
	requestKey = "\xFErequest " // begins the key of a kind of requests
)

// readPhrase folds and splits a phrase of a file in the given form.
func readPhrase(s string, form Form) phrase {
	var folded, key, piece []byte
	for _, r := range compatible(s) {
		folded = appendFolded(folded, r)
	}
	folded = withoutArticle(bytes.TrimSuffix(folded, []byte(" ")))
	p := phrase{letters: firstLetters(folded)}
	for at := 0; at < len(folded); {
		end := at + 1
		for folded[at] == '*' && end < len(folded) && folded[end] == '*' {
			end++
		}
		if folded[at] == '*' && (form == FormGptme || touchesWord(folded, at, end)) {
			p.pieces, piece, key = append(p.pieces, piece), nil, append(key, starByte)
		} else {
			piece, key = append(piece, folded[at:end]...), append(key, folded[at:end]...)
		}
		at = end
	}
	p.key, p.pieces = string(key), append(p.pieces, piece)
	for i := range p.pieces {
		if len(p.pieces[i]) > len(p.pieces[p.longest]) {
			p.longest = i
		}
	}
	_, first := around(p.pieces[0], 0, 0)
	last := p.pieces[len(p.pieces)-1]
	end, _ := around(last, len(last), len(last))
	p.left, p.right = first == wordKind, end == wordKind
	return p
}

// touchesWord reports whether a letter or digit is next to one of the ends of a part of a text.
func touchesWord(text []byte, from, to int) bool {
	before, after := around(text, from, to)
	return before != signKind || after != signKind
}

// holdsLiteralStar reports whether a phrase holds a * that is a literal in the AIP-11 form.
func holdsLiteralStar(s string) bool { return strings.Contains(readPhrase(s, FormAIP11).key, "*") }

// tagKey returns a tag in the form for comparison.
func tagKey(tag string) string {
	return strings.TrimSpace(string(appendText(nil, tag)))
}

// fires reports whether a phrase may trigger a lesson. The phrase needs a letter or digit and at least two
// characters, and must not be a stop word. A keyword such as "the" would otherwise trigger in every session;
// the checks warn about the keyword.
func (p *phrase) fires() bool {
	words, drawn := 0, 0
	for _, r := range string(slices.Concat(p.pieces...)) {
		if r != ' ' {
			drawn++
		}
		switch kindOf(r) {
		case loneKind:
			return true
		case wordKind:
			words++
		case signKind:
		}
	}
	return words > 0 && drawn > 1 && !isStopWord(p.key)
}

// endsAt reports whether text contains the phrase such that the longest piece ends before end. endsAt subtracts
// the number of tried places from left.
func (p *phrase) endsAt(text []byte, end int, left *int) bool {
	return p.matchBefore(text, end-len(p.pieces[p.longest]), left) && p.matchAfter(text, end, left)
}

// matchAfter compares the pieces after the longest piece. Each is matched at its first place within the
// star's run, which leaves most room for the rest, so no place is tried twice. Only the last piece
// may require a boundary, and is matched at the first place with the boundary.
func (p *phrase) matchAfter(text []byte, at int, left *int) bool {
	for i := p.longest + 1; i < len(p.pieces); i++ {
		piece, last := p.pieces[i], i == len(p.pieces)-1
		for run := 0; ; run++ {
			*left--
			if bytes.HasPrefix(text[at:], piece) && (!last || !p.right || wordEnds(text, at+len(piece))) {
				break
			}
			r, size := utf8.DecodeRune(text[at:])
			if run == maxRun || kindOf(r) == signKind {
				return false
			}
			at += size
		}
		at += len(piece)
	}
	return p.longest != len(p.pieces)-1 || !p.right || wordEnds(text, at)
}

// matchBefore compares the pieces before the longest piece, as matchAfter compares the pieces after the
// longest piece.
func (p *phrase) matchBefore(text []byte, at int, left *int) bool {
	for i := p.longest - 1; i >= 0; i-- {
		piece := p.pieces[i]
		for run := 0; ; run++ {
			*left--
			if bytes.HasSuffix(text[:at], piece) && (i > 0 || !p.left || wordStarts(text, at-len(piece), p.letters)) {
				break
			}
			r, size := utf8.DecodeLastRune(text[:at])
			if run == maxRun || kindOf(r) == signKind {
				return false
			}
			at -= size
		}
		at -= len(piece)
	}
	return p.longest != 0 || !p.left || wordStarts(text, at, p.letters)
}
