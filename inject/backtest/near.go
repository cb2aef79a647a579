package backtest

import (
	"fmt"
	"slices"
	"strings"
	"unicode"

	"precept/inject/lesson"
)

// maxNearReasons is the number of different reasons of near misses that are counted for a lesson.
const maxNearReasons = 20

// scattered is a keyword of several words. A text may contain all the words without containing the phrase.
type scattered struct {
	slug, phrase string
	words        []string
}

// scatteredOf returns the keywords of a lesson whose words may be scattered over a text.
func scatteredOf(l *lesson.Lesson) (out []scattered) {
	for _, phrase := range l.Trigger.Keywords {
		if words := wordsOf(phrase); len(words) > 1 {
			out = append(out, scattered{l.Slug, phrase, words})
		}
	}
	return out
}

// countNearMisses counts a near miss of a session for a lesson: a trigger is present and another condition
// fails, or all words of a keyword are present without forming the phrase.
func (r *Run) countNearMisses(queries []lesson.Query, fired map[string]map[string]bool, s *Session) {
	near := map[string]map[string]bool{}
	note := func(slug, why string) {
		if near[slug] == nil {
			near[slug] = map[string]bool{}
		}
		near[slug][why] = true
	}
	for i := range queries {
		q := &queries[i]
		for _, e := range r.book.Explain(q) {
			for _, why := range e.Not {
				note(e.Lesson.Slug, why)
			}
		}
		words := wordsOf(strings.Join(q.Words, " "))
		for _, k := range r.scattered {
			if holdsAll(words, k.words) {
				note(k.slug, fmt.Sprintf("all words of %q occur, but not as this phrase", k.phrase))
			}
		}
	}
	for slug, whys := range near {
		if fired[slug] == nil {
			r.counts[slug].near.add(s, whys, maxNearReasons)
		}
	}
}

// wordsOf returns the sorted words of a text.
func wordsOf(text string) []string {
	words := strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsNumber(r) })
	slices.Sort(words)
	return slices.Compact(words)
}

// holdsAll reports whether a sorted list contains all words.
func holdsAll(sorted, words []string) bool {
	for _, w := range words {
		if _, ok := slices.BinarySearch(sorted, w); !ok {
			return false
		}
	}
	return true
}
