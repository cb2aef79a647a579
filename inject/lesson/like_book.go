package lesson

import (
	"slices"
	"strings"

	"precept/inject/request"
)

// WithLikeness returns a copy of the book that also matches by likeness. A sentence or line then matches if it shares
// enough words with a lesson, even if it contains none of the lesson's phrases. rate is the largest share of the
// captured sentences and lines that can reach a lesson's threshold. With too few captured sessions, WithLikeness
// returns the book itself.
func (b *Book) WithLikeness(t *Traffic, rate float64) *Book {
	if !t.HasEnoughSessions() || len(b.active) == 0 {
		return b
	}
	lessons := make([]*Lesson, 0, len(b.active))
	for i := range b.active {
		lessons = append(lessons, b.active[i].lesson)
	}
	next := *b
	next.like = newLikeIndex(lessons, t)
	next.like.thresholds = t.thresholds(next.like, rate, b.exactMatches)
	return &next
}

// exactMatches returns the lessons that have a phrase or request kind in a text, as indices in b.active. It ignores
// other conditions.
func (b *Book) exactMatches(text string, from textKind) []int32 {
	s := b.takeScratch()
	defer b.putScratch(s)
	textID := int32(userWordsID)
	if from == fromErrors {
		textID = 1 // 1 + index of the only error
	}
	b.scan(s, &Query{Errors: make([]ErrorText, 1)}, text, textID)
	var out []int32
	if from == fromWords && len(b.byRequestKind) > 0 {
		for _, f := range request.Kinds(text) {
			out = append(out, b.byRequestKind[f.Kind]...)
		}
	}
	for _, id := range s.phrases {
		for _, use := range b.phrases[id].uses {
			if use.role == roleKeyword || use.role == roleError && from == fromErrors {
				out = append(out, use.lesson)
			}
		}
	}
	return out
}

// WithoutLikeness returns a copy of the book that has only exact matches.
func (b *Book) WithoutLikeness() *Book {
	next := *b
	next.like = nil
	return &next
}

// AsksForLikeness reports whether an active lesson asks for matches by similar words (like: true in the trigger).
func (b *Book) AsksForLikeness() bool {
	return slices.ContainsFunc(b.active, func(c compiledLesson) bool { return c.lesson.Trigger.ByLikeness })
}

// MatchesByLikeness reports whether the book comes from WithLikeness, and so also matches texts with similar words.
func (b *Book) MatchesByLikeness() bool { return b.like != nil }

// appendLikenessHits appends the matches by likeness to the exact matches in hits, without duplicates.
func (b *Book) appendLikenessHits(s *scratch, q *Query, hits []Hit) []Hit {
	found := b.like.bestMatches(q)
	for i := range found {
		r := &found[i]
		m, c := &s.states[r.lessonIndex], &b.active[r.lessonIndex]
		if m.vetoed || !c.admits(q) || slices.ContainsFunc(hits, func(h Hit) bool { return h.Lesson == r.Lesson }) {
			continue
		}
		failedTool := ""
		if j := slices.IndexFunc(q.Errors, func(e ErrorText) bool { return r.CallID != "" && e.CallID == r.CallID }); j >= 0 {
			failedTool = q.Errors[j].Tool
		}
		if c.isOffered(&matchState{}, q, failedTool) {
			hits = append(hits, Hit{Lesson: r.Lesson, CallID: r.CallID, Resemblance: r})
		}
	}
	return hits
}

// Likeness returns the sentences and lines in a query that are similar to a lesson, best first. Their scores are at
// least minShare times the minimum score for a match.
func (b *Book) Likeness(q *Query, slug string, minShare float64) []Resemblance {
	if b.like == nil {
		return nil
	}
	i := slices.IndexFunc(b.active, func(c compiledLesson) bool { return c.lesson.Slug == slug })
	if i < 0 {
		return nil
	}
	return b.like.similarWindows(q, int32(i), float32(minShare)) //nolint:gosec // the number of lessons fits in an int32
}

// MatchByMeaning returns a hit for r, a lesson that matches earlier words in the session by meaning (embeddings). ok is
// false if the lesson has changed since then, or if another condition, such as a not_keyword, excludes the query.
func (b *Book) MatchByMeaning(q *Query, r Resemblance) (hit Hit, ok bool) {
	i := slices.IndexFunc(b.active, func(c compiledLesson) bool { return c.lesson.Slug == r.Lesson.Slug })
	if i < 0 || b.active[i].lesson.ContentHash != r.Lesson.ContentHash || !b.active[i].admits(q) || !b.active[i].isOffered(&matchState{}, q, "") || b.vetoes(int32(i), q) { //nolint:gosec // the number of lessons fits in an int32
		return Hit{}, false
	}
	r.Lesson = b.active[i].lesson
	return Hit{Lesson: r.Lesson, Resemblance: &r}, true
}

// AdmitsQuery reports whether a lesson's scope, models and not_keywords allow a match with a query.
func (b *Book) AdmitsQuery(slug string, q *Query) bool {
	i := slices.IndexFunc(b.active, func(c compiledLesson) bool { return c.lesson.Slug == slug })
	if i < 0 {
		return false
	}
	l := b.active[i].lesson
	return l.Scope.admits(q) && (len(l.Trigger.Models) == 0 || anyGlob(l.Trigger.Models, q.Model)) && !b.vetoes(int32(i), q) //nolint:gosec // the number of lessons fits in an int32
}

// vetoes reports whether a not_keyword in b.active[index] occurs in the query.
func (b *Book) vetoes(index int32, q *Query) bool {
	s := b.takeScratch()
	defer b.putScratch(s)
	b.scanAll(s, q)
	return s.states[index].vetoed
}

// EmbeddingText returns the text for a lesson's embedding, or "" if a user's words cannot trigger the lesson.
func (l *Lesson) EmbeddingText() string {
	if len(l.Trigger.Keywords) == 0 && l.Trigger.Description == "" || l.isTriggeredOnlyByErrors() {
		return ""
	}
	return l.Title + "\n" + l.Trigger.Description + "\n" + strings.Join(l.Trigger.Keywords, "; ")
}

// isTriggeredOnlyByErrors reports whether only errors can trigger the lesson.
func (l *Lesson) isTriggeredOnlyByErrors() bool {
	return len(l.Trigger.Keywords)+len(l.Trigger.RequestKinds) == 0 && len(l.Trigger.ErrorPatterns)+len(l.Trigger.ErrorKinds) > 0
}

// Sentences returns the sentences and lines in a text, except those that consist only of function words, such as
// articles.
func Sentences(text string) (out []string) {
	for w := range splitWindows(text) {
		if s := strings.TrimSpace(w.text); len(out) == 0 || out[len(out)-1] != s {
			out = append(out, s)
		}
	}
	return out
}
