package backtest

import (
	"fmt"
	"slices"
	"strings"
	"unicode"

	"precept/inject/lesson"
)

// nearMost is how many different reasons of near misses are counted for a lesson.
const nearMost = 20

// scattered is a keyword of several words. A text may hold all of them, and not as this phrase.
type scattered struct {
	slug, phrase string
	words        []string
}

// scatteredOf lists such keywords of a lesson.
func scatteredOf(l *lesson.Lesson) (out []scattered) {
	for _, phrase := range l.Trigger.Keywords {
		if words := wordsOf(phrase); len(words) > 1 {
			out = append(out, scattered{l.Slug, phrase, words})
		}
	}
	return out
}

// missed counts a session for the lessons that match none of its queries although a trigger stands
// there that something keeps from firing, or all words of a keyword do, and not as this phrase.
func (r *Run) missed(queries []lesson.Query, fired map[string]map[string]bool, s *Session) {
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
		for _, k := range r.scattered {
			if holdsAll(said, k.words) {
				note(k.slug, fmt.Sprintf("all words of %q stand there, and not as this phrase", k.phrase))
			}
		}
	}
	for slug, whys := range near {
		if fired[slug] == nil {
			r.counts[slug].near.add(s, whys, nearMost)
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
