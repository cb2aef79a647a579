package request

import (
	"fmt"
	"iter"
	"slices"
	"strings"
)

// maxGap is how many tokens a * matches at most.
const maxGap = 5

// pattern is one wording for a request.
type pattern struct {
	kindIndex int
	elements  []element
}

type element struct {
	isGap, isClauseStart, isClauseEnd bool
	words                             []bool  // by word number: whether the word is an alternative
	shapes                            shape   // alternative shapes
	phrases                           [][]int // alternatives with several words
	firstWords                        []bool  // by word number: whether one of phrases begins with the word
}

// vocabulary assigns a number to each word and prefix in the table. The number 0 means no word.
type vocabulary struct {
	words    map[string]int
	prefixes map[string]int // keys have minPrefix to maxPrefix bytes
	size     int
}

const (
	minPrefix = 3  // bytes
	maxPrefix = 12 // bytes
)

// number returns a term's number, and assigns a number to a term that has none. A term is a word, or a word prefix with
// a ~ at the end.
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

// readPattern parses a pattern such as "^ commit * $". "^" and "$" are the start and the end of a clause, and "*"
// matches at most maxGap words.
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

func (p *pattern) firstWordElement() int {
	return slices.IndexFunc(p.elements, func(e element) bool { return !e.isGap && !e.isClauseStart && !e.isClauseEnd })
}

// readElement parses "^", "$", "*", or alternatives separated by "|". An alternative is a word, a prefix ("fail~"),
// several words ("pull_request"), a shape ("{file}"), or a class ("@test").
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

func addToSet(set []bool, n int) []bool {
	for len(set) <= n {
		set = append(set, false)
	}
	set[n] = true
	return set
}

// matchesStart reports whether a match of the element can begin with the token.
func (e *element) matchesStart(tok *token) bool {
	return e.matches(tok) || tok.hasAnyWord(e.firstWords)
}

func (e *element) matches(tok *token) bool {
	return tok.shapes&e.shapes != 0 || tok.hasAnyWord(e.words)
}

// matchLengths yields the lengths, in tokens, of the element's matches at the start of tokens.
func (e *element) matchLengths(tokens []token) iter.Seq[int] {
	return func(yield func(int) bool) {
		if len(tokens) == 0 || e.matches(&tokens[0]) && !yield(1) || !tokens[0].hasAnyWord(e.firstWords) {
			return
		}
		for _, numbers := range e.phrases {
			if startsWith(numbers, tokens) && !yield(len(numbers)) {
				return
			}
		}
	}
}

// matches reports whether the elements from elementIndex on match the tokens from tokenIndex on. Each comparison
// reduces steps.
func (p *pattern) matches(tokens []token, tokenIndex, elementIndex int, steps *int) bool {
	if *steps--; *steps < 0 {
		return false
	}
	if elementIndex == len(p.elements) {
		return true
	}
	newClause := tokenIndex < len(tokens) && tokens[tokenIndex].startsClause
	switch el := &p.elements[elementIndex]; {
	case el.isClauseStart:
		return tokenIndex < len(tokens) && tokens[tokenIndex].startsRequest && p.matches(tokens, tokenIndex, elementIndex+1, steps)
	case el.isClauseEnd:
		return (tokenIndex == len(tokens) || newClause || isConjunction(tokens[tokenIndex].text)) && p.matches(tokens, tokenIndex, elementIndex+1, steps)
	case el.isGap:
		for i := tokenIndex; i <= min(tokenIndex+maxGap, len(tokens)); i++ {
			if p.matches(tokens, i, elementIndex+1, steps) {
				return true
			}
			if i < len(tokens) && tokens[i].startsClause {
				return false
			}
		}
		return false
	case tokenIndex == len(tokens) || newClause && elementIndex > p.firstWordElement():
		return false
	default:
		for n := range el.matchLengths(tokens[tokenIndex:]) {
			if p.matches(tokens, tokenIndex+n, elementIndex+1, steps) {
				return true
			}
		}
		return false
	}
}

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
