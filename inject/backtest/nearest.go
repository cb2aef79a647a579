package backtest

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"precept/inject/lesson"
	"precept/internal/sample"
)

// maxNearest is the maximum number of unmatched lessons that Nearest returns.
const maxNearest = 12

// nearestQueries is the number of queries that Nearest reads, counted from the end of a session.
const nearestQueries = 20

// Reason says why a lesson matched, or why a similar lesson did not.
type Reason struct {
	Slug    string
	Why     string
	Matched bool

	score float64 // above 1 if a trigger occurred, otherwise the share of a phrase's words that occurred
}

// Nearest returns the lessons that came closest to a match in a session, each with the missing condition or the nearest
// phrase. The lessons in matched that still match come last, with their triggers.
//
// Nearest reads only the newest queries, and skips lessons of other tenants. When ctx ends, it returns the lessons
// found so far.
func Nearest(ctx context.Context, book *lesson.Book, tagger *lesson.Tagger, tenant string, exchanges []sample.Exchange, matched []string) []Reason {
	found := map[string]*Reason{}
	addReason := func(slug, why string, score float64) {
		if slices.Contains(matched, slug) {
			return
		}
		if m := found[slug]; m == nil || score > m.score {
			found[slug] = &Reason{Slug: slug, Why: why, score: score}
		}
	}
	triggers := map[string]string{} // triggers of the lessons in matched, by slug
	isForeign := func(l *lesson.Lesson) bool { return l.Scope.Tenant != "" && l.Scope.Tenant != tenant }
	queries := Queries(exchanges)
	queries = queries[max(0, len(queries)-nearestQueries):]
	var text strings.Builder
	for i := len(queries) - 1; i >= 0 && ctx.Err() == nil; i-- {
		q := &queries[i]
		q.Tenant = tenant
		tagger.Tag(q)
		for _, e := range book.Explain(q) {
			switch {
			case isForeign(e.Lesson):
			case slices.Contains(matched, e.Lesson.Slug):
				if e.Matches { // the loop ends at the oldest query, so the first match remains
					triggers[e.Lesson.Slug] = lesson.CauseText(e.Causes)
				}
			case len(e.Obstacles) > 0:
				addReason(e.Lesson.Slug, e.Obstacles[0], 2)
			case e.Matches:
				addReason(e.Lesson.Slug, "the trigger occurs in the session, but at that turn the lesson was not active, or there was no room for its text", 1.5)
			}
		}
		text.WriteString(strings.Join(q.Words, " ") + " ")
		for k := range q.Errors {
			text.WriteString(q.Errors[k].Text + " ")
		}
	}
	words := sortedWords(text.String())
	for _, l := range book.Lessons() {
		if ctx.Err() != nil {
			break
		}
		if l.State.IsActive() && !isForeign(l) {
			addPhraseReasons(l, words, addReason)
		}
	}
	out := make([]Reason, 0, len(found))
	for _, m := range found {
		out = append(out, *m)
	}
	slices.SortFunc(out, func(x, y Reason) int { return cmp.Or(cmp.Compare(y.score, x.score), strings.Compare(x.Slug, y.Slug)) })
	out = out[:min(len(out), maxNearest)]
	for _, slug := range slices.Sorted(maps.Keys(triggers)) {
		out = append(out, Reason{Slug: slug, Why: triggers[slug], Matched: true})
	}
	return out
}

// addPhraseReasons adds a reason for each phrase with at least half the words in sorted.
func addPhraseReasons(l *lesson.Lesson, sorted []string, addReason func(slug, why string, score float64)) {
	for _, phrase := range slices.Concat(l.Trigger.Keywords, l.Trigger.ErrorPatterns) {
		if why, share := comparePhrase(phrase, sorted); share >= 0.5 {
			addReason(l.Slug, why, share)
		}
	}
}

// comparePhrase returns the share of a phrase's words that are in sorted, and a description for users.
func comparePhrase(phrase string, sorted []string) (why string, share float64) {
	words := sortedWords(phrase)
	var present []string
	for _, w := range words {
		if _, ok := slices.BinarySearch(sorted, w); ok {
			present = append(present, w)
		}
	}
	return describePhrase(phrase, words, present), float64(len(present)) / float64(max(len(words), 1))
}

func describePhrase(phrase string, words, present []string) string {
	if len(present) == len(words) {
		return fmt.Sprintf("nearest phrase %q: all words occur, but the phrase does not occur where the lesson can fire", phrase)
	}
	return fmt.Sprintf("nearest phrase %q: only %q occurs", phrase, strings.Join(present, " "))
}
