package request

import (
	"fmt"
	"iter"
	"slices"
	"strings"
)

// maxGap is the maximum number of tokens that a * matches.
const maxGap = 5

// pattern is a wording of a request, as elements that must follow each other in a sentence.
type pattern struct {
	kindIndex int
	elements  []element
}

// element is a part of a pattern: a list of alternatives, a gap, or the start or the end of a clause.
type element struct {
	isGap, isClauseStart, isClauseEnd bool
	words                             []bool  // by number of a word, whether the word is an alternative
	shapes                            shape   // shapes that are alternatives
	phrases                           [][]int // alternatives of several words, as the numbers of the words
	firstWords                        []bool  // by number of a word, whether one of phrases begins with the word
}

// vocabulary numbers the words and the prefixes of words that occur in the table. The number 0 means no word.
type vocabulary struct {
	words    map[string]int
	prefixes map[string]int // the keys have minPrefix to maxPrefix bytes
	size     int
}

// Limits of the length of a prefix in bytes.
const (
	minPrefix = 3
	maxPrefix = 12
)

// number returns the number of a term, which is a word, or a prefix of words with a ~ at the end.
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

// readPattern parses a pattern, whose elements are separated by blanks. "^" is the start of a clause, "$" is the end of
// a clause, and "*" matches at most maxGap words of one clause.
func (t *table) readPattern(kind int, text string) (pattern, error) {
	p := pattern{kindIndex: kind}
	for field := range strings.FieldsSeq(text) {
		e, err := t.readElement(field)
		if err != nil {
			return p, err
		}
		p.elements = append(p.elements, e)
	}
	if first := p.firstWordElement(); first > 1 || first == 1 && !p.elements[0].isClauseStart {
		return p, fmt.Errorf("the pattern %q begins with a *", text)
	}
	return p, nil
}

// firstWordElement returns the index of the first element with alternatives.
func (p *pattern) firstWordElement() int {
	return slices.IndexFunc(p.elements, func(e element) bool { return !e.isGap && !e.isClauseStart && !e.isClauseEnd })
}

// readElement parses an element: "^", "$", "*", or alternatives that are separated by "|". An alternative is a word, a
// prefix ("fail~"), several words ("pull_request"), a shape ("{file}"), or a class ("@test").
func (t *table) readElement(text string) (e element, err error) {
	switch text {
	case "^":
		return element{isClauseStart: true}, nil
	case "$":
		return element{isClauseEnd: true}, nil
	case "*":
		return element{isGap: true}, nil
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
		e.phrases = append(e.phrases, numbers)
		e.firstWords = addToSet(e.firstWords, numbers[0])
		return nil
	}
	e.words = addToSet(e.words, numbers[0])
	return nil
}

// addToSet adds a number to a set, and returns the set.
func addToSet(set []bool, n int) []bool {
	for len(set) <= n {
		set = append(set, false)
	}
	set[n] = true
	return set
}

// canBegin reports whether a token can begin a match of the element.
func (e *element) canBegin(tok *token) bool { return e.matches(tok) || tok.hasAnyOf(e.firstWords) }

// matches reports whether the token alone matches the element.
func (e *element) matches(tok *token) bool { return tok.shapes&e.shapes != 0 || tok.hasAnyOf(e.words) }

// matchLengths yields the length, in tokens, of each match of the element at the start of the tokens.
func (e *element) matchLengths(tokens []token) iter.Seq[int] {
	return func(yield func(int) bool) {
		if len(tokens) == 0 || e.matches(&tokens[0]) && !yield(1) || !tokens[0].hasAnyOf(e.firstWords) {
			return
		}
		for _, numbers := range e.phrases {
			if startsWith(numbers, tokens) && !yield(len(numbers)) {
				return
			}
		}
	}
}

// matches reports whether the elements from index e match the tokens from index at.
func (p *pattern) matches(tokens []token, at, e int, steps *int) bool {
	if *steps--; *steps < 0 {
		return false
	}
	if e == len(p.elements) {
		return true
	}
	next := at < len(tokens) && tokens[at].startsClause // the token begins another clause
	switch el := &p.elements[e]; {
	case el.isClauseStart:
		return at < len(tokens) && tokens[at].startsRequest && p.matches(tokens, at, e+1, steps)
	case el.isClauseEnd:
		return (at == len(tokens) || next || isConjunction(tokens[at].text)) && p.matches(tokens, at, e+1, steps)
	case el.isGap:
		for i := at; i <= min(at+maxGap, len(tokens)); i++ {
			if p.matches(tokens, i, e+1, steps) {
				return true
			}
			if i < len(tokens) && tokens[i].startsClause {
				return false
			}
		}
		return false
	case at == len(tokens) || next && e > p.firstWordElement():
		return false
	default:
		for n := range el.matchLengths(tokens[at:]) {
			if p.matches(tokens, at+n, e+1, steps) {
				return true
			}
		}
		return false
	}
}

// startsWith reports whether the tokens start with the words of the given numbers, in one clause.
func startsWith(numbers []int, tokens []token) bool {
	if len(tokens) < len(numbers) {
		return false
	}
	for i, n := range numbers {
		if i > 0 && tokens[i].startsClause || !tokens[i].hasNumber(n) {
			return false
		}
	}
	return true
}
