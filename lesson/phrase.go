package lesson

import (
	"slices"
	"unicode"
)

// maxRun is how many word characters a * stands for at most. It bounds the work on one very long
// word.
const maxRun = 256

const star rune = -1

// foldPhrase brings a phrase to the form that is compared: case folded, white space folded and
// trimmed, invisible runes dropped, each * that touches a letter or digit a star (neighbouring ones
// are one). Any other * stands for itself, as in "select * from".
func foldPhrase(s string) []rune {
	out := make([]rune, 0, len(s))
	for _, r := range s {
		last := rune(0)
		if len(out) > 0 {
			last = out[len(out)-1]
		}
		switch {
		case unicode.IsSpace(r):
			if len(out) > 0 && last != ' ' {
				out = append(out, ' ')
			}
		case invisible(r), r == 0x0307 && last == 'i':
		default:
			out = append(out, fold(r))
		}
	}
	if n := len(out); n > 0 && out[n-1] == ' ' {
		out = out[:n-1]
	}
	return withStars(out)
}

// withStars makes stars of those * that are wildcards.
func withStars(folded []rune) []rune {
	out := folded[:0]
	for i := 0; i < len(folded); i++ {
		if folded[i] != '*' {
			out = append(out, folded[i])
			continue
		}
		end := i
		for end < len(folded) && folded[end] == '*' {
			end++
		}
		if i > 0 && inWord(folded[i-1]) || end < len(folded) && inWord(folded[end]) {
			out = append(out, star)
		} else {
			out = append(out, folded[i:end]...)
		}
		i = end - 1
	}
	return out
}

// inWord says whether a rune makes words: a letter, a digit, an underscore.
func inWord(r rune) bool {
	c := baseClass(r)
	return c == classWord || c == classIsolated
}

// phraseKey is the folded phrase as a string: equal for phrases that match the same texts.
func phraseKey(s string) string { return string(starsBack(foldPhrase(s))) }

func starsBack(rs []rune) []rune {
	for i, r := range rs {
		if r == star {
			rs[i] = '*'
		}
	}
	return rs
}

// phraseFires says whether a phrase may trigger anything: it has a letter or digit and something
// beside it, and is no stop word. A person who writes the keyword "the" is told so by the checks;
// until then the keyword stays silent rather than firing in every session.
func phraseFires(folded []rune) bool {
	words, drawn := 0, 0
	for _, r := range folded {
		if r == star || r == ' ' {
			continue
		}
		drawn++
		switch baseClass(r) {
		case classIsolated:
			return true
		case classWord:
			words++
		}
	}
	return words > 0 && drawn > 1 && !isStopWord(string(starsBack(slices.Clone(folded))))
}

// pattern is one compiled phrase: its literal pieces between the stars, in classes of the inside of
// words. The longest piece stands in the automaton; the others are compared around it where it
// occurs.
type pattern struct {
	pieces      [][]class
	key         int  // index of the piece in the automaton
	left, right bool // a word boundary is required there
	owners      []owner
}

// compile makes the pattern of a folded phrase. All its runes must be in the alphabet.
func (a *alphabet) compile(folded []rune) pattern {
	var p pattern
	piece := []class{}
	flush := func() {
		if len(piece) > 0 {
			p.pieces = append(p.pieces, piece)
		}
		piece = []class{}
	}
	for _, r := range folded {
		switch r {
		case star:
			flush()
		case ' ':
			piece = append(piece, classSpace)
		default:
			piece = append(piece, a.class(r))
		}
	}
	flush()
	for i := range p.pieces {
		if len(p.pieces[i]) > len(p.pieces[p.key]) {
			p.key = i
		}
	}
	first, last := p.pieces[0], p.pieces[len(p.pieces)-1]
	p.left = folded[0] != star && a.joins(first[0])
	p.right = folded[len(folded)-1] != star && a.joins(last[len(last)-1])
	return p
}

// keys are the forms in which the key piece stands in a folded text: behind a star its first letter
// may begin a word or not, everywhere else that is known.
func (a *alphabet) keys(p *pattern) [][]class {
	piece := p.pieces[p.key]
	inside := make([]class, len(piece))
	for i, c := range piece {
		if i > 0 && !a.joins(piece[i-1]) {
			c = a.start(c)
		}
		inside[i] = c
	}
	if !a.joins(piece[0]) {
		return [][]class{inside}
	}
	begins := slices.Clone(inside)
	begins[0] = a.start(piece[0])
	if p.key == 0 && p.left {
		return [][]class{begins}
	}
	return [][]class{begins, inside}
}

// at says whether the pattern stands in text with its key piece, found by the automaton, ending
// before end. The places that are tried are taken off left.
func (a *alphabet) at(p *pattern, text []class, end int, left *int) bool {
	start := end - len(p.pieces[p.key])
	return a.before(p, text, start, left) && a.after(p, text, end, left)
}

// after compares the pieces behind the key piece. Each is taken at its first place within the
// star's run: that leaves the most room to the rest, so no place has to be tried twice. Only the
// last piece may have to stand at a boundary, and then the first place that does is taken.
func (a *alphabet) after(p *pattern, text []class, at int, left *int) bool {
	for i := p.key + 1; i < len(p.pieces); i++ {
		piece, last := p.pieces[i], i == len(p.pieces)-1
		found := false
		for run := 0; run <= maxRun && at+len(piece) <= len(text); run++ {
			*left--
			if a.prefix(text[at:], piece) && (!last || !p.right || a.boundary(text, at+len(piece))) {
				found = true
				break
			}
			if !a.word(text[at]) {
				break
			}
			at++
		}
		if !found {
			return false
		}
		at += len(piece)
	}
	return p.key != len(p.pieces)-1 || !p.right || a.boundary(text, at)
}

// before is the mirror of after.
func (a *alphabet) before(p *pattern, text []class, at int, left *int) bool {
	for i := p.key - 1; i >= 0; i-- {
		piece := p.pieces[i]
		found := false
		for run := 0; run <= maxRun && at >= len(piece); run++ {
			*left--
			if a.prefix(text[at-len(piece):], piece) && (i > 0 || !p.left || a.boundary(text, at-len(piece))) {
				found = true
				break
			}
			if !a.word(text[at-1]) {
				break
			}
			at--
		}
		if !found {
			return false
		}
		at -= len(piece)
	}
	return p.key != 0 || !p.left || a.boundary(text, at)
}
