package distill

import (
	_ "embed"
	"slices"
	"strings"
	"sync"
)

//go:embed lists.txt
var listsText string

// vocabularyText lists the public words in error messages.
//
//go:embed vocabulary.txt
var vocabularyText string

type wordSet map[string]bool

//nolint:gochecknoglobals // immutable, read at first use
var lists = sync.OnceValue(func() map[string]wordSet {
	all := map[string]wordSet{}
	var current wordSet
	for line := range strings.Lines(listsText + "[vocabulary]\n" + vocabularyText) {
		line = strings.TrimSpace(line)
		if name, ok := strings.CutPrefix(line, "["); ok {
			current = wordSet{}
			all[strings.TrimSuffix(name, "]")] = current
			continue
		}
		if strings.HasPrefix(line, "#") {
			continue
		}
		for entry := range strings.SplitSeq(line, ",") {
			if entry = strings.TrimSpace(entry); entry != "" {
				current[entry] = true
			}
		}
	}
	return all
})

// wordList returns a list from lists.txt, such as "looks". The result is empty if the name is unknown.
func wordList(name string) wordSet { return lists()[name] }

// containedIn reports whether the text contains an entry from the list, even inside a word.
func (w wordSet) containedIn(text string) bool {
	for part := range w {
		if strings.Contains(text, part) {
			return true
		}
	}
	return false
}

func (w wordSet) containsAllWords(text string) bool {
	for word := range strings.FieldsFuncSeq(strings.ToLower(text), func(r rune) bool { return (r < 'a' || r > 'z') && r != '\'' }) {
		if !w[word] {
			return false
		}
	}
	return true
}

// sameFamily reports whether one of the "family NAME" lists in lists.txt has both words.
func sameFamily(a, b string) bool {
	for name, family := range lists() {
		if strings.HasPrefix(name, "family ") && family[a] && family[b] {
			return true
		}
	}
	return false
}

const (
	lower   = "abcdefghijklmnopqrstuvwxyz"
	upper   = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	letters = lower + upper
	digits  = "0123456789"
)

func containsOnly(text, chars string) bool { return strings.Trim(text, chars) == "" }

func countCommon(a, b []string) (n int) {
	for _, s := range a {
		if slices.Contains(b, s) {
			n++
		}
	}
	return n
}

func appendMissing(list []string, more ...string) []string {
	for _, s := range more {
		if !slices.Contains(list, s) {
			list = append(list, s)
		}
	}
	return list
}
