package lesson

import (
	"bytes"
	"slices"
	"strings"
	"unicode/utf8"
)

// maxRun is the maximum number of word characters that a * matches. It bounds the work for very long words.
const maxRun = 256

// phrase is a folded trigger phrase, split at wildcards. A wildcard matches word characters. In the AIP-11 form, a * is
// a wildcard only next to a letter or digit, so not in "select * from". In the gptme form, every * is a wildcard.
type phrase struct {
	key                    string   // text with starByte for each wildcard; phrases with equal keys are equivalent
	pieces                 [][]byte // texts between the wildcards
	longest                int      // index of the longest piece, which the automaton searches for
	atWordStart, atWordEnd bool     // the phrase must start or end a word
	letters                int      // letters in the first word
}

// Key parts. 0xFE and 0xFF occur in no UTF-8 text.
const (
	starByte   = 0xFF           // wildcard
	errorKey   = "\xFEerror "   // precedes an error kind
	requestKey = "\xFErequest " // precedes a request kind
)

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

// touchesWord reports whether a letter or digit is next to text[from:to].
func touchesWord(text []byte, from, to int) bool {
	before, after := kindsAround(text, from, to)
	return before != punctuationKind || after != punctuationKind
}

// holdsLiteralStar reports whether s contains a * that is literal in the AIP-11 form.
func holdsLiteralStar(s string) bool { return strings.Contains(readPhrase(s, FormAIP11).key, "*") }

func tagKey(tag string) string {
	return strings.TrimSpace(string(appendText(nil, tag)))
}

// canTrigger reports whether a phrase can trigger a lesson. A stop word cannot, because "the" would trigger a lesson in
// every session. A phrase needs a letter or digit, and two characters, except in a script without spaces.
func (p *phrase) canTrigger() bool {
	words, nonBlank := 0, 0
	for _, r := range string(slices.Concat(p.pieces...)) {
		if r != ' ' {
			nonBlank++
		}
		switch classifyRune(r) {
		case loneKind:
			return true
		case wordKind:
			words++
		case punctuationKind:
		}
	}
	return words > 0 && nonBlank > 1 && !isStopWord(p.key)
}

// endsAt reports whether text contains the phrase such that the phrase's longest piece ends at end. Each compared
// position reduces budget.
func (p *phrase) endsAt(text []byte, end int, budget *int) bool {
	return p.matchBefore(text, end-len(p.pieces[p.longest]), budget) && p.matchAfter(text, end, budget)
}

// matchAfter reports whether the pieces after the longest piece occur in text from at on. It uses the first match of
// each piece, which leaves the most text for the next piece, so each position is compared only once.
func (p *phrase) matchAfter(text []byte, at int, budget *int) bool {
	for i := p.longest + 1; i < len(p.pieces); i++ {
		piece, last := p.pieces[i], i == len(p.pieces)-1
		for run := 0; ; run++ {
			*budget--
			if bytes.HasPrefix(text[at:], piece) && (!last || !p.atWordEnd || canEndPhrase(text, at+len(piece))) {
				break
			}
			r, size := utf8.DecodeRune(text[at:])
			if run == maxRun || classifyRune(r) == punctuationKind {
				return false
			}
			at += size
		}
		at += len(piece)
	}
	return p.longest != len(p.pieces)-1 || !p.atWordEnd || canEndPhrase(text, at)
}

// matchBefore reports whether the pieces before the longest piece occur in text before at. It works like matchAfter,
// backwards.
func (p *phrase) matchBefore(text []byte, at int, budget *int) bool {
	for i := p.longest - 1; i >= 0; i-- {
		piece := p.pieces[i]
		for run := 0; ; run++ {
			*budget--
			if bytes.HasSuffix(text[:at], piece) && (i > 0 || !p.atWordStart || canStartPhrase(text, at-len(piece), p.letters)) {
				break
			}
			r, size := utf8.DecodeLastRune(text[:at])
			if run == maxRun || classifyRune(r) == punctuationKind {
				return false
			}
			at -= size
		}
		at -= len(piece)
	}
	return p.longest != 0 || !p.atWordStart || canStartPhrase(text, at, p.letters)
}
