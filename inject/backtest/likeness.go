package backtest

import (
	"cmp"
	"slices"

	"precept/inject/lesson"
)

const maxSentenceBytes = 300 // bytes of a sentence in an example

// LikenessConfig configures matches by likeness in an Evaluator.
type LikenessConfig struct {
	OtherLessons []*lesson.Lesson // other lessons in the bank, because a text matches only the most similar lesson
	Traffic      *lesson.Traffic
	Rate         float64 // match.like_rate
	Inject       bool    // match.like: lessons with like: true are injected
}

type likenessState struct {
	book     *lesson.Book // nil: matches by likeness are not counted
	sessions int          // captured sessions that set the thresholds
}

// EnableLikeness makes later Add calls also count matches by likeness (similar words), if enough sessions are captured.
func (r *Evaluator) EnableLikeness(config LikenessConfig) {
	all := make([]*lesson.Lesson, 0, len(config.OtherLessons)+len(r.counts))
	for _, c := range r.counts {
		all = append(all, withoutRoles(c.lesson))
		c.likenessCounts.Injected = config.Inject && c.lesson.Trigger.ByLikeness
	}
	for _, l := range config.OtherLessons {
		if r.counts[l.Slug] == nil && l.State.IsActive() {
			all = append(all, withoutRoles(l))
		}
	}
	r.likeness.sessions = config.Traffic.Sessions()
	if config.Traffic.HasEnoughSessions() {
		r.likeness.book = lesson.NewBook(all).WithLikeness(config.Traffic, config.Rate)
	}
}

func (r *Evaluator) countLikenessMatches(queries []lesson.Query, matchedTriggers map[string]map[string]bool, s *Session) {
	if r.likeness.book == nil {
		return
	}
	best := map[string]*lesson.Resemblance{}
	for i := range queries {
		for _, h := range r.likeness.book.Match(&queries[i]) {
			slug := h.Lesson.Slug
			if h.Resemblance == nil || r.counts[slug] == nil || matchedTriggers[slug] != nil {
				continue
			}
			if old := best[slug]; old == nil || old.Score < h.Resemblance.Score {
				best[slug] = h.Resemblance
			}
		}
	}
	for slug, like := range best {
		r.counts[slug].likenessCounts.add(s, like)
	}
}

func (l *LikenessCounts) add(s *Session, r *lesson.Resemblance) {
	l.Sessions++
	l.Examples = append(l.Examples, LikenessExample{s.Name, firstBytes(r.Window, maxSentenceBytes), r.Words, r.Score, r.Threshold})
	slices.SortStableFunc(l.Examples, func(a, b LikenessExample) int { return cmp.Compare(b.Score, a.Score) })
	l.Examples = l.Examples[:min(len(l.Examples), maxExamples)]
}
