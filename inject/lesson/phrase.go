package lesson

import (
	"bytes"
	"slices"
	"strings"
	"unicode/utf8"
)

// maxRun is the maximum number of word characters that a * matches, so that a very long word costs little work.
const maxRun = 256

// phrase is a trigger phrase in folded form, split at its wildcards. A wildcard matches any number of word characters.
// A * next to a letter or digit is a wildcard, and adjacent * are one wildcard. In the AIP-11 form, any other * is
// literal, as in "select * from". In the gptme form, every * is a wildcard.
type phrase struct {
	key                    string   // folded phrase with starByte in place of each wildcard; phrases with equal keys match the same texts
	pieces                 [][]byte // texts before, between and after the wildcards
	longest                int      // index of the longest piece, for which the automaton searches
	atWordStart, atWordEnd bool     // the phrase must start at the start of a word, and end at the end of a word
	letters                int      // number of letters in the first word
}

// Parts of the keys of phrases and kinds. The bytes 0xFE and 0xFF occur in no UTF-8 text, and therefore in no phrase.
const (
	starByte   = 0xFF           // represents a wildcard in the key of a phrase
	errorKey   = "\xFEerror "   // prefix of the key of an error kind
	requestKey = "\xFErequest " // prefix of the key of a kind of request
)

// readPhrase parses the text of a phrase in a file of the given form.
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
	p.atWordStart, p.atWordEnd = first == wordKind, end == wordKind
	return p
}

// touchesWord reports whether text[from:to] has a letter or digit directly before or after it.
func touchesWord(text []byte, from, to int) bool {
	before, after := kindsAround(text, from, to)
	return before != punctuationKind || after != punctuationKind
}

// holdsLiteralStar reports whether a phrase contains a * that is literal in the AIP-11 form.
func holdsLiteralStar(s string) bool { return strings.Contains(readPhrase(s, FormAIP11).key, "*") }

// tagKey returns a tag in folded form.
func tagKey(tag string) string {
	return strings.TrimSpace(string(appendText(nil, tag)))
}

// canTrigger reports whether a phrase may trigger a lesson. The phrase must not be a stop word, because a keyword such
// as "the" would trigger its lesson in every session. It must have a letter or digit, and at least two characters
// unless it contains a word of a script without spaces. Checks reports the phrases that cannot fire.
func (p *phrase) canTrigger() bool {
	words, nonBlank := 0, 0
	for _, r := range string(slices.Concat(p.pieces...)) {
		if r != ' ' {
			nonBlank++
		}
		switch runeKindOf(r) {
		case loneKind:
			return true
		case wordKind:
			words++
		case punctuationKind:
		}
	}
	return words > 0 && nonBlank > 1 && !isStopWord(p.key)
}

// endsAt reports whether text contains the phrase with its longest piece directly before the offset end. endsAt
// subtracts the number of positions at which it compares a piece from budget.
func (p *phrase) endsAt(text []byte, end int, budget *int) bool {
	return p.matchBefore(text, end-len(p.pieces[p.longest]), budget) && p.matchAfter(text, end, budget)
}

// matchAfter reports whether the pieces after the longest piece follow the offset at. It takes the first match of each
// piece, which leaves most of the text for the next pieces, so that it compares each position only once. If p.atWordEnd
// is set, the last piece must end at the end of a word.
func (p *phrase) matchAfter(text []byte, at int, budget *int) bool {
	for i := p.longest + 1; i < len(p.pieces); i++ {
		piece, last := p.pieces[i], i == len(p.pieces)-1
		for run := 0; ; run++ {
			*budget--
			if bytes.HasPrefix(text[at:], piece) && (!last || !p.atWordEnd || canEndPhrase(text, at+len(piece))) {
				break
			}
			r, size := utf8.DecodeRune(text[at:])
			if run == maxRun || runeKindOf(r) == punctuationKind {
				return false
			}
			at += size
		}
		at += len(piece)
	}
	return p.longest != len(p.pieces)-1 || !p.atWordEnd || canEndPhrase(text, at)
}

// matchBefore reports whether the pieces before the longest piece precede the offset at. It works backwards like
// matchAfter.
func (p *phrase) matchBefore(text []byte, at int, budget *int) bool {
	for i := p.longest - 1; i >= 0; i-- {
		piece := p.pieces[i]
		for run := 0; ; run++ {
			*budget--
			if bytes.HasSuffix(text[:at], piece) && (i > 0 || !p.atWordStart || canStartPhrase(text, at-len(piece), p.letters)) {
				break
			}
			r, size := utf8.DecodeLastRune(text[:at])
			if run == maxRun || runeKindOf(r) == punctuationKind {
				return false
			}
			at -= size
		}
		at -= len(piece)
	}
	return p.longest != 0 || !p.atWordStart || canStartPhrase(text, at, p.letters)
}
