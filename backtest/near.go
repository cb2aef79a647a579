package backtest

import (
	"fmt"
	"slices"
	"strings"
	"unicode"

	"precept/lesson"
)

// nearMost is how many different reasons of near misses are kept for a lesson.
const nearMost = 20

// missed notes of a session's queries where lessons that fired in none of them came near: a trigger
// stands there and something keeps it from firing, or all words of a phrase stand there, and not as
// the phrase.
func (r *Run) missed(queries []lesson.Query, fired map[string]map[string]bool, name string) {
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
		said := wordsOf(strings.Join(q.Words, " "))
		for slug, c := range r.counts {
			for _, phrase := range c.lesson.Trigger.Keywords {
				if parts := wordsOf(phrase); len(parts) > 1 && fired[slug] == nil && holdsAll(said, parts) {
					note(slug, fmt.Sprintf("all words of %q stand there, and not as this phrase", phrase))
				}
			}
		}
	}
	for slug, whys := range near {
		c := r.counts[slug]
		if fired[slug] != nil || c == nil {
			continue
		}
		c.near++
		for why := range whys {
			if _, known := c.nearWhy[why]; known || len(c.nearWhy) < nearMost {
				c.nearWhy[why]++
			}
		}
		if len(c.nearExamples) < maxExamples {
			c.nearExamples = append(c.nearExamples, name)
		}
	}
}

// wordsOf are the words of a text, sorted.
func wordsOf(text string) []string {
	words := strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsNumber(r) })
	slices.Sort(words)
	return slices.Compact(words)
}

// holdsAll says that all words stand among others; both are sorted.
func holdsAll(among, words []string) bool {
	for _, w := range words {
		if _, ok := slices.BinarySearch(among, w); !ok {
			return false
		}
	}
	return true
}
