package backtest

import (
	"cmp"
	"slices"

	"precept/inject/lesson"
)

// maxSentence is the maximum number of bytes of a sentence in an example.
const maxSentence = 300

// Likeness configures matches by likeness in a Run.
type Likeness struct {
	Others  []*lesson.Lesson // the other lessons of the bank; they compete, because a text matches only the lesson that it resembles most
	Traffic *lesson.Traffic
	Rate    float64 // match.like_rate
	On      bool    // match.like is on, so that lessons with like: true are injected
}

// likeness is the state of a run for matches by likeness.
type likeness struct {
	book     *lesson.Book // nil means matches by likeness are not counted
	sessions int          // captured sessions from which the thresholds are computed
}

// EnableLikeness makes the run also count matches by likeness, in the sessions that are added later. With too few
// captured sessions, no lesson matches by likeness.
func (r *Run) EnableLikeness(config Likeness) {
	all := make([]*lesson.Lesson, 0, len(config.Others)+len(r.counts))
	for _, c := range r.counts {
		all = append(all, withoutRoles(c.lesson))
		c.likeMatches.Injected = config.On && c.lesson.Trigger.Like
	}
	for _, l := range config.Others {
		if r.counts[l.Slug] == nil && l.State.Fires() {
			all = append(all, withoutRoles(l))
		}
	}
	r.like.sessions = config.Traffic.Sessions()
	if config.Traffic.HasEnoughSessions() {
		r.like.book = lesson.NewBook(all).WithLikeness(config.Traffic, config.Rate)
	}
}

// countResemblances counts a session for the lessons that match by likeness only.
func (r *Run) countResemblances(queries []lesson.Query, fired map[string]map[string]bool, s *Session) {
	if r.like.book == nil {
		return
	}
	best := map[string]*lesson.Resemblance{}
	for i := range queries {
		for _, h := range r.like.book.Match(&queries[i]) {
			slug := h.Lesson.Slug
			if h.Like == nil || r.counts[slug] == nil || fired[slug] != nil {
				continue
			}
			if old := best[slug]; old == nil || old.Score < h.Like.Score {
				best[slug] = h.Like
			}
		}
	}
	for slug, like := range best {
		r.counts[slug].likeMatches.add(s, like)
	}
}

// add counts a session, and keeps the examples with the highest scores.
func (l *Like) add(s *Session, r *lesson.Resemblance) {
	l.Sessions++
	l.Examples = append(l.Examples, LikeExample{s.Name, firstBytes(r.Window, maxSentence), r.Words, r.Score, r.Threshold})
	slices.SortStableFunc(l.Examples, func(a, b LikeExample) int { return cmp.Compare(b.Score, a.Score) })
	l.Examples = l.Examples[:min(len(l.Examples), maxExamples)]
}
