package distill

import (
	"slices"
	"strings"
	"unicode"

	"precept/detect"
	"precept/internal/redact"
)

// stableMessage is the part of an error message that is the same in every session.
type stableMessage struct {
	display   string // message to show in a lesson, with … in place of private words
	phrase    string // longest run of public words, which becomes a trigger
	wordCount int    // number of words in phrase
}

// newStableMessage returns the stable part of the message in a failed result. The words in public, such as the tool's
// name, are public in addition to the vocabulary. The words in sent come from the call and are private.
func newStableMessage(text string, public, sent map[string]bool) stableMessage {
	return stableLine(detect.Headline(text), &messageScanner{publicWords: public, callWords: sent})
}

// organisationMessage is like newStableMessage, but keeps those of the organisation's words that scope allows. The
// redactor first removes secrets and personal data.
func organisationMessage(text string, public, sent map[string]bool, scope wordScope) stableMessage {
	headline := redact.New(true).Text(detect.Headline(text))
	return stableLine(headline, &messageScanner{publicWords: public, callWords: sent, scope: scope})
}

// stableLine returns the stable part of the most specific line. It uses a copy of scanner for each line.
func stableLine(headline string, scanner *messageScanner) (best stableMessage) {
	lines := strings.Split(headline, "\n")
	rank := -1
	for i, l := range lines {
		if len(l) > 240 {
			l = strings.ToValidUTF8(l[:240], "") // the cut may be inside a rune
		}
		s, special := stablePart(l, scanner)
		// The first line is usually the most specific. The exception at the end of a traceback is even more specific.
		r := min(s.wordCount, 6)*4 - i
		if special {
			r += 10
		}
		if s.wordCount > 0 && r > rank {
			best, rank = s, r
		}
	}
	return best
}

// stablePart returns a line's stable part. The result is true if the line names an error.
func stablePart(line string, scanner *messageScanner) (stableMessage, bool) {
	l := *scanner
	l.line, l.runStart = line, -1
	if l.scope > scopePublic {
		l.persons = personsIn(line, true)
	}
	for start := 0; start < len(line) && !l.done; {
		if line[start] == ' ' || line[start] == '\t' {
			start++
			continue
		}
		next := start + tokenLength(line[start:])
		l.readWord(start, next)
		start = next
	}
	l.endRun()
	l.best.phrase = trimTail(l.best.phrase)
	l.best.display = displayText(l.displayWords, l.best.phrase)
	if l.hasErrorName && l.best.wordCount > 0 {
		l.best.wordCount++
	}
	return l.best, l.hasErrorName
}

// trimTail removes words such as "of the" from the end, because they only introduce an omitted part.
func trimTail(phrase string) string {
	for {
		pos := strings.LastIndexAny(phrase, " \t")
		if pos < 0 || !wordList("trailing")[strings.ToLower(phrase[pos+1:])] {
			return phrase
		}
		phrase = strings.TrimRight(phrase[:pos], " \t,;:")
	}
}

// messageScanner finds the longest run of public words in a line.
type messageScanner struct {
	line             string
	displayWords     []string      // message words to show in a lesson
	best             stableMessage // longest run so far
	runStart, runEnd int           // bounds of the current run; runStart is -1 for none
	words            int           // words in the current run
	hasErrorName     bool
	done             bool // the sentence has ended; the rest may be arbitrary text

	publicWords map[string]bool // public in addition to the vocabulary
	callWords   map[string]bool // words in the call; all of them are private
	scope       wordScope       // which of the organisation's words are treated as public
	persons     map[string]bool // words that name persons
}

func (s *messageScanner) endRun() {
	if s.runStart >= 0 && s.words > s.best.wordCount {
		s.best.phrase, s.best.wordCount = s.line[s.runStart:s.runEnd], s.words
	}
	s.runStart, s.words = -1, 0
}

// classify returns a word's kind. Quoted words, words in the call, and personal names are private.
func (s *messageScanner) classify(word string, quoted bool) wordKind {
	kind, low := classifyWord(word, s.publicWords), strings.ToLower(word)
	if kind == privateWord && s.scope > scopePublic && (s.scope == scopeNames || isTerm(word)) && isShareableWord(word) {
		kind = plainWord
	}
	if (quoted || s.callWords[low] && word != "") && !s.publicWords[low] || s.persons[low] {
		kind = privateWord
	}
	return kind
}

func (s *messageScanner) readWord(start, next int) {
	lo, hi := trimToken(s.line, start, next)
	shown := s.line[start:next]
	if dot := strings.LastIndexByte(s.line[lo:hi], '.'); dot >= 0 && isErrorName(s.line[lo+dot+1:hi]) {
		lo += dot + 1 // skip the module before an exception's name
		shown = s.line[lo:next]
	}
	word := s.line[lo:hi]
	kind := s.classify(word, lo > start && strings.IndexByte("'\"`[<{", s.line[lo-1]) >= 0)
	switch {
	case word == "":
		if start > s.runEnd {
			s.endRun()
		}
	case kind == privateWord:
		s.endRun()
		if n := len(s.displayWords); n == 0 || s.displayWords[n-1] != "…" {
			s.displayWords = append(s.displayWords, "…")
		}
	case kind == genericWord && s.words == 0: // the word "Error:" at the start says nothing
		s.displayWords = append(s.displayWords, shown)
	default:
		s.hasErrorName = s.hasErrorName || kind == errorName
		if s.runStart < 0 || s.words >= 9 {
			s.endRun()
			s.runStart = lo
		}
		s.runEnd = hi
		if kind != genericWord || s.words > 1 { // a phrase such as "CMake Error" names only the program
			s.words++
		}
		if !s.publicWords[strings.ToLower(word)] {
			s.words += min(strings.Count(word, "_"), 2)
		}
		s.displayWords = append(s.displayWords, shown)
		if hi < next && strings.IndexByte(";{}[]", s.line[next-1]) >= 0 {
			s.endRun()
		}
	}
	if next < len(s.line) && strings.ContainsAny(s.line[hi:next], ".!?") && max(s.words, s.best.wordCount) >= 2 {
		s.done = true
	}
}

// displayText returns the message to show. It cuts the message after the phrase if several of the following parts are
// private, or if a private part is near the end.
func displayText(tokens []string, phrase string) string {
	text, cut := strings.Join(tokens, " "), ""
	folded := strings.Join(strings.Fields(phrase), " ")
	if pos := strings.Index(text, folded); pos >= 0 && folded != "" {
		rest := text[pos+len(folded):]
		if gaps := strings.Count(rest, "…"); gaps > 1 || gaps == 1 && (len(strings.Fields(rest)) < 3 || strings.HasSuffix(rest, "…")) {
			text, cut = text[:pos+len(folded)], " …"
		}
	}
	text = strings.Trim(text, " ….,:;([{\"'`")
	for _, lead := range []string{"Error: ", "error: ", "ERROR: "} {
		text = strings.TrimPrefix(text, lead)
	}
	return strings.TrimLeft(text, " …") + cut
}

// tokenLength returns the length of the first word. A text in quotes or brackets is one word.
func tokenLength(s string) int {
	pairs := map[byte]byte{'\'': '\'', '"': '"', '`': '`', '[': ']', '<': '>', '{': '}'}
	if c, ok := pairs[s[0]]; ok {
		if n := strings.IndexByte(s[1:], c); n >= 0 && n < 200 {
			n += 2
			for n < len(s) && strings.IndexByte(".,:;!?)", s[n]) >= 0 {
				n++
			}
			return n
		}
	}
	if n := strings.IndexAny(s, " \t"); n >= 0 {
		return n
	}
	return len(s)
}

func trimToken(line string, lo, hi int) (int, int) {
	const edges = "'\"`[]<>(){}.,:;!?=*…“”‘’-"
	for lo < hi && strings.ContainsRune(edges, rune(line[lo])) && line[lo] < 0x80 {
		lo++
	}
	for lo < hi && strings.ContainsRune(edges, rune(line[hi-1])) && line[hi-1] < 0x80 {
		hi--
	}
	return lo, hi
}

type wordKind uint8

const (
	privateWord wordKind = iota // may be private
	genericWord                 // says only that an operation failed
	plainWord                   // an ordinary word in messages
	errorName                   // the name of a kind of error
)

// classifyWord returns a word's kind without context. The words in public are never private.
func classifyWord(token string, public map[string]bool) wordKind {
	low := strings.ToLower(token)
	switch {
	case token == "":
		return plainWord
	case low == "error" || low == "errors" || low == "exception" || low == "fatal" || low == "warning" || low == "failed" || low == "err":
		return genericWord
	case isErrorName(token):
		return errorName
	case public[low] || wordList("vocabulary")[low] || isStandard(low):
		return plainWord
	case strings.ContainsAny(token, "-/") && !strings.HasPrefix(token, "-") && !strings.HasPrefix(token, "/"):
		return compoundKind(strings.FieldsFunc(low, func(r rune) bool { return r == '-' || r == '/' }))
	case strings.Contains(low, "_"): // channel_not_found
		return compoundKind(strings.Split(low, "_"))
	case strings.HasSuffix(low, "'s") && wordList("vocabulary")[strings.TrimSuffix(low, "'s")]:
		return plainWord
	default:
		return privateWord
	}
}

// compoundKind returns plainWord if the vocabulary contains all parts.
func compoundKind(parts []string) wordKind {
	if slices.ContainsFunc(parts, func(p string) bool { return !wordList("vocabulary")[p] }) {
		return privateWord
	}
	return plainWord
}

// isStandard matches names such as iso-639-1, rfc3339 and utf-8.
func isStandard(low string) bool {
	for _, prefix := range []string{"iso", "rfc", "utf"} {
		if n, ok := strings.CutPrefix(low, prefix); ok && n != "" && strings.Trim(n, "-0123456789") == "" {
			return true
		}
	}
	return false
}

// isErrorName matches names and codes such as ValueError, ENOENT, ERR_MODULE_NOT_FOUND, TS2339 and 403.
func isErrorName(t string) bool {
	letters, digits, upper := 0, 0, 0
	for _, r := range t {
		switch {
		case unicode.IsDigit(r):
			digits++
		case unicode.IsUpper(r):
			upper, letters = upper+1, letters+1
		case unicode.IsLetter(r):
			letters++
		case r == '_' || r == '.':
		default:
			return false
		}
	}
	switch {
	case digits == 3 && letters == 0 && (t[0] == '4' || t[0] == '5') && len(t) == 3:
		return true
	case digits == 4 && t[:min(2, len(t))] == "TS" && letters == 2:
		return true
	case digits > 0 || letters < 5:
		return letters >= 4 && digits == 0 && letters == upper && t[0] == 'E' && !strings.Contains(t, ".")
	case letters == upper:
		return t[0] == 'E' && len(t) <= 14 && !strings.Contains(t, "_") && t != "ERROR" && t != "EMPTY" || strings.HasPrefix(t, "ERR_")
	case strings.Contains(t, "_") || !unicode.IsUpper(rune(t[0])):
		return false
	}
	for _, end := range []string{"Error", "Exception", "Warning", "Fault", "NotFound"} {
		if strings.HasSuffix(t, end) && len(t) > len(end) && !strings.Contains(t, ".") {
			return true
		}
	}
	return false
}

// valueWords returns the short values in the arguments, and the words in these values. These words are private, even if
// an error repeats them.
func valueWords(a *arguments) map[string]bool {
	out := map[string]bool{}
	values := a.distinctiveValues()
	for _, v := range a.object { // distinctiveValues omits texts under four bytes
		if t, ok := v.(string); ok {
			values = append(values, t)
		}
	}
	for _, t := range values {
		words := strings.FieldsFunc(strings.ToLower(t), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
		if len(t) >= 80 || len(words) > 4 {
			continue
		}
		out[strings.ToLower(strings.TrimSpace(t))] = true
		for _, w := range words {
			out[w] = true
		}
	}
	return out
}

// publicWords returns the names of the tool, of its parameters and of programs. These names are not session data.
func publicWords(s *step) map[string]bool {
	out := map[string]bool{}
	add := func(n string) {
		low := strings.ToLower(n)
		out[low] = true
		for _, w := range strings.FieldsFunc(low, func(r rune) bool { return r == '_' || r == '-' || r == '.' }) {
			if len(w) > 2 {
				out[w] = true
				out[strings.TrimSuffix(w, "s")] = true
			}
		}
	}
	add(s.tool)
	for k := range s.args.object {
		if len(k) < 40 {
			add(k)
		}
	}
	if s.shell != nil {
		for _, c := range s.shell.commands {
			if c.mayNameProgram() {
				out[c.program] = true
			}
		}
	}
	return out
}
