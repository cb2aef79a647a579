package lesson

import "slices"

// WithLikeness returns a copy of the book whose lessons match by likeness as well. The threshold of
// each lesson is a score that at most the share rate of the windows of the traffic reaches. With too
// little traffic, WithLikeness returns the book itself.
func (b *Book) WithLikeness(t *Traffic, rate float64) *Book {
	if !t.Enough() || len(b.compiled) == 0 {
		return b
	}
	lessons := make([]*Lesson, 0, len(b.compiled))
	for i := range b.compiled {
		lessons = append(lessons, b.compiled[i].lesson)
	}
	next := *b
	next.like = newLikeIndex(lessons, t)
	next.like.thresholds = t.thresholds(next.like, rate, b.exact)
	return &next
}

// exact returns the lessons with a phrase that a text contains, whatever their conditions.
func (b *Book) exact(text string, from source) []int32 {
	s, _ := b.scratch.Get().(*scratch)
	defer func() {
		s.reset()
		b.scratch.Put(s)
	}()
	s.left = mostWork
	where := int32(inWords)
	if from == fromErrors {
		where = 1
	}
	b.scan(s, &Query{Errors: make([]ErrorText, 1)}, text, where)
	var out []int32
	for _, id := range s.phrases {
		for _, o := range b.phrases[id].owners {
			if o.role == roleKeyword || o.role == roleError && from == fromErrors {
				out = append(out, o.lesson)
			}
		}
	}
	return out
}

// WithoutLikeness returns a copy of the book that matches exactly only.
func (b *Book) WithoutLikeness() *Book {
	next := *b
	next.like = nil
	return &next
}

// AsksForLikeness reports whether a lesson of the book matches by likeness (like: true).
func (b *Book) AsksForLikeness() bool {
	return slices.ContainsFunc(b.compiled, func(u compiled) bool { return u.lesson.Trigger.Like })
}

// MatchesByLikeness reports whether the book has thresholds of captured traffic.
func (b *Book) MatchesByLikeness() bool { return b.like != nil }

// likeHits adds the matches by likeness to the exact matches. A text adds no match if the lesson that
// the text resembles most matches exactly.
func (b *Book) likeHits(s *scratch, q *Query, hits []Hit) []Hit {
	found := b.like.resembling(q)
	for i := range found {
		r := &found[i]
		m, u := &s.seen[r.index], &b.compiled[r.index]
		if m.vetoed || !u.admits(q) || slices.ContainsFunc(hits, func(h Hit) bool { return h.Lesson == r.Lesson }) {
			continue
		}
		failing := ""
		if j := slices.IndexFunc(q.Errors, func(e ErrorText) bool { return r.CallID != "" && e.CallID == r.CallID }); j >= 0 {
			failing = q.Errors[j].Tool
		}
		if u.offered(&signs{}, q, failing) {
			hits = append(hits, Hit{Lesson: r.Lesson, CallID: r.CallID, Like: r})
		}
	}
	return hits
}

// Likeness returns the windows of a query that resemble a lesson of the book, the highest score first:
// all windows with a score of at least near times the threshold.
func (b *Book) Likeness(q *Query, slug string, near float64) []Resemblance {
	if b.like == nil {
		return nil
	}
	i := slices.IndexFunc(b.compiled, func(u compiled) bool { return u.lesson.Slug == slug })
	if i < 0 {
		return nil
	}
	return b.like.near(q, int32(i), float32(near)) //nolint:gosec // a lesson count
}
