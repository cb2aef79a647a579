package lesson

import (
	"iter"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"precept/inject/request"
)

// Limits for a text that is compared by likeness.
const (
	maxLikeText    = 16 << 10 // bytes; only the first and last 8 KiB of a longer text are compared
	maxLikeWindows = 256      // later windows are ignored
	maxWindowStems = 48       // longer sentences are split
)

// window is a sentence or line, with the distinct stems in it.
type window struct {
	text  string
	stems []string
}

// splitWindows yields the sentences and lines that contain a stem.
func splitWindows(text string) iter.Seq[window] {
	if len(text) > maxLikeText {
		text = text[:maxLikeText/2] + "\n" + text[len(text)-maxLikeText/2:]
	}
	return func(yield func(window) bool) {
		left := maxLikeWindows
		for sentence := range request.Sentences(text) {
			for part := range slices.Chunk(textStems(sentence), maxWindowStems) {
				if left--; left < 0 || !yield(window{sentence, sortedSet(part)}) {
					return
				}
			}
		}
	}
}

// isMarkup reports whether a line is one XML tag, such as <uploaded_files>.
func isMarkup(line string) bool {
	line = strings.TrimSpace(line)
	return strings.HasPrefix(line, "<") && strings.HasSuffix(line, ">") && !strings.ContainsAny(line, " \t")
}

// isProhibition reports whether a sentence forbids something, such as "Please do not install packages."
func isProhibition(sentence string) bool {
	words := strings.FieldsFunc(strings.ToLower(sentence[:min(len(sentence), 64)]), func(r rune) bool { return !unicode.IsLetter(r) && r != '\'' && r != '’' })
	for len(words) > 0 && (words[0] == "please" || words[0] == "but" || words[0] == "and" || words[0] == "just" || words[0] == "you") {
		words = words[1:]
	}
	switch {
	case len(words) == 0:
		return false
	case words[0] == "don't", words[0] == "don’t", words[0] == "dont", words[0] == "never", words[0] == "avoid":
		return true
	}
	return len(words) > 1 && words[1] == "not" && (words[0] == "do" || words[0] == "must" || words[0] == "should" || words[0] == "need")
}

func sortedSet(stems []string) []string {
	slices.Sort(stems)
	return slices.Compact(stems)
}

// textStems returns the stems in order, with repetitions.
func textStems(text string) []string {
	var out []string
	for _, stem := range wordStems(text) {
		out = append(out, stem)
	}
	return out
}

// wordStems yields words with their stems, except function words, such as articles. Phrases in related.txt, shapes such
// as {version}, and file names count as stems.
func wordStems(text string) iter.Seq2[string, string] {
	return func(yield func(word, stem string) bool) {
		var recent recentWords
		for field := range strings.FieldsSeq(toNFKC(text)) {
			if shape := wordShape(field); shape != "" && !yield(field, shape) {
				return
			}
			if name := fileName(field); name != "" {
				if !yield(name, name) {
					return
				}
				continue
			}
			for word := range fieldWords(field) {
				recent.add(word)
				for stem := range recent.stems {
					if !yield(word, stem) {
						return
					}
				}
			}
		}
	}
}

// fieldWords splits a field at punctuation and camel case.
func fieldWords(field string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for w := range strings.FieldsFuncSeq(field, func(r rune) bool { return r == '_' || classifyRune(r) == punctuationKind && r != '\'' && r != '’' }) {
			for part := range nameParts(w) {
				if !yield(part) {
					return
				}
			}
		}
	}
}

// nameParts yields the words in a name such as LockedFlagError. A product name, such as GitHub, is one word.
func nameParts(name string) iter.Seq[string] {
	return func(yield func(string) bool) {
		from := 0
		if !productNames()[strings.ToLower(name)] {
			for i := 1; i < len(name); i++ {
				if last, next := name[i-1], name[i]; 'a' <= last && last <= 'z' && 'A' <= next && next <= 'Z' {
					if !yield(name[from:i]) {
						return
					}
					from = i
				}
			}
		}
		yield(name[from:])
	}
}

// fileName returns the file name in a path such as src/main.go, in lower case, or "".
func fileName(field string) string {
	field = strings.Trim(field, "\"'`()[]{}<>,.:;!?*")
	if i := strings.LastIndexAny(field, "/\\"); i >= 0 {
		field = field[i+1:]
	}
	dot := strings.LastIndexByte(field, '.')
	if dot < 1 || len(field)-dot < 3 || len(field)-dot > 6 || len(field) > maxStemmedBytes {
		return ""
	}
	for _, r := range field[dot+1:] {
		if !unicode.IsLetter(r) {
			return ""
		}
	}
	return strings.ToLower(field)
}

// maxStemmedBytes is the maximum length of a word that is stemmed. Longer words are hashes and encoded data.
const maxStemmedBytes = 32

// likeStem returns the stem that represents a word and its synonyms. The result is "" for function words, numbers and
// single letters.
func likeStem(word string) string {
	word = strings.Trim(word, "'’_*")
	if len(word) < 2 || len(word) > maxStemmedBytes {
		return ""
	}
	folded := make([]byte, 0, maxStemmedBytes)
	letters := false
	for _, r := range word {
		letters = letters || unicode.IsLetter(r)
		folded = utf8.AppendRune(folded, fold(r))
	}
	if !letters {
		return ""
	}
	w := string(folded)
	if cut, ok := strings.CutSuffix(w, "'s"); ok {
		w = cut
	}
	w = strings.ReplaceAll(strings.ReplaceAll(w, "'", ""), "’", "")
	if isFunctionWord(w) {
		return ""
	}
	return canonical(englishStem(w))
}

// englishStem removes endings such as -s, -ed, -ing, -er, -ly and -ment, so that a word's forms become equal.
func englishStem(w string) string {
	if len(w) < 4 || !isASCII(w) || strings.ContainsAny(w, "0123456789_") {
		return w
	}
	w = stemPlural(w)
	for _, e := range [...]struct {
		ending, with string
		minStem      int // bytes before the ending
	}{
		{"ization", "ize", 3},
		{"isation", "ize", 3},
		{"ational", "ate", 3},
		{"fulness", "", 3},
		{"ication", "y", 3},
		{"ation", "", 4},
		{"ments", "", 4},
		{"ment", "", 4},
		{"ness", "", 4},
		{"ingly", "", 3},
		{"edly", "", 3},
		{"ally", "al", 4},
		{"able", "", 4},
		{"ible", "", 4},
		{"ing", "", 3},
		{"ions", "", 4},
		{"ion", "", 4},
		{"ors", "", 4},
		{"or", "", 5},
		{"ers", "", 4},
		{"er", "", 4},
		{"ed", "", 3},
		{"ly", "", 4},
		{"al", "", 5},
	} {
		rest, ok := strings.CutSuffix(w, e.ending)
		if !ok || len(rest) < e.minStem || !strings.ContainsAny(rest, "aeiouy") {
			continue
		}
		w = rest + e.with
		break
	}
	return normalizeEnding(w)
}

// stemPlural removes a plural or third-person ending.
func stemPlural(w string) string {
	switch {
	case strings.HasSuffix(w, "sses"), strings.HasSuffix(w, "shes"), strings.HasSuffix(w, "ches"), strings.HasSuffix(w, "xes"), strings.HasSuffix(w, "zes"):
		return w[:len(w)-2]
	case strings.HasSuffix(w, "ies") && len(w) > 4:
		return w[:len(w)-3] + "y"
	case strings.HasSuffix(w, "ss"), strings.HasSuffix(w, "us"), strings.HasSuffix(w, "is"):
		return w
	case strings.HasSuffix(w, "s"):
		return w[:len(w)-1]
	}
	return w
}

// normalizeEnding makes related stems equal: it drops a doubled consonant and a silent e, and replaces y by i.
func normalizeEnding(w string) string {
	n := len(w)
	if n > 3 && w[n-1] == w[n-2] && !strings.ContainsRune("aeiouls", rune(w[n-1])) {
		return w[:n-1]
	}
	if n > 3 && w[n-1] == 'e' {
		return w[:n-1]
	}
	if n > 3 && w[n-1] == 'y' {
		return w[:n-1] + "i"
	}
	return w
}
