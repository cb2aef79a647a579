package lesson

import (
	_ "embed"
	"strings"
	"sync"
	"unicode"
)

//go:embed related.txt
var relatedLines string

const maxPhraseWords = 4

// relatedTable is the compiled related.txt. A line is a group of related terms: words, phrases, or shapes such as
// {version} for 2.4.1.
type relatedTable struct {
	groups     map[string][]uint16 // group numbers by token (a stem, phrase or shape)
	phrases    map[string]string   // by phrase: the token, such as money_back for "money back"
	lastWords  map[string]bool     // the phrases' last words
	stems      map[string][]string // by a phrase's token: the stems in the phrase
	groupCount int
}

//nolint:gochecknoglobals // immutable, made at first use
var related = sync.OnceValue(func() *relatedTable {
	t := &relatedTable{groups: map[string][]uint16{}, phrases: map[string]string{}, lastWords: map[string]bool{}, stems: map[string][]string{}}
	for line := range strings.Lines(relatedLines) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		for term := range strings.SplitSeq(line, ", ") {
			token := t.addTerm(term)
			if n := len(t.groups[token]); n == 0 || int(t.groups[token][n-1]) != t.groupCount {
				t.groups[token] = append(t.groups[token], uint16(t.groupCount)) //nolint:gosec // the number of lines of related.txt fits in a uint16
			}
		}
		t.groupCount++
	}
	return t
})

// addTerm returns a term's token. If the term is a phrase, addTerm adds it to the table.
func (t *relatedTable) addTerm(term string) string {
	words := strings.FieldsFunc(term, func(r rune) bool { return r == ' ' || r == '-' })
	switch {
	case !isStem(term):
		return term
	case len(words) > 1:
		phrase := strings.Join(words, " ")
		t.phrases[phrase] = strings.Join(words, "_")
		t.lastWords[words[len(words)-1]] = true
		for _, w := range words {
			if s := likeStem(w); s != "" {
				t.stems[t.phrases[phrase]] = append(t.stems[t.phrases[phrase]], s)
			}
		}
		return t.phrases[phrase]
	}
	if name := fileName(term); name != "" {
		return name
	}
	return likeStem(term)
}

// isStem reports whether a token is a stem, and not a phrase or a shape (a name in braces, or a file name's ending).
func isStem(token string) bool {
	return token == "" || token[0] != '{' && token[0] != '.' && !isPhrase(token)
}

func countFunc(tokens []string, f func(string) bool) (n int) {
	for _, t := range tokens {
		if f(t) {
			n++
		}
	}
	return n
}

func isPhrase(token string) bool { return strings.Contains(token, "_") }

// recentWords holds the last words that were read from a text, to find phrases.
type recentWords struct {
	last  string                 // as in the text
	words [maxPhraseWords]string // lower case, no apostrophes
	count int
}

func (r *recentWords) add(word string) {
	r.last = word
	word = strings.ToLower(word)
	if strings.ContainsAny(word, "'’") {
		word = strings.ReplaceAll(strings.ReplaceAll(word, "'", ""), "’", "")
	}
	copy(r.words[:], r.words[1:])
	r.words[maxPhraseWords-1] = word
	r.count = min(r.count+1, maxPhraseWords)
}

// stems yields the last word's stem, the stem of a synonym for the last two words (refund for "money back"), and the
// phrases that end with the last word.
func (r *recentWords) stems(yield func(stem string) bool) {
	if synonym := wordPairs[r.words[maxPhraseWords-2]+" "+r.words[maxPhraseWords-1]]; synonym != "" && !yield(canonical(englishStem(synonym))) {
		return
	}
	if s := likeStem(r.last); s != "" && !yield(s) {
		return
	}
	t := related()
	if !t.lastWords[r.words[maxPhraseWords-1]] {
		return
	}
	var buffer [96]byte
	for n := 2; n <= r.count; n++ {
		key := buffer[:0]
		for i, w := range r.words[maxPhraseWords-n:] {
			if i > 0 {
				key = append(key, ' ')
			}
			key = append(key, w...)
		}
		if token, ok := t.phrases[string(key)]; ok && !yield(token) {
			return
		}
	}
}

// wordShape returns {version} for 2.4.1, {duration} for 50ms, .py for main.py, or "".
func wordShape(field string) string {
	field = strings.ToLower(strings.Trim(field, "\"'`()[]{}<>,.:;!?*"))
	if name := fileName(field); name != "" {
		return name[strings.LastIndexByte(name, '.'):]
	}
	for _, money := range []string{"$", "€", "£"} {
		if rest := strings.TrimSuffix(strings.TrimPrefix(field, money), money); rest != field && startsWithDigit(rest) {
			return "{money}"
		}
	}
	number := field
	if len(field) > 1 && field[0] == 'v' {
		number = field[1:]
	}
	if !startsWithDigit(number) {
		return ""
	}
	digits := strings.TrimRightFunc(number, func(r rune) bool { return !unicode.IsDigit(r) })
	if unit := number[len(digits):]; unit != "" {
		return unitShapes()[unit]
	}
	switch dots := strings.Count(digits, "."); {
	case strings.Count(digits, ":") == 1 && len(digits) <= 5:
		return "{clock}"
	case strings.Count(digits, "-") == 2 && len(digits) == 10:
		return "{date}"
	case strings.Trim(digits, "0123456789.") != "":
		return ""
	case dots == 1 || dots == 2 || len(number) < len(field):
		return "{version}"
	case len(digits) == 3 && (digits[0] == '4' || digits[0] == '5') && digits[1] <= '2':
		return "{status}"
	}
	return ""
}

func startsWithDigit(s string) bool { return s != "" && '0' <= s[0] && s[0] <= '9' }

// unitShapes maps a unit to the shape of a number with this unit.
//
//nolint:gochecknoglobals // immutable, made at first use
var unitShapes = sync.OnceValue(func() map[string]string {
	out := map[string]string{"%": "{percent}", "am": "{clock}", "pm": "{clock}", "$": "{money}"}
	for unit := range strings.FieldsSeq("ms s sec secs seconds min mins minutes h hrs hours") {
		out[unit] = "{duration}"
	}
	for unit := range strings.FieldsSeq("kb mb gb tb kib mib gib g m gigs") {
		out[unit] = "{size}"
	}
	return out
})
