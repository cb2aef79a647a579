package request

import (
	"fmt"
	"iter"
	"slices"
	"strings"
)

// maxGap is the maximum number of tokens that a * covers.
const maxGap = 5

// pattern is a wording: elements that follow each other in a sentence.
type pattern struct {
	kind     int
	elements []element
}

// element is a part of a pattern: alternatives, a gap, or a condition on a place.
type element struct {
	gap, start, end bool
	words           []bool  // single words, by their numbers
	shapes          shape   // shapes of a single word
	longer          [][]int // alternatives of several words: the numbers of the words
	firsts          []bool  // first words of the longer alternatives, by their numbers
}

// vocabulary numbers the words of the table, and the beginnings of words. The number 0 means no word.
type vocabulary struct {
	words    map[string]int
	prefixes map[string]int // by text of at least minPrefix bytes
	size     int
}

// Bytes of the beginning of a word in a pattern.
const (
	minPrefix = 3
	maxPrefix = 12
)

// number returns the number of a term: a word, or with a ~ the beginning of a word.
func (v *vocabulary) number(term string) (int, error) {
	list := v.words
	text, prefix := strings.CutSuffix(term, "~")
	if prefix {
		list = v.prefixes
	}
	if text == "" || prefix && (len(text) < minPrefix || len(text) > maxPrefix) {
		return 0, fmt.Errorf("the word %q is too short or too long", term)
	}
	if list[text] == 0 {
		v.size++
		list[text] = v.size
	}
	return list[text], nil
}

// readPattern reads a pattern: elements that blanks separate. "^" is the start of a clause, "$" the end of a
// clause, "*" at most maxGap words of one clause.
func (t *table) readPattern(kind int, text string) (pattern, error) {
	p := pattern{kind: kind}
	for field := range strings.FieldsSeq(text) {
		e, err := t.readElement(field)
		if err != nil {
			return p, err
		}
		p.elements = append(p.elements, e)
	}
	if first := p.first(); first > 1 || first == 1 && !p.elements[0].start {
		return p, fmt.Errorf("the pattern %q begins with a *", text)
	}
	return p, nil
}

// first returns the number of the first element with words.
func (p *pattern) first() int {
	return slices.IndexFunc(p.elements, func(e element) bool { return !e.gap && !e.start && !e.end })
}

// readElement reads an element: "^", "$", "*", or alternatives that "|" separates. An alternative is a word, the
// beginning of a word ("fail~"), several words ("pull_request"), a shape ("{file}"), or a class ("@test").
func (t *table) readElement(text string) (e element, err error) {
	switch text {
	case "^":
		return element{start: true}, nil
	case "$":
		return element{end: true}, nil
	case "*":
		return element{gap: true}, nil
	}
	for alternative := range strings.SplitSeq(text, "|") {
		members := []string{alternative}
		if name, ok := strings.CutPrefix(alternative, "@"); ok {
			if members = t.classes[name]; len(members) == 0 {
				return e, fmt.Errorf("the class %q has no line", name)
			}
		}
		for _, m := range members {
			if err := t.addAlternative(&e, m); err != nil {
				return e, err
			}
		}
	}
	return e, nil
}

// addAlternative adds an alternative to an element.
func (t *table) addAlternative(e *element, text string) error {
	if strings.HasPrefix(text, "{") {
		s, ok := shapes[text]
		if !ok {
			return fmt.Errorf("the shape %s is unknown", text)
		}
		e.shapes |= s
		return nil
	}
	var numbers []int
	for word := range strings.SplitSeq(text, "_") {
		n, err := t.vocabulary.number(word)
		if err != nil {
			return err
		}
		numbers = append(numbers, n)
	}
	if len(numbers) > 1 {
		e.longer = append(e.longer, numbers)
		e.firsts = withNumber(e.firsts, numbers[0])
		return nil
	}
	e.words = withNumber(e.words, numbers[0])
	return nil
}

// withNumber adds a number to a set, and returns the set.
func withNumber(set []bool, n int) []bool {
	for len(set) <= n {
		set = append(set, false)
	}
	set[n] = true
	return set
}

// begins reports whether a token can begin a match of the element.
func (e *element) begins(tok *token) bool { return e.has(tok) || tok.in(e.firsts) }

// has reports whether one token matches the element.
func (e *element) has(tok *token) bool { return tok.shapes&e.shapes != 0 || tok.in(e.words) }

// lengths yields the numbers of tokens that the element matches at the start of the tokens.
func (e *element) lengths(tokens []token) iter.Seq[int] {
	return func(yield func(int) bool) {
		if len(tokens) == 0 || e.has(&tokens[0]) && !yield(1) || !tokens[0].in(e.firsts) {
			return
		}
		for _, numbers := range e.longer {
			if sequence(numbers, tokens) && !yield(len(numbers)) {
				return
			}
		}
	}
}

// matches reports whether the elements from index e on match the tokens from index at on.
func (p *pattern) matches(tokens []token, at, e int, steps *int) bool {
	if *steps--; *steps < 0 {
		return false
	}
	if e == len(p.elements) {
		return true
	}
	next := at < len(tokens) && tokens[at].clause // another clause begins
	switch el := &p.elements[e]; {
	case el.start:
		return at < len(tokens) && tokens[at].starts && p.matches(tokens, at, e+1, steps)
	case el.end:
		return (at == len(tokens) || next || isConjunction(tokens[at].text)) && p.matches(tokens, at, e+1, steps)
	case el.gap:
		for i := at; i <= min(at+maxGap, len(tokens)); i++ {
			if p.matches(tokens, i, e+1, steps) {
				return true
			}
			if i < len(tokens) && tokens[i].clause {
				return false
			}
		}
		return false
	case at == len(tokens) || next && e > p.first():
		return false
	default:
		for n := range el.lengths(tokens[at:]) {
			if p.matches(tokens, at+n, e+1, steps) {
				return true
			}
		}
		return false
	}
}

// sequence reports whether tokens of one clause begin with the words.
func sequence(numbers []int, tokens []token) bool {
	if len(tokens) < len(numbers) {
		return false
	}
	for i, n := range numbers {
		if i > 0 && tokens[i].clause || !tokens[i].is(n) {
			return false
		}
	}
	return true
}
