// Package backtest tells in which captured sessions a lesson would have fired, by which words, and
// what those sessions were worth. It sees what the matcher would have seen: the user's new words
// and the new tool errors of each exchange.
//
// Contract: it holds counts, never a session: a Run may be shown a million of them. It is pure.
//
// Hazard: what the sessions were worth that a lesson would have fired in is no effect of the
// lesson. A lesson about failing builds fires where builds fail; only the holdout tells what it
// does.
package backtest

import (
	"cmp"
	"maps"
	"slices"

	"precept/lesson"
	"precept/sample"
)

// Session is one captured session.
type Session struct {
	Tenant, Name string
	Exchanges    []sample.Exchange // in order
	Told         bool              // somebody said what it was worth
	Reward       float64           // when Told
}

// Word is a phrase or tag of a lesson, with the sessions in which it stands.
type Word struct {
	Word     string `json:"word"`
	Sessions int    `json:"sessions"`
}

// Result is what became of one lesson.
type Result struct {
	Slug     string   `json:"slug"`
	Sessions int      `json:"sessions"` // that were looked at
	Fired    int      `json:"fired"`    // in which the lesson would have fired
	Words    []Word   `json:"words"`
	Silent   []string `json:"silent"` // phrases and tags that stood in no session
	Worth    Worth    `json:"worth"`
	Examples []string `json:"examples"` // names of some sessions in which it would have fired
	Near     Near     `json:"near_misses"`
}

// Near are the sessions in which a lesson came near and would not have fired.
type Near struct {
	Sessions int      `json:"sessions"`
	Why      []Word   `json:"why"`      // what was missing, the most frequent first
	Examples []string `json:"examples"` // names of some of them
}

// Worth is the mean reward of the sessions that were told of: where the lesson would have fired,
// and elsewhere; null where there are none.
type Worth struct {
	Fired     *float64 `json:"mean_fired"`
	ToldFired int      `json:"told_fired"`
	Rest      *float64 `json:"mean_rest"`
	ToldRest  int      `json:"told_rest"`
}

// maxExamples is how many sessions are named.
const maxExamples = 10

// Run goes through sessions. It is for one goroutine.
type Run struct {
	book      *lesson.Book
	tagger    *lesson.Tagger
	counts    map[string]*count
	scattered []scattered
	sessions  map[string]int // by tenant; all of them under ""
	told      map[string]*sum
}

type sum struct {
	n     int
	total float64
}

func (s *sum) mean() *float64 {
	if s.n == 0 {
		return nil
	}
	m := s.total / float64(s.n)
	return &m
}

// count is what is known of one lesson so far.
type count struct {
	lesson   *lesson.Lesson // as it is
	fired    int
	worth    sum
	words    map[string]int
	examples []string

	near         int
	nearWhy      map[string]int
	nearExamples []string
}

// New makes a run over lessons, whatever state they are in. tagger may be nil.
func New(lessons []*lesson.Lesson, tagger *lesson.Tagger) *Run {
	r := &Run{tagger: tagger, counts: map[string]*count{}, sessions: map[string]int{}, told: map[string]*sum{}}
	bare := make([]*lesson.Lesson, 0, len(lessons))
	for _, l := range lessons {
		bare = append(bare, stripped(l))
		r.scattered = append(r.scattered, scatteredOf(l)...)
		r.counts[l.Slug] = &count{lesson: l, words: map[string]int{}, nearWhy: map[string]int{}}
	}
	r.book = lesson.NewBook(bare)
	return r
}

// stripped is a lesson with its trigger alone: in force, and without the targets that a capture
// does not tell, the role and the skill.
func stripped(l *lesson.Lesson) *lesson.Lesson {
	c := &lesson.Lesson{Slug: l.Slug, State: lesson.Active, Trigger: l.Trigger, Scope: l.Scope}
	c.Trigger.Targets = nil
	for _, t := range l.Trigger.Targets {
		if t.Operator == "" { // anyone, as far as can be told
			c.Trigger.Targets = nil
			break
		}
		c.Trigger.Targets = append(c.Trigger.Targets, lesson.Target{Operator: t.Operator})
	}
	return c
}

// Add shows the run a session.
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
	r.missed(queries, fired, s.Name)
	for _, tenant := range []string{"", s.Tenant} {
		r.sessions[tenant]++
		if r.told[tenant] == nil {
			r.told[tenant] = &sum{}
		}
		r.told[tenant].add(s)
	}
	for slug, words := range fired {
		c := r.counts[slug]
		c.fired++
		c.worth.add(s)
		for w := range words {
			c.words[w]++
		}
		if len(c.examples) < maxExamples {
			c.examples = append(c.examples, s.Name)
		}
	}
}

func (s *sum) add(x *Session) {
	if x.Told {
		s.n++
		s.total += x.Reward
	}
}

// Of tells what became of a lesson so far.
func (r *Run) Of(slug string) Result {
	c := r.counts[slug]
	if c == nil {
		return Result{Slug: slug}
	}
	out := Result{
		Slug: slug, Sessions: r.sessions[c.lesson.Scope.Tenant], Fired: c.fired, Silent: []string{}, Examples: slices.Clone(c.examples),
	}
	out.Words = byNumber(c.words)
	out.Near = Near{c.near, byNumber(c.nearWhy), append([]string{}, c.nearExamples...)}
	t := &c.lesson.Trigger
	for _, w := range slices.Concat(t.Keywords, t.ErrorPatterns, t.Tags) {
		if c.words[w] == 0 {
			out.Silent = append(out.Silent, w)
		}
	}
	rest := sum{}
	if all := r.told[c.lesson.Scope.Tenant]; all != nil {
		rest = sum{all.n - c.worth.n, all.total - c.worth.total}
	}
	out.Worth = Worth{c.worth.mean(), c.worth.n, rest.mean(), rest.n}
	return out
}

// byNumber lists what was counted, the most frequent first.
func byNumber(counts map[string]int) []Word {
	out := []Word{}
	for _, w := range slices.Sorted(maps.Keys(counts)) {
		out = append(out, Word{w, counts[w]})
	}
	slices.SortStableFunc(out, func(a, b Word) int { return cmp.Compare(b.Sessions, a.Sessions) })
	return out
}

// Results tells what became of every lesson, by slug.
func (r *Run) Results() []Result {
	out := make([]Result, 0, len(r.counts))
	for _, slug := range slices.Sorted(maps.Keys(r.counts)) {
		out = append(out, r.Of(slug))
	}
	return out
}

// Sessions is how many were looked at.
func (r *Run) Sessions() int { return r.sessions[""] }

// Checks is the hook of lesson.Checks: how often a lesson fired, in how many sessions.
func (r *Run) Checks(l *lesson.Lesson) (fired, sessions int) {
	o := r.Of(l.Slug)
	return o.Fired, o.Sessions
}
