package request

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"
	"sync"

	"precept/internal/spell"
)

// Kind is a request kind, such as "commit".
type Kind string

// KindInfo describes a kind.
type KindInfo struct {
	Name    Kind
	Meaning string // description for the documentation
}

// KindMatch is a kind with the first sentence that matches it.
type KindMatch struct {
	Kind     Kind
	Sentence string
}

// Limits for one search.
const (
	maxText      = 16 << 10 // bytes; in a longer text, half of this is searched at each end
	maxSentences = 256
	maxTokens    = 64      // per sentence
	maxSteps     = 1 << 17 // comparisons in all sentences; they take a few milliseconds
)

// Kinds returns the request kinds in a user's text, each once, in order. Code blocks and quoted lines are not searched.
func Kinds(text string) []KindMatch {
	if len(text) > maxText {
		text = text[:maxText/2] + "\n" + text[len(text)-maxText/2:]
	}
	s := search{table: kindTable(), stepsLeft: maxSteps}
	left := maxSentences
	for line := range unquotedLines(text) {
		for sentence := range Sentences(line) {
			if left--; left < 0 || s.stepsLeft <= 0 {
				return s.found
			}
			s.searchSentence(sentence)
		}
	}
	return s.found
}

// AllKinds returns all kinds in table order.
func AllKinds() []KindInfo { return slices.Clone(kindTable().kinds) }

// Nearest reports whether a kind exists, and returns the kind with the most similar name.
func Nearest(name string) (nearest Kind, known bool) {
	return spell.Closest(name, func(yield func(Kind) bool) {
		for _, k := range kindTable().kinds {
			if !yield(k.Name) {
				return
			}
		}
	})
}

// kindsText is the table of kinds. The first lines describe the format.
//
//go:embed kinds.tsv
var kindsText string

type table struct {
	kinds      []KindInfo
	classes    map[string][]string // alternatives by class name
	vocabulary vocabulary
	courtesy   element // words before a request, such as "please" or "can you"
	patterns   []pattern
	byWord     [][]int         // by word number: the patterns that can begin with the word
	byShape    map[shape][]int // patterns that can begin with a word of this shape
}

type row struct {
	pattern pattern
	example string
	place   string // place in the file, for errors
}

//nolint:gochecknoglobals // immutable, read at the first use
var kindTable = sync.OnceValue(func() *table {
	t, rows, err := readTable(kindsText)
	if err != nil {
		panic(err) // cannot happen, because a test reads the embedded file
	}
	t.index(rows)
	return t
})

// readTable parses a table without building the index.
func readTable(text string) (*table, []row, error) {
	t := &table{classes: map[string][]string{}, vocabulary: vocabulary{words: map[string]int{}, prefixes: map[string]int{}}}
	kindIndexByName := map[string]int{}
	var rows []row
	n := 0
	for line := range strings.Lines(text) {
		n++
		line = strings.TrimRight(line, "\n")
		if line == "" || line[0] == '#' {
			continue
		}
		place := fmt.Sprintf("kinds.tsv:%d", n)
		f := strings.Split(line, "\t")
		if len(f) != 3 || slices.Contains(f, "") {
			return nil, nil, fmt.Errorf("%s: want three fields, separated by tabs", place)
		}
		switch f[0] {
		case "class":
			t.classes[f[1]] = append(t.classes[f[1]], strings.Fields(f[2])...)
			continue
		case "kind":
			kindIndexByName[f[1]] = len(t.kinds)
			t.kinds = append(t.kinds, KindInfo{Kind(f[1]), f[2]})
			continue
		}
		kind, ok := kindIndexByName[f[0]]
		if !ok {
			return nil, nil, fmt.Errorf("%s: the kind %s has no line", place, f[0])
		}
		p, err := t.readPattern(kind, f[1])
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", place, err)
		}
		rows = append(rows, row{p, f[2], place})
	}
	courtesy, err := t.readElement("@courtesy")
	t.courtesy = courtesy
	return t, rows, err
}

func (t *table) index(rows []row) {
	t.byWord, t.byShape = make([][]int, t.vocabulary.size+1), map[shape][]int{}
	for _, r := range rows {
		first, number := &r.pattern.elements[r.pattern.firstWordElement()], len(t.patterns)
		t.patterns = append(t.patterns, r.pattern)
		for n := range t.byWord {
			if first.matchesStart(&token{numbers: []int{n}}) {
				t.byWord[n] = append(t.byWord[n], number)
			}
		}
		for _, s := range shapes {
			if first.shapes&s != 0 {
				t.byShape[s] = append(t.byShape[s], number)
			}
		}
	}
}

// search is the state of one Kinds call.
type search struct {
	table     *table
	found     []KindMatch
	tokens    []token // tokens in the current sentence
	numbers   []int   // backing array for the numbers in tokens
	stepsLeft int
}

func (s *search) searchSentence(text string) {
	s.tokenize(text)
	if !slices.ContainsFunc(s.tokens, func(t token) bool { return len(t.numbers) > 0 || t.shapes != 0 }) {
		return
	}
	s.table.markStarts(s.tokens)
	for at := range s.tokens {
		for _, n := range s.tokens[at].numbers {
			s.tryPatterns(s.table.byWord[n], at, text)
		}
		for rest := s.tokens[at].shapes; rest != 0; rest &= rest - 1 {
			s.tryPatterns(s.table.byShape[rest&-rest], at, text)
		}
	}
}

// tryPatterns adds the kinds with a pattern that matches at a token.
func (s *search) tryPatterns(patterns []int, at int, text string) {
	for _, n := range patterns {
		p := &s.table.patterns[n]
		if p.elements[0].isClauseStart && !s.tokens[at].startsRequest || s.hasKind(p.kindIndex) || !p.matches(s.tokens, at, 0, &s.stepsLeft) {
			continue
		}
		s.found = append(s.found, KindMatch{s.table.kinds[p.kindIndex].Name, strings.TrimSpace(text)})
	}
}

func (s *search) hasKind(kind int) bool {
	return slices.ContainsFunc(s.found, func(f KindMatch) bool { return f.Kind == s.table.kinds[kind].Name })
}
