// Package backtest reports in which captured sessions a lesson would have matched, by which words,
// and the reward of those sessions. The search uses the matcher's input: the user's new words and
// the new tool errors of each exchange.
//
// The contract: a Run keeps counts and a few names, and no session, so a million sessions fit. The
// result depends on the lessons and the sessions alone.
//
// The hazard: the mean reward of the sessions in which a lesson matches is not an effect of the
// lesson, because a lesson about failing builds matches in sessions whose builds fail. Only the holdout
// measures the effect.
package backtest

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"precept/inject/lesson"
	"precept/internal/sample"
)

// Session is one captured session.
type Session struct {
	Tenant, Name string
	Exchanges    []sample.Exchange // in order
	Rewarded     bool              // the session has a reward
	Reward       float64           // 0 to 1, if Rewarded
}

// Word is a phrase, a kind or a tag of a lesson, or in Near.Why a missing condition, with the number of
// sessions in which it occurred.
type Word struct {
	Word     string `json:"word"`
	Sessions int    `json:"sessions"`
}

// Result is the result of one lesson.
type Result struct {
	Slug     string      `json:"slug"`
	Sessions int         `json:"sessions"` // number of sessions of the lesson's tenant, or of all tenants
	Fired    int         `json:"fired"`    // sessions in which the lesson would have matched
	Words    []Word      `json:"words"`
	Silent   []string    `json:"silent"` // phrases, kinds and tags by which the lesson matched in no session
	Rewards  MeanRewards `json:"worth"`
	Examples []string    `json:"examples"` // names of some sessions with a match
	Near     Near        `json:"near_misses"`
	Like     Like        `json:"likeness"`
}

// Near counts the near misses of a lesson: sessions without a match, in which a trigger occurs but another
// condition fails, or all words of a keyword occur but not the phrase.
type Near struct {
	Sessions int      `json:"sessions"`
	Why      []Word   `json:"why"`      // missing conditions, the most frequent first
	Examples []string `json:"examples"` // names of some of these sessions
}

// Like holds the sessions in which a lesson would have matched by likeness, the similarity of the user's sentence
// to the lesson, without an exact match.
type Like struct {
	Captured int           `json:"captured"` // captured sessions that calibrate the threshold of a score; below 200 no lesson matches by likeness
	Injected bool          `json:"injected"` // false: the lesson is suggested, and never injected by likeness
	Sessions int           `json:"sessions"`
	Examples []LikeExample `json:"examples"` // the highest scores first
}

// LikeExample is a session in which a lesson would have matched by likeness.
type LikeExample struct {
	Session   string   `json:"session"`
	Sentence  string   `json:"sentence"`
	Words     []string `json:"words"` // words of the sentence that the lesson shares
	Score     float64  `json:"score"`
	Threshold float64  `json:"threshold"`
}

// MeanRewards holds the mean rewards of the sessions with a match and of the other sessions.
type MeanRewards struct {
	Fired         *float64 `json:"mean_fired"` // null without a rewarded session
	RewardedFired int      `json:"told_fired"` // number of rewarded sessions with a match
	Rest          *float64 `json:"mean_rest"`  // null without a rewarded session
	RewardedRest  int      `json:"told_rest"`  // number of rewarded sessions without a match
}

// maxExamples is the number of sessions that are named.
const maxExamples = 10

// Run counts the matches of lessons over sessions. A Run is not safe for concurrent use.
type Run struct {
	book     *lesson.Book
	like     likeness
	tagger   *lesson.Tagger
	counts   map[string]*count  // by slug
	keywords []multiWordKeyword // for near misses
	seen     map[string]tally   // added sessions by tenant; the sum of all tenants under ""
}

// tally counts sessions, and sums the rewards of rewarded sessions.
type tally struct {
	count, rewarded int
	rewards         float64
}

func (t *tally) add(s *Session) {
	t.count++
	if s.Rewarded {
		t.rewarded++
		t.rewards += s.Reward
	}
}

func (t *tally) mean() *float64 {
	if t.rewarded == 0 {
		return nil
	}
	return new(t.rewards / float64(t.rewarded))
}

// found holds the sessions with a match, or with a near miss, of one lesson.
type found struct {
	sessions tally
	words    map[string]int // number of sessions by trigger, or by missing condition
	examples []string       // names of the first sessions
}

// add adds a session. New words are counted while there are fewer than limit words.
func (f *found) add(s *Session, words map[string]bool, limit int) {
	f.sessions.add(s)
	for w := range words {
		if _, known := f.words[w]; known || len(f.words) < limit {
			f.words[w]++
		}
	}
	if len(f.examples) < maxExamples {
		f.examples = append(f.examples, s.Name)
	}
}

// count is the state of a run for one lesson: matches by word, and near misses by reason.
type count struct {
	lesson      *lesson.Lesson // as given to New; Run.book has a copy from stripped
	fired, near found
	like        Like
}

// New returns a run over lessons in any state. Without a tagger, lessons match without tags.
func New(lessons []*lesson.Lesson, tagger *lesson.Tagger) *Run {
	r := &Run{tagger: tagger, counts: map[string]*count{}, seen: map[string]tally{}}
	bare := make([]*lesson.Lesson, 0, len(lessons))
	for _, l := range lessons {
		bare = append(bare, stripped(l))
		r.keywords = append(r.keywords, multiWordKeywords(l)...)
		r.counts[l.Slug] = &count{lesson: l, fired: found{words: map[string]int{}}, near: found{words: map[string]int{}}}
	}
	r.book = lesson.NewBook(bare)
	return r
}

// stripped returns an active copy of a lesson without role and skill in its targets, which stored
// sessions do not have.
func stripped(l *lesson.Lesson) *lesson.Lesson {
	c := &lesson.Lesson{Slug: l.Slug, Title: l.Title, State: lesson.Active, Form: l.Form, Trigger: l.Trigger, Scope: l.Scope}
	c.Trigger.Targets = nil
	for _, t := range l.Trigger.Targets {
		c.Trigger.Targets = append(c.Trigger.Targets, lesson.Target{Operator: t.Operator})
	}
	return c
}

// Add counts a session.
func (r *Run) Add(s *Session) {
	fired := map[string]map[string]bool{}
	queries := Queries(s.Exchanges)
	for i := range queries {
		q := &queries[i]
		q.Tenant = s.Tenant
		r.tagger.Tag(q)
		for _, h := range r.book.Match(q) {
			words := fired[h.Lesson.Slug]
			if words == nil {
				words = map[string]bool{}
				fired[h.Lesson.Slug] = words
			}
			for _, w := range h.Lesson.Fired(q) {
				words[w] = true
			}
		}
	}
	r.countNearMisses(queries, fired, s)
	r.countResemblances(queries, fired, s)
	for _, tenant := range slices.Compact([]string{"", s.Tenant}) {
		all := r.seen[tenant]
		all.add(s)
		r.seen[tenant] = all
	}
	for slug, words := range fired {
		r.counts[slug].fired.add(s, words, math.MaxInt)
	}
}

// ResultOf returns the result of one lesson.
func (r *Run) ResultOf(slug string) Result {
	c := r.counts[slug]
	if c == nil {
		return Result{Slug: slug}
	}
	all := r.seen[c.lesson.Scope.Tenant]
	rest := tally{rewarded: all.rewarded - c.fired.sessions.rewarded, rewards: all.rewards - c.fired.sessions.rewards}
	like := c.like
	like.Captured, like.Examples = r.like.sessions, append([]LikeExample{}, like.Examples...)
	out := Result{
		Like: like,
		Slug: slug, Sessions: all.count, Silent: []string{},
		Fired: c.fired.sessions.count, Words: byNumber(c.fired.words), Examples: slices.Clone(c.fired.examples),
		Rewards: MeanRewards{c.fired.sessions.mean(), c.fired.sessions.rewarded, rest.mean(), rest.rewarded},
		Near:    Near{c.near.sessions.count, byNumber(c.near.words), append([]string{}, c.near.examples...)},
	}
	t := &c.lesson.Trigger
	for _, w := range slices.Concat(t.Keywords, t.ErrorPatterns, t.ErrorKinds, t.RequestKinds, t.Tags) {
		if c.fired.words[w] == 0 {
			out.Silent = append(out.Silent, w)
		}
	}
	return out
}

// byNumber lists words with their counts, the most frequent first.
func byNumber(counts map[string]int) []Word {
	out := []Word{}
	for _, w := range slices.Sorted(maps.Keys(counts)) {
		out = append(out, Word{w, counts[w]})
	}
	slices.SortStableFunc(out, func(a, b Word) int { return cmp.Compare(b.Sessions, a.Sessions) })
	return out
}

// Results returns the results of all lessons, by slug.
func (r *Run) Results() []Result {
	out := make([]Result, 0, len(r.counts))
	for _, slug := range slices.Sorted(maps.Keys(r.counts)) {
		out = append(out, r.ResultOf(slug))
	}
	return out
}

// Sessions returns the number of sessions that were added.
func (r *Run) Sessions() int { return r.seen[""].count }

// Matches returns the number of sessions in which a lesson matched, and the number of sessions of its tenant
// or, for a lesson without a tenant, of all tenants. Matches implements lesson.Checks.Backtest.
func (r *Run) Matches(l *lesson.Lesson) (fired, sessions int) {
	o := r.ResultOf(l.Slug)
	return o.Fired, o.Sessions
}
