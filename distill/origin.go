package distill

import (
	"slices"
	"strings"
	"unicode"

	"precept/detect"
	"precept/inject/lesson"
	"precept/internal/sample"
)

// Advice is dictated if the words of one of its sentences occur close together in tool output before the agent or a
// person uses these words. Words are compared by their first letters, and letters that look alike are equal. A single
// word does not count, because a long file contains most words of the language.

// Limits of isDictated. A word is foreign if neither the agent nor a person used it before.
const (
	reachOfWords      = 24 // number of successive words of tool output in which foreign words of a sentence are counted
	minForeignWords   = 3  // number of foreign words that coincidence does not explain
	minForeignInOrder = 2  // sufficient number close to an order ("always"), or if it is most of the sentence
	keyLetters        = 5  // number of letters that are compared, so that connect equals connection
)

// isDictated reports whether the session's tool output dictated a sentence of the advice.
func isDictated(advice []string, s *Session) bool {
	var all []sentence
	for _, text := range advice {
		for part := range strings.FieldsFuncSeq(lesson.Plain(text), func(r rune) bool { return strings.ContainsRune(".;!?\n", r) }) {
			if one := readSentence(part); len(one.keys) > 0 {
				all = append(all, one)
			}
		}
		if one := readSentence(lesson.Plain(text)); len(one.names) > 0 {
			all = append(all, sentence{names: one.names}) // read from the whole text, because a name may contain dots
		}
	}
	own := map[string]bool{}
	use := func(texts ...string) {
		for _, text := range texts {
			text = lesson.Plain(text)
			for _, w := range contentOf(text) {
				own[w.key] = true
			}
			for _, n := range namesIn(text) {
				own[n] = true
			}
		}
	}
	for _, e := range s.Content.Events() {
		switch e.Role {
		case sample.EventAssistant:
			use(e.Text)
		case sample.EventUser:
			words := withoutBlocks(e.Text)
			if _, synthetic := detect.Synthetic(words); !synthetic {
				use(words)
				continue
			}
			if dictatesAny(lesson.Plain(words), all, own) {
				return true
			}
		case sample.EventCall:
			use(e.Call.Name, e.Call.Args)
			if dictatesAny(lesson.Plain(withoutBlocks(e.Text)), all, own) {
				return true
			}
		}
	}
	return false
}

// sentence holds the significant words and the names of a sentence.
type sentence struct {
	keys  map[string]bool
	names []string
}

func readSentence(text string) sentence {
	s := sentence{keys: map[string]bool{}, names: namesIn(text)}
	for _, w := range contentOf(text) {
		s.keys[w.key] = true
	}
	delete(s.keys, "")
	return s
}

// contentWord is a word that carries meaning, or a word of an order.
type contentWord struct {
	key   string // wordKey of the word; "" for a word of an order
	order bool   // a word such as always, must or please, which addresses the reader
}

// contentOf returns the words of a text that carry meaning, and the words of orders. In scripts without blanks between
// words, each pair of neighbouring letters counts as a word.
func contentOf(text string) (out []contentWord) {
	for w := range strings.FieldsFuncSeq(text, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != '\'' }) {
		letters := []rune(w)
		switch {
		case wordList("orders")[w]:
			out = append(out, contentWord{order: true})
		case wordList("common")[w] || len(letters) < 2 || consistsOf(w, digits):
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

// wordKey returns the first keyLetters letters of a word. Letters that look alike are replaced by one of them.
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

// namesIn returns the names of things in a text, which are words with a digit or with punctuation inside.
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

// dictatesAny reports whether a tool output dictates one of the sentences. own holds the words and the names that the
// agent and persons used before.
func dictatesAny(output string, all []sentence, own map[string]bool) bool {
	for i := range all {
		if slices.ContainsFunc(all[i].names, func(n string) bool { return !own[n] && strings.Contains(output, n) }) {
			return true
		}
	}
	words := contentOf(output)
	for i := range all {
		if all[i].occursIn(words, own) {
			return true
		}
	}
	return false
}

// occursIn reports whether enough foreign words of the sentence occur close together in words. own holds the words that
// are not foreign.
func (s *sentence) occursIn(words []contentWord, own map[string]bool) bool {
	if len(s.keys) == 0 {
		return false
	}
	inside := map[string]int{}
	orders := 0
	for i, w := range words {
		if i >= reachOfWords {
			switch leaving := words[i-reachOfWords]; {
			case leaving.order:
				orders--
			case inside[leaving.key] > 1:
				inside[leaving.key]--
			default:
				delete(inside, leaving.key)
			}
		}
		switch {
		case w.order:
			orders++
		case s.keys[w.key] && !own[w.key]:
			inside[w.key]++
		}
		hits := len(inside)
		if hits >= minForeignWords || orders > 0 && hits >= minForeignInOrder || 2*hits > len(s.keys) && hits >= min(minForeignInOrder, len(s.keys)) {
			return true
		}
	}
	return false
}
