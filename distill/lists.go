package distill

import (
	_ "embed"
	"slices"
	"strings"
	"sync"
)

//go:embed lists.txt
var listsText string

// vocabularyText lists the public words of error messages of programs and services. Every other
// word in a message may be a private name.
//
//go:embed vocabulary.txt
var vocabularyText string

// words is one list of lists.txt.
type words map[string]bool

// lists reads the word lists of the rules.
//
//nolint:gochecknoglobals // immutable, read at first use
var lists = sync.OnceValue(func() map[string]words {
	all := map[string]words{}
	var open words
	for line := range strings.Lines(listsText + "[vocabulary]\n" + vocabularyText) {
		line = strings.TrimSpace(line)
		if name, ok := strings.CutPrefix(line, "["); ok {
			open = words{}
			all[strings.TrimSuffix(name, "]")] = open
			continue
		}
		if strings.HasPrefix(line, "#") {
			continue
		}
		for entry := range strings.SplitSeq(line, ",") {
			if entry = strings.TrimSpace(entry); entry != "" {
				open[entry] = true
			}
		}
	}
	return all
})

// listed returns a list by name.
func listed(name string) words { return lists()[name] }

// within reports whether a text contains one of the words.
func (w words) within(text string) bool {
	for part := range w {
		if strings.Contains(text, part) {
			return true
		}
	}
	return false
}

// coverWords reports whether all words of a text are in the list.
func (w words) coverWords(text string) bool {
	for word := range strings.FieldsFuncSeq(strings.ToLower(text), func(r rune) bool { return (r < 'a' || r > 'z') && r != '\'' }) {
		if !w[word] {
			return false
		}
	}
	return true
}

// sameFamily reports whether two programs have the same purpose.
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

// consistsOf reports whether a text consists of the given characters.
func consistsOf(text, of string) bool { return strings.Trim(text, of) == "" }

// countCommon counts the entries of one list that another list contains.
func countCommon(of, in []string) (n int) {
	for _, s := range of {
		if slices.Contains(in, s) {
			n++
		}
	}
	return n
}

// appendMissing appends the missing entries to a list.
func appendMissing(list []string, more ...string) []string {
	for _, s := range more {
		if !slices.Contains(list, s) {
			list = append(list, s)
		}
	}
	return list
}
