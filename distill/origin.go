package distill

import (
	"slices"
	"strings"
	"unicode"

	"precept/detect"
	"precept/inject/lesson"
	"precept/internal/sample"
)

// A tool's output dictates advice if several foreign words from one sentence of the advice occur close together in the
// output. A word is foreign if neither the agent nor the user used it before. A single foreign word is not enough,
// because a long file contains most words of the language.

const (
	foreignWordWindow   = 24 // foreign words are counted within this many successive words
	minForeignWords     = 3  // number of foreign words that is unlikely to be chance
	minForeignNearOrder = 2  // enough near a word such as "always", or if these are more than half of the sentence's words
	keyLetters          = 5  // number of letters that are compared, so connect equals connection
)

// isDictated reports whether a tool's output in the session dictates the advice (see above).
func isDictated(advice []string, s *Session) bool {
	var all []sentence
	for _, text := range advice {
		for part := range strings.FieldsFuncSeq(lesson.NormalizeLookalikes(text), func(r rune) bool { return strings.ContainsRune(".;!?\n", r) }) {
			if parsed := readSentence(part); len(parsed.wordKeys) > 0 {
				all = append(all, parsed)
			}
		}
		if parsed := readSentence(lesson.NormalizeLookalikes(text)); len(parsed.names) > 0 {
			all = append(all, sentence{names: parsed.names}) // a name may contain dots
		}
	}
	usedWords := map[string]bool{} // words and names used so far by the agent or the user
	use := func(texts ...string) {
		for _, text := range texts {
			text = lesson.NormalizeLookalikes(text)
			for _, w := range contentWords(text) {
				usedWords[w.key] = true
			}
			for _, n := range namesIn(text) {
				usedWords[n] = true
			}
		}
	}
	for _, e := range s.Content.Events() {
		switch e.Role {
		case sample.EventAssistant:
			use(e.Text)
		case sample.EventUser:
			words := withoutBlocks(e.Text)
			if _, synthetic := detect.SyntheticRule(words); !synthetic {
				use(words)
				continue
			}
			if dictatesAny(lesson.NormalizeLookalikes(words), all, usedWords) {
				return true
			}
		case sample.EventCall:
			use(e.Call.Name, e.Call.Args)
			if dictatesAny(lesson.NormalizeLookalikes(withoutBlocks(e.Text)), all, usedWords) {
				return true
			}
		}
	}
	return false
}

// sentence holds a sentence's significant words and names.
type sentence struct {
	wordKeys map[string]bool // wordKey for each word
	names    []string
}

func readSentence(text string) sentence {
	s := sentence{wordKeys: map[string]bool{}, names: namesIn(text)}
	for _, w := range contentWords(text) {
		s.wordKeys[w.key] = true
	}
	delete(s.wordKeys, "")
	return s
}

type contentWord struct {
	key     string // see wordKey; "" if isOrder is true
	isOrder bool   // a word that instructs the reader, such as always, must or please
}

// contentWords returns the words in a text. In a script without spaces, each pair of successive letters is a word.
func contentWords(text string) (out []contentWord) {
	for w := range strings.FieldsFuncSeq(text, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != '\'' }) {
		letters := []rune(w)
		switch {
		case wordList("orders")[w]:
			out = append(out, contentWord{isOrder: true})
		case wordList("common")[w] || len(letters) < 2 || containsOnly(w, digits):
		case unicode.In(letters[0], unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai, unicode.Hangul, unicode.Khmer, unicode.Lao, unicode.Myanmar):
			for i := range len(letters) - 1 {
				out = append(out, contentWord{key: string(letters[i : i+2])})
			}
		default:
			out = append(out, contentWord{key: wordKey(w)})
		}
	}
	return out
}

// wordKey returns the key with which words are compared. Letters that look alike have the same key.
func wordKey(w string) string {
	if key := lesson.Skeleton(w); key != "" {
		w = key
	}
	letters := []rune(w)
	if n := len(letters); n > 3 && n <= keyLetters && letters[n-1] == 's' {
		letters = letters[:n-1]
	}
	return string(letters[:min(len(letters), keyLetters)])
}

// namesIn returns the words that contain a letter and, inside the word, a digit or punctuation.
func namesIn(text string) (out []string) {
	for w := range strings.FieldsFuncSeq(text, func(r rune) bool {
		return unicode.IsSpace(r) || strings.ContainsRune("`'\"“”‘’()[]{}<>,;!?|=*", r)
	}) {
		w = strings.Trim(w, ".:-_/\\")
		inner := strings.ContainsAny(w, "/_.-@:$\\") || strings.ContainsAny(w, digits)
		if inner && strings.ContainsFunc(w, unicode.IsLetter) && !isErrorName(w) && !isErrorName(strings.ToUpper(w)) && !isStandard(w) {
			out = append(out, w)
		}
	}
	return out
}

// dictatesAny reports whether the output dictates one of the sentences. It ignores words that the agent or the user has
// already used.
func dictatesAny(output string, all []sentence, usedWords map[string]bool) bool {
	for i := range all {
		if slices.ContainsFunc(all[i].names, func(n string) bool { return !usedWords[n] && strings.Contains(output, n) }) {
			return true
		}
	}
	words := contentWords(output)
	for i := range all {
		if all[i].occursIn(words, usedWords) {
			return true
		}
	}
	return false
}

// occursIn reports whether enough of the sentence's foreign words occur within foreignWordWindow words in the text.
func (s *sentence) occursIn(words []contentWord, usedWords map[string]bool) bool {
	if len(s.wordKeys) == 0 {
		return false
	}
	inWindow := map[string]int{} // number of occurrences, by foreign word
	orders := 0
	for i, w := range words {
		if i >= foreignWordWindow {
			switch leaving := words[i-foreignWordWindow]; {
			case leaving.isOrder:
				orders--
			case inWindow[leaving.key] > 1:
				inWindow[leaving.key]--
			default:
				delete(inWindow, leaving.key)
			}
		}
		switch {
		case w.isOrder:
			orders++
		case s.wordKeys[w.key] && !usedWords[w.key]:
			inWindow[w.key]++
		}
		hits := len(inWindow)
		if hits >= minForeignWords || orders > 0 && hits >= minForeignNearOrder || 2*hits > len(s.wordKeys) && hits >= min(minForeignNearOrder, len(s.wordKeys)) {
			return true
		}
	}
	return false
}
