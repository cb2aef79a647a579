// Package backtest reports in which captured sessions a lesson would have matched, which words matched, and how those
// sessions were rewarded. Like the live matcher, the package reads the user's new words and new tool errors.
//
// The contract: an Evaluator keeps counts and a few names, so that a million sessions fit into memory. The result
// depends only on the lessons and the sessions.
//
// The hazard: the mean reward in matching sessions is not the lesson's effect. A lesson about failing builds matches in
// sessions with failing builds. Only a comparison with the holdout, the sessions where the lesson was withheld at
// random, measures the effect.
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
	Rewarded     bool
	Reward       float64 // 0 to 1; set only if Rewarded
}

// SessionCount is the number of sessions that have one of a lesson's triggers or, in NearMissCounts, that miss one
// condition.
type SessionCount struct {
	Text     string `json:"word"`
	Sessions int    `json:"sessions"`
}

// Result is the result for one lesson.
type Result struct {
	Slug           string         `json:"slug"`
	Sessions       int            `json:"sessions"` // sessions in the lesson's tenant; in all tenants if the lesson has none
	Matched        int            `json:"fired"`    // sessions that the lesson would have matched
	Words          []SessionCount `json:"words"`
	SilentTriggers []string       `json:"silent"` // triggers that occurred in no session with a match
	Rewards        MeanRewards    `json:"worth"`
	Examples       []string       `json:"examples"` // names of some sessions with a match
	NearMisses     NearMissCounts `json:"near_misses"`
	Likeness       LikenessCounts `json:"likeness"`
}

// NearMissCounts counts a lesson's near misses. A near miss is a session without a match in which a trigger occurs but
// another condition fails, or in which all words of a keyword occur but not as the phrase.
type NearMissCounts struct {
	Sessions          int            `json:"sessions"`
	MissingConditions []SessionCount `json:"why"`      // missing conditions, the most frequent first
	Examples          []string       `json:"examples"` // names of some of these sessions
}

// LikenessCounts counts the sessions that a lesson would have matched only by likeness. Likeness is how much the user's
// sentence resembles the lesson.
type LikenessCounts struct {
	Captured int               `json:"captured"` // captured sessions for the thresholds; below lesson.LikeSessions, nothing matches
	Injected bool              `json:"injected"` // precept injects the lesson by likeness; if false, it only suggests the lesson
	Sessions int               `json:"sessions"`
	Examples []LikenessExample `json:"examples"` // by descending score
}

// LikenessExample is a session that a lesson would have matched by likeness.
type LikenessExample struct {
	Session   string   `json:"session"`
	Sentence  string   `json:"sentence"`
	Words     []string `json:"words"` // words that the sentence and the lesson share
	Score     float64  `json:"score"`
	Threshold float64  `json:"threshold"`
}

// MeanRewards holds the mean rewards for sessions with a match and for the other sessions.
type MeanRewards struct {
	MeanMatched       *float64 `json:"mean_fired"` // null if there is no rewarded session
	RewardedMatched   int      `json:"told_fired"` // rewarded sessions with a match
	MeanUnmatched     *float64 `json:"mean_rest"`  // null without a rewarded session
	RewardedUnmatched int      `json:"told_rest"`  // rewarded sessions without a match
}

const maxExamples = 10 // examples in each list

// Evaluator counts lesson matches over sessions. An Evaluator is not safe for concurrent use.
type Evaluator struct {
	book             *lesson.Book
	likeness         likenessState
	tagger           *lesson.Tagger
	counts           map[string]*lessonCount // by slug
	keywords         []multiWordKeyword      // for near misses
	sessionsByTenant map[string]sessionTally // by tenant; "" is the key for the sum
}

type sessionTally struct {
	count, rewarded int
	rewards         float64
}

func (t *sessionTally) add(s *Session) {
	t.count++
	if s.Rewarded {
		t.rewarded++
		t.rewards += s.Reward
	}
}

func (t *sessionTally) mean() *float64 {
	if t.rewarded == 0 {
		return nil
	}
	return new(t.rewards / float64(t.rewarded))
}

// matchedSessions describes the sessions with a match, or those with a near miss, of one lesson.
type matchedSessions struct {
	sessions sessionTally
	words    map[string]int // session count by trigger or missing condition
	examples []string       // first sessions
}

// add counts a session and the given words. Once there are limit different words, add ignores new words.
func (m *matchedSessions) add(s *Session, words map[string]bool, limit int) {
	m.sessions.add(s)
	for w := range words {
		if _, known := m.words[w]; known || len(m.words) < limit {
			m.words[w]++
		}
	}
	if len(m.examples) < maxExamples {
		m.examples = append(m.examples, s.Name)
	}
}

type lessonCount struct {
	lesson              *lesson.Lesson // as given to New; the book holds a copy without roles (see withoutRoles)
	matches, nearMisses matchedSessions
	likenessCounts      LikenessCounts
}

// New returns an evaluator for lessons in all states. The tagger may be nil.
func New(lessons []*lesson.Lesson, tagger *lesson.Tagger) *Evaluator {
	r := &Evaluator{tagger: tagger, counts: map[string]*lessonCount{}, sessionsByTenant: map[string]sessionTally{}}
	bare := make([]*lesson.Lesson, 0, len(lessons))
	for _, l := range lessons {
		bare = append(bare, withoutRoles(l))
		r.keywords = append(r.keywords, multiWordKeywords(l)...)
		r.counts[l.Slug] = &lessonCount{lesson: l, matches: matchedSessions{words: map[string]int{}}, nearMisses: matchedSessions{words: map[string]int{}}}
	}
	r.book = lesson.NewBook(bare)
	return r
}

// withoutRoles returns an active copy without roles and skills, because stored sessions contain neither.
func withoutRoles(l *lesson.Lesson) *lesson.Lesson {
	c := &lesson.Lesson{Slug: l.Slug, Title: l.Title, State: lesson.Active, Form: l.Form, Trigger: l.Trigger, Scope: l.Scope}
	c.Trigger.Targets = nil
	for _, t := range l.Trigger.Targets {
		c.Trigger.Targets = append(c.Trigger.Targets, lesson.Target{Operator: t.Operator})
	}
	return c
}

// Add counts a session.
func (r *Evaluator) Add(s *Session) {
	matchedTriggers := map[string]map[string]bool{}
	queries := Queries(s.Exchanges)
	for i := range queries {
		q := &queries[i]
		q.Tenant = s.Tenant
		r.tagger.Tag(q)
		for _, h := range r.book.Match(q) {
			words := matchedTriggers[h.Lesson.Slug]
			if words == nil {
				words = map[string]bool{}
				matchedTriggers[h.Lesson.Slug] = words
			}
			for _, w := range h.Lesson.FiredTriggers(q) {
				words[w] = true
			}
		}
	}
	r.countNearMisses(queries, matchedTriggers, s)
	r.countLikenessMatches(queries, matchedTriggers, s)
	for _, tenant := range slices.Compact([]string{"", s.Tenant}) {
		all := r.sessionsByTenant[tenant]
		all.add(s)
		r.sessionsByTenant[tenant] = all
	}
	for slug, words := range matchedTriggers {
		r.counts[slug].matches.add(s, words, math.MaxInt)
	}
}

// Result returns the result for one lesson.
func (r *Evaluator) Result(slug string) Result {
	c := r.counts[slug]
	if c == nil {
		return Result{Slug: slug}
	}
	all := r.sessionsByTenant[c.lesson.Scope.Tenant]
	unmatched := sessionTally{rewarded: all.rewarded - c.matches.sessions.rewarded, rewards: all.rewards - c.matches.sessions.rewards}
	like := c.likenessCounts
	like.Captured, like.Examples = r.likeness.sessions, append([]LikenessExample{}, like.Examples...)
	out := Result{
		Likeness: like,
		Slug:     slug, Sessions: all.count, SilentTriggers: []string{},
		Matched: c.matches.sessions.count, Words: sortWords(c.matches.words), Examples: slices.Clone(c.matches.examples),
		Rewards:    MeanRewards{c.matches.sessions.mean(), c.matches.sessions.rewarded, unmatched.mean(), unmatched.rewarded},
		NearMisses: NearMissCounts{c.nearMisses.sessions.count, sortWords(c.nearMisses.words), append([]string{}, c.nearMisses.examples...)},
	}
	t := &c.lesson.Trigger
	for _, w := range slices.Concat(t.Keywords, t.ErrorPatterns, t.ErrorKinds, t.RequestKinds, t.Tags) {
		if c.matches.words[w] == 0 {
			out.SilentTriggers = append(out.SilentTriggers, w)
		}
	}
	return out
}

// sortWords returns the most frequent words first.
func sortWords(counts map[string]int) []SessionCount {
	out := []SessionCount{}
	for _, w := range slices.Sorted(maps.Keys(counts)) {
		out = append(out, SessionCount{w, counts[w]})
	}
	slices.SortStableFunc(out, func(a, b SessionCount) int { return cmp.Compare(b.Sessions, a.Sessions) })
	return out
}

// Results returns the results by slug.
func (r *Evaluator) Results() []Result {
	out := make([]Result, 0, len(r.counts))
	for _, slug := range slices.Sorted(maps.Keys(r.counts)) {
		out = append(out, r.Result(slug))
	}
	return out
}

// Sessions returns how many sessions were added.
func (r *Evaluator) Sessions() int { return r.sessionsByTenant[""].count }

// Matches returns how many sessions the lesson matched, out of all sessions in its tenant, or in all tenants if the
// lesson has no tenant. Matches implements lesson.Checker.Backtest.
func (r *Evaluator) Matches(l *lesson.Lesson) (matched, sessions int) {
	o := r.Result(l.Slug)
	return o.Matched, o.Sessions
}
