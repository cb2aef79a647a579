package backtest

import (
	"fmt"
	"slices"
	"strings"
	"unicode"

	"precept/inject/lesson"
)

// maxNearReasons is the maximum number of near-miss reasons for a lesson.
const maxNearReasons = 20

// multiWordKeyword is a keyword with several words. A text can contain all these words without containing the phrase.
type multiWordKeyword struct {
	slug, phrase string
	words        []string
}

func multiWordKeywords(l *lesson.Lesson) (out []multiWordKeyword) {
	for _, phrase := range l.Trigger.Keywords {
		if words := sortedWords(phrase); len(words) > 1 {
			out = append(out, multiWordKeyword{l.Slug, phrase, words})
		}
	}
	return out
}

// countNearMisses counts a session for each lesson with a near miss (see NearMissCounts).
func (r *Evaluator) countNearMisses(queries []lesson.Query, matchedTriggers map[string]map[string]bool, s *Session) {
	near := map[string]map[string]bool{}
	addReason := func(slug, reason string) {
		if near[slug] == nil {
			near[slug] = map[string]bool{}
		}
		near[slug][reason] = true
	}
	for i := range queries {
		q := &queries[i]
		for _, e := range r.book.Explain(q) {
			for _, reason := range e.Obstacles {
				addReason(e.Lesson.Slug, reason)
			}
		}
		words := sortedWords(strings.Join(q.Words, " "))
		for _, k := range r.keywords {
			if containsAll(words, k.words) {
				addReason(k.slug, fmt.Sprintf("all words in %q occur, but not as this phrase", k.phrase))
			}
		}
	}
	for slug, reasons := range near {
		if matchedTriggers[slug] == nil {
			r.counts[slug].nearMisses.add(s, reasons, maxNearReasons)
		}
	}
}

func sortedWords(text string) []string {
	words := strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsNumber(r) })
	slices.Sort(words)
	return slices.Compact(words)
}

func containsAll(sorted, words []string) bool {
	for _, w := range words {
		if _, ok := slices.BinarySearch(sorted, w); !ok {
			return false
		}
	}
	return true
}
