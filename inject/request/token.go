package request

import (
	"iter"
	"path"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// token is a word in a sentence, in lower case without apostrophes.
type token struct {
	text          string
	numbers       []int // vocabulary numbers of the word and of its prefixes
	shapes        shape
	startsClause  bool // first in a sentence, or after a comma, a colon, a dash or a parenthesis
	startsRequest bool // a request can start here: at the start of a clause, or after a conjunction or "can you please"
}

// shape is a set of token shapes.
type shape uint16

const (
	fileShape      shape = 1 << iota // main.go, src/app.ts
	nameShape                        // a name in code: parseDate, DATABASE_URL, a.b(), src/app
	versionShape                     // 2, 2.4.1, v3
	testShape                        // test name: TestParse, test_login, user.spec.ts
	generatedShape                   // generated file or the source for one: user.pb.go, src/gen/a.ts, a.proto
	releaseShape                     // 2.4.1, v3
	statusShape                      // 404, 503
)

//nolint:gochecknoglobals // immutable
var shapes = map[string]shape{
	"{file}": fileShape, "{name}": nameShape, "{version}": versionShape, "{test}": testShape, "{generated}": generatedShape, "{status}": statusShape, "{release}": releaseShape,
}

func (t *token) hasNumber(number int) bool { return slices.Contains(t.numbers, number) }

func (t *token) hasAnyWord(set []bool) bool {
	for _, n := range t.numbers {
		if n < len(set) && set[n] {
			return true
		}
	}
	return false
}

// tokenize splits a sentence into s.tokens.
func (s *search) tokenize(sentence string) {
	s.tokens, s.numbers = s.tokens[:0], s.numbers[:0]
	startsClause := true
	for field := range strings.FieldsSeq(withoutQuotes(sentence)) {
		if isLetters(field) && s.addToken(field, startsClause) {
			startsClause = false
			continue
		}
		trimmed := strings.TrimLeft(field, openers)
		startsClause = startsClause || len(trimmed) < len(field) && strings.ContainsAny(field[:len(field)-len(trimmed)], "(-–—")
		word := strings.TrimRight(trimmed, closers)
		end := trimmed[len(word):]
		for word != "" {
			part := firstWord(word)
			word = strings.TrimPrefix(word[len(part):], "-")
			if part != "" && s.addToken(part, startsClause) {
				startsClause = false
			}
		}
		startsClause = startsClause || strings.ContainsAny(end, ",:;.!?)…–—") || trimmed == end && trimmed != field
	}
}

// addToken adds a token, or returns false if the sentence has too many tokens.
func (s *search) addToken(word string, startsClause bool) bool {
	if len(s.tokens) == maxTokens {
		return false
	}
	from := len(s.numbers)
	t := token{text: normalizeWord(word), shapes: wordShapes(word), startsClause: startsClause}
	s.numbers = s.table.vocabulary.appendNumbers(s.numbers, t.text)
	t.numbers = s.numbers[from:]
	s.tokens = append(s.tokens, t)
	return true
}

func (v *vocabulary) appendNumbers(list []int, word string) []int {
	if n := v.words[word]; n > 0 {
		list = append(list, n)
	}
	for i := minPrefix; i <= min(len(word), maxPrefix); i++ {
		if n := v.prefixes[word[:i]]; n > 0 {
			list = append(list, n)
		}
	}
	return list
}

// withoutQuotes replaces each quotation of several words by the word "quoted".
func withoutQuotes(sentence string) string {
	var b strings.Builder
	for {
		from := strings.IndexAny(sentence, "\"“")
		if from < 0 {
			break
		}
		_, size := utf8.DecodeRuneInString(sentence[from:])
		length := strings.IndexAny(sentence[from+size:], "\"”")
		if length < 0 {
			break
		}
		inner := sentence[from+size : from+size+length]
		_, closing := utf8.DecodeRuneInString(sentence[from+size+length:])
		b.WriteString(sentence[:from])
		if strings.ContainsAny(inner, " \t") {
			inner = "quoted"
		}
		b.WriteString(inner)
		sentence = sentence[from+size+length+closing:]
	}
	if b.Len() == 0 {
		return sentence
	}
	return b.String() + sentence
}

// Punctuation around a word.
const (
	openers = "\"'`([{<“‘*-–—/&+=|>~#"
	closers = "\"'`)]}>”’*,:;.!?…-–—/&+=|~"
)

// firstWord returns the part before the first hyphen. A name in code or a file name stays whole.
func firstWord(field string) string {
	hyphen := strings.IndexByte(field, '-')
	if hyphen < 0 || strings.ContainsAny(field, "/._()") {
		return field
	}
	return field[:hyphen]
}

func normalizeWord(word string) string {
	word = strings.ToLower(word)
	if strings.ContainsAny(word, "'’") {
		word = strings.NewReplacer("'", "", "’", "").Replace(word)
	}
	return word
}

func wordShapes(word string) (s shape) {
	if word == "" || len(word) > 200 || isLetters(word) && strings.ToLower(word[1:]) == word[1:] {
		return 0 // fast path
	}
	if isVersion(word) {
		s |= versionShape
		if strings.Contains(word, ".") || word[0] == 'v' {
			s |= releaseShape
		}
		if len(word) == 3 && (word[0] == '4' || word[0] == '5') {
			s |= statusShape
		}
		return s
	}
	if strings.Contains(word, "://") {
		return 0
	}
	base := path.Base(strings.TrimSuffix(word, "()"))
	if ext := path.Ext(base); len(ext) >= 2 && len(ext) <= 7 && isLetters(ext[1:]) {
		s |= fileShape | nameShape
	}
	if strings.Contains(word, "_") || strings.HasSuffix(word, "()") || strings.ContainsRune(strings.Trim(word, "/."), '/') || isCamel(word) {
		s |= nameShape
	}
	l := strings.ToLower(base)
	if s&nameShape != 0 && (strings.HasPrefix(l, "test_") || strings.Contains(l, "_test") || strings.Contains(l, ".test.") || strings.Contains(l, ".spec.") ||
		strings.HasPrefix(base, "Test") && len(base) > 4 || strings.HasSuffix(base, "Test") || strings.HasSuffix(base, "Tests")) {
		s |= testShape
	}
	if isGenerated(strings.ToLower(word)) {
		s |= generatedShape
	}
	return s
}

// isGenerated reports whether a file is probably the input or the output of a code generator.
func isGenerated(name string) bool {
	for _, part := range [...]string{".pb.", "_pb2", ".g.dart", ".gen.", "_gen.", ".generated.", "_generated.", "/gen/", "/generated/", "__generated__", ".sql.go", ".designer.", "/mocks/"} {
		if strings.Contains(name, part) {
			return true
		}
	}
	return strings.HasSuffix(name, ".proto") || strings.HasPrefix(name, "gen/") || strings.HasPrefix(name, "generated/") ||
		strings.HasSuffix(name, "/generated") || strings.HasPrefix(name, "zz_generated") || strings.HasPrefix(name, "mocks/") || strings.HasPrefix(path.Base(name), "mock_")
}

func isVersion(word string) bool {
	if len(word) > 1 && (word[0] == 'v' || word[0] == 'V') {
		word = word[1:]
	}
	if !isDigit(word[0]) {
		return false
	}
	return strings.Trim(word, "0123456789.x") == ""
}

// isCamel reports whether a capital follows a small letter.
func isCamel(word string) bool {
	for i := 1; i < len(word); i++ {
		if 'A' <= word[i] && word[i] <= 'Z' && 'a' <= word[i-1] && word[i-1] <= 'z' {
			return true
		}
	}
	return false
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

func isLetters(s string) bool {
	for i := range len(s) {
		if c := s[i] | 0x20; c < 'a' || c > 'z' {
			return false
		}
	}
	return true
}

func (t *table) markStarts(tokens []token) {
	for i := range tokens {
		tokens[i].startsRequest = tokens[i].startsRequest || tokens[i].startsClause
		if isConjunction(tokens[i].text) {
			tokens[i].startsRequest = true
		}
		if !tokens[i].startsRequest {
			continue
		}
		for n := range t.courtesy.matchLengths(tokens[i:]) {
			if i+n < len(tokens) {
				tokens[i+n].startsRequest = true
			}
		}
	}
}

func isConjunction(word string) bool {
	switch word {
	case "and", "then", "but", "or", "please", "also", "so":
		return true
	}
	return false
}

// Sentences yields the sentences and lines of a text. A period in a file name, number or address does not end a
// sentence.
func Sentences(text string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for line := range strings.Lines(text) {
			for len(line) > 0 {
				n := sentenceEnd(line)
				if !yield(line[:n]) {
					return
				}
				line = line[n:]
			}
		}
	}
}

func sentenceEnd(line string) int {
	for i, r := range line {
		switch r {
		case '.', '!', '?', ';':
			next, _ := utf8.DecodeRuneInString(line[i+1:])
			if i+1 >= len(line) || unicode.IsSpace(next) {
				return i + 1
			}
		case '。', '！', '？':
			return i + utf8.RuneLen(r)
		}
	}
	return len(line)
}

// unquotedLines yields the lines outside code blocks, HTML comments and quotations.
func unquotedLines(text string) iter.Seq[string] {
	return func(yield func(string) bool) {
		code, comment := false, false
		for line := range strings.Lines(text) {
			start := strings.TrimLeft(line, " \t")
			comment = comment || strings.HasPrefix(start, "<!--")
			switch {
			case comment:
				comment = !strings.Contains(line, "-->")
			case strings.HasPrefix(start, "```"), strings.HasPrefix(start, "~~~"):
				code = !code
			case !code && !strings.HasPrefix(start, ">") && !yield(line):
				return
			}
		}
	}
}
