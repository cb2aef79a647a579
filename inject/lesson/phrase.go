package lesson

import (
	"bytes"
	"slices"
	"strings"
	"unicode/utf8"
)

// maxRun is the maximum number of word characters that a * matches. It limits the work on a very long word.
const maxRun = 256

// phrase is a trigger phrase in folded form, split at its wildcards. A wildcard matches any number of word characters.
// A * next to a letter or digit is a wildcard, and adjacent * are one wildcard. In the AIP-11 form, any other * is
// literal, as in "select * from". In the gptme form, every * is a wildcard.
type phrase struct {
	key         string   // folded phrase with starByte in place of each wildcard; phrases with equal keys match the same texts
	pieces      [][]byte // texts before, between and after the wildcards
	longest     int      // index of the longest piece, for which the automaton searches
	left, right bool     // the phrase must start at the start of a word, or end at the end of a word
	letters     int      // number of letters in the first word
}

// Parts of the keys of phrases and kinds. Their bytes 0xFE and 0xFF occur in no UTF-8 text, and therefore in no phrase.
const (
	starByte   = 0xFF           // stands for a wildcard in the key of a phrase
	errorKey   = "\xFEerror "   // prefix of the key of an error kind
	requestKey = "\xFErequest " // prefix of the key of a kind of request
)

// readPhrase returns the phrase of the text s in a file of the given form.
func readPhrase(s string, form Form) phrase {
	var folded, key, piece []byte
	for _, r := range toNFKC(s) {
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
	_, first := kindsAround(p.pieces[0], 0, 0)
	last := p.pieces[len(p.pieces)-1]
	end, _ := kindsAround(last, len(last), len(last))
	p.left, p.right = first == wordKind, end == wordKind
	return p
}

// touchesWord reports whether text[from:to] has a letter or digit directly before or after it.
func touchesWord(text []byte, from, to int) bool {
	before, after := kindsAround(text, from, to)
	return before != signKind || after != signKind
}

// holdsLiteralStar reports whether a phrase contains a * that is literal in the AIP-11 form.
func holdsLiteralStar(s string) bool { return strings.Contains(readPhrase(s, FormAIP11).key, "*") }

// tagKey returns a tag in folded form.
func tagKey(tag string) string {
	return strings.TrimSpace(string(appendText(nil, tag)))
}

// fires reports whether a phrase may trigger a lesson. A phrase must have a letter or digit and at least two
// characters, unless it contains a word of a script without spaces, and must not be a stop word. A keyword such as
// "the" would otherwise trigger its lesson in every session. Checks reports the phrases that cannot fire.
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

// endsAt reports whether text contains the phrase with its longest piece directly before the position end. endsAt
// subtracts from left the number of positions at which it compares a piece.
func (p *phrase) endsAt(text []byte, end int, left *int) bool {
	return p.matchBefore(text, end-len(p.pieces[p.longest]), left) && p.matchAfter(text, end, left)
}

// matchAfter reports whether the pieces after the longest piece follow the position at. It takes the first match of
// each piece, which leaves most of the text for the next pieces, so that it compares each position only once. The last
// piece must also end at the end of a word if p.right is set.
func (p *phrase) matchAfter(text []byte, at int, left *int) bool {
	for i := p.longest + 1; i < len(p.pieces); i++ {
		piece, last := p.pieces[i], i == len(p.pieces)-1
		for run := 0; ; run++ {
			*left--
			if bytes.HasPrefix(text[at:], piece) && (!last || !p.right || canEndPhrase(text, at+len(piece))) {
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
	return p.longest != len(p.pieces)-1 || !p.right || canEndPhrase(text, at)
}

// matchBefore reports whether the pieces before the longest piece precede the position at. It works backwards like
// matchAfter.
func (p *phrase) matchBefore(text []byte, at int, left *int) bool {
	for i := p.longest - 1; i >= 0; i-- {
		piece := p.pieces[i]
		for run := 0; ; run++ {
			*left--
			if bytes.HasSuffix(text[:at], piece) && (i > 0 || !p.left || canStartPhrase(text, at-len(piece), p.letters)) {
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
	return p.longest != 0 || !p.left || canStartPhrase(text, at, p.letters)
}
