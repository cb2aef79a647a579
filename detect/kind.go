package detect

import (
	"cmp"
	_ "embed"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"precept/internal/spell"
)

// Kind is a kind of failure, such as a missing file. Each tool may describe such a failure in different words.
type Kind string

// KindInfo describes a kind.
type KindInfo struct {
	Name         Kind
	Broader      Kind   // more general kind that covers the same failures; "" for none
	Meaning      string // description for the documentation
	isAdditional bool   // a line may have this kind in addition to another kind
	isFallback   bool   // only for failures that have no other kind
}

const (
	maxKindText = 12 << 10 // bytes searched at each end of a failed result
	maxKindLine = 600      // bytes searched per line
	maxKinds    = 6        // kinds per result, without broader kinds
)

// Kinds returns the kinds that describe a failed tool result, the most specific first. j is Classify's judgement of the
// result.
func Kinds(text string, j Judgement) []Kind {
	if j.Outcome != Error {
		return nil
	}
	search := kindScan{table: compiledKinds(), stepsLeft: maxKindSteps}
	search.found = make([]bool, len(search.table.kinds))
	search.searchResult(text, j.Code)
	return search.kinds()
}

// KnownKinds returns all kinds, in kinds.tsv order.
func KnownKinds() []KindInfo { return slices.Clone(compiledKinds().kinds) }

// NearestKind returns the kind with the name most similar to name.
func NearestKind(name string) (nearest Kind, known bool) {
	return spell.Closest(name, func(yield func(Kind) bool) {
		for _, k := range compiledKinds().kinds {
			if !yield(k.Name) {
				return
			}
		}
	})
}

// kindsText is the table of kinds. A line that begins with "kind", "also" or "rest" declares a kind, with its broader
// kind and its meaning. "also" sets KindInfo.isAdditional, and "rest" sets KindInfo.isFallback. Any other line has a
// kind, a pattern, and a text that matches the pattern.
//
//go:embed kinds.tsv
var kindsText string

// kindTable is the compiled table. byWord lists each pattern under one or several words. A line that matches the
// pattern contains at least one of these words.
type kindTable struct {
	kinds  []KindInfo
	byWord map[string][]kindPattern
}

type kindRow struct {
	kind             int // index in kindTable.kinds
	pattern, example string
	position         string // file:line
}

//nolint:gochecknoglobals // immutable, read at the first use
var compiledKinds = sync.OnceValue(func() *kindTable {
	table, _, err := readKinds(kindsText)
	if err != nil {
		panic(err) // impossible: a test reads the embedded file
	}
	return table
})

func readKinds(text string) (*kindTable, []kindRow, error) {
	t := &kindTable{byWord: map[string][]kindPattern{}}
	indexByName := map[string]int{}
	var rows []kindRow
	n := 0
	for line := range strings.Lines(text) {
		n++
		line = strings.TrimRight(line, "\n")
		if line == "" || line[0] == '#' {
			continue
		}
		position := fmt.Sprintf("kinds.tsv:%d", n)
		f := strings.Split(line, "\t")
		switch {
		case len(f) == 4 && slices.Contains([]string{"kind", "also", "rest"}, f[0]):
			indexByName[f[1]] = len(t.kinds)
			t.kinds = append(t.kinds, KindInfo{Kind(f[1]), Kind(strings.TrimPrefix(f[2], "-")), f[3], f[0] == "also", f[0] == "rest"})
			continue
		case len(f) != 3 || slices.Contains(f, ""):
			return nil, nil, fmt.Errorf("%s: want kind, pattern and example, between tabs", position)
		}
		kind, ok := indexByName[f[0]]
		if !ok {
			return nil, nil, fmt.Errorf("%s: the kind %s has no line", position, f[0])
		}
		rows = append(rows, kindRow{kind, f[1], f[2], position})
	}
	for _, k := range t.kinds {
		if _, ok := indexByName[string(k.Broader)]; k.Broader != "" && !ok {
			return nil, nil, fmt.Errorf("kinds.tsv: the broader kind %s for %s has no line", k.Broader, k.Name)
		}
	}
	return t, rows, t.addPatterns(rows)
}

// addPatterns compiles the rows. A pattern is listed under the word, or the group of alternative words, that the fewest
// patterns contain. So only a few patterns are tried on a line.
func (t *kindTable) addPatterns(rows []kindRow) error {
	patterns := make([]kindPattern, len(rows))
	uses := map[string]int{}
	for i, r := range rows {
		patterns[i] = compileKind(r.kind, r.pattern)
		for _, group := range patterns[i].words {
			for _, w := range group {
				uses[w]++
			}
		}
	}
	countUses := func(group []string) (n int) {
		for _, w := range group {
			n += uses[w]
		}
		return n
	}
	for i, r := range rows {
		p := &patterns[i]
		if len(p.words) == 0 {
			return fmt.Errorf("%s: the pattern %q holds no whole word", r.position, r.pattern)
		}
		words := slices.MinFunc(p.words, func(a, b []string) int { return cmp.Or(countUses(a)-countUses(b), len(b[0])-len(a[0])) })
		for _, word := range words {
			t.byWord[word] = append(t.byWord[word], *p)
		}
	}
	return nil
}

// The number of steps in a search is limited. A step costs about as much as one comparison, and maxKindSteps steps take
// a few milliseconds.
const (
	maxKindSteps = 1 << 19
	lineSteps    = 32      // cost to normalise a line
	statusSteps  = 1 << 10 // steps reserved for the fallbacks in searchResult
)

type kindScan struct {
	table  *kindTable
	found  []bool // by index in table.kinds
	status int    // HTTP status in a field

	foundException bool // a line begins with an exception name
	stepsLeft      int
}

// searchResult searches a result's text for kinds. It uses an exception, the HTTP status or the exit code only if no
// pattern matches.
func (s *kindScan) searchResult(text string, code int) {
	s.searchText(text)
	code = cmp.Or(s.status, code)
	s.stepsLeft = max(s.stepsLeft, statusSteps)
	switch {
	case slices.Contains(s.found, true): // words are more specific than a number
	case s.foundException:
		s.searchLine("uncaught exception")
	case code >= 400 && code < 600:
		s.searchLine("http status " + strconv.Itoa(code))
	case code != 0:
		s.searchLine("exit code " + strconv.Itoa(code))
	}
}

// searchText searches a text for kinds. JSON fields are searched as "key: value" lines.
func (s *kindScan) searchText(text string) {
	text = unwrapText(text)
	if v, ok := parseLenient(text); ok && (v.kind == objectValue || v.kind == arrayValue) {
		s.searchFields("", v, 0)
		return
	}
	body := compiledPhrases().unframe(text).body
	if v, ok := parseLenient(strings.TrimSpace(body)); ok && v.kind == objectValue {
		s.searchFields("", v, 0)
	}
	s.searchLines(text)
}

func (s *kindScan) searchLines(text string) {
	if len(text) > 2*maxKindText {
		s.searchLines(text[:maxKindText])
		text = text[len(text)-maxKindText:]
	}
	for line := range strings.SplitSeq(text, "\n") {
		if s.stepsLeft--; s.stepsLeft <= 0 {
			return
		}
		if strings.TrimSpace(line) == "" {
			continue
		}
		s.searchLine(line)
		t := plainLine(line)
		s.foundException = s.foundException || !strings.HasPrefix(t, "Error") && isExceptionLine(t) // "Error: " names no exception
	}
}

const maxFieldDepth = 6

func (s *kindScan) searchFields(key string, v lenientValue, depth int) {
	if s.stepsLeft--; depth > maxFieldDepth || s.stepsLeft <= 0 {
		return
	}
	for i, val := range v.vals {
		name := key
		if i < len(v.keys) {
			name = v.keys[i]
		}
		if s.stepsLeft <= 0 {
			return
		}
		s.searchFields(name, val, depth+1)
	}
	switch v.kind {
	case stringValue:
		text := strings.TrimSpace(v.text())
		if inner, ok := parseLenient(text); ok && (inner.kind == objectValue || inner.kind == arrayValue) {
			s.searchFields(key, inner, depth+1)
			return
		}
		s.searchLines(text)
		if len(text) < 64 && !strings.Contains(text, "\n") {
			s.searchLine(key + ": " + text)
		}
	case numberValue:
		s.searchLine(key + ": " + v.raw)
		if v.num >= 400 && v.num < 600 && compiledPhrases().isKey("status", key) {
			s.status = int(v.num)
		}
	case noValue, objectValue, arrayValue, boolValue:
	}
}

// searchLine records the first kind in the table that matches a line, and every matching additional kind.
func (s *kindScan) searchLine(line string) {
	if s.stepsLeft -= lineSteps; s.stepsLeft <= 0 || isQuotedLine(line) {
		return
	}
	line = normalizeLine(line)
	first := len(s.found) // index of the first matching kind
	for i := 0; i < len(line); {
		if !isKindWordByte(line[i]) {
			i++
			continue
		}
		end := i + 1
		for end < len(line) && isKindWordByte(line[end]) {
			end++
		}
		for k := range s.table.byWord[line[i:end]] {
			p := &s.table.byWord[line[i:end]][k]
			isAdditional := s.table.kinds[p.kind].isAdditional && !s.found[p.kind]
			switch {
			case p.kind >= first && !isAdditional || s.stepsLeft <= 0 || !p.matches(line, &s.stepsLeft):
			case isAdditional:
				s.found[p.kind] = true
			default:
				first = min(first, p.kind)
			}
		}
		s.stepsLeft--
		i = end
	}
	if first < len(s.found) {
		s.found[first] = true
	}
}

// kinds returns at most maxKinds found kinds, and then the broader kinds of these.
func (s *kindScan) kinds() []Kind {
	var out []Kind
	for i, k := range s.table.kinds {
		if s.found[i] && !(k.isFallback && len(out) > 0) && len(out) < maxKinds {
			out = append(out, k.Name)
		}
	}
	for i := 0; i < len(out); i++ {
		at := slices.IndexFunc(s.table.kinds, func(k KindInfo) bool { return k.Name == out[i] })
		if b := s.table.kinds[at].Broader; b != "" && !slices.Contains(out, b) {
			out = append(out, b)
		}
	}
	return out
}
