package lesson

import (
	"slices"
)

// matchState holds the results of a match for one lesson.
type matchState struct {
	touched       bool  // the lesson is in scratch.touched
	words         bool  // the user's words or tags contain a trigger
	vetoed        bool  // a text contains a phrase of not_keywords
	toolsCompared bool  // the tools of the request were compared
	toolOffered   bool  // the request offers one of the lesson's tools
	compared      int32 // 1 + index of the newest error text whose tool was compared
	err           int32 // 1 + index of the newest error text with a trigger
}

// maxWork is the maximum number of phrases found and places tried in one match, which take some
// milliseconds. Without the limit, a crafted text could cost a second if phrases contain a * or are
// suffixes of each other. Typical texts need a few hundred.
const maxWork = 1 << 18

// scratch is the memory of one match and never outlives the call.
type scratch struct {
	text    []byte
	left    int          // remaining part of maxWork
	foundIn []int32      // by phrase, the last text with the phrase: inWords, 1 + the index of an error text, or 0 for none
	phrases []int32      // found phrases
	seen    []matchState // by lesson
	touched []int32      // lessons with a trigger or a veto
}

func (s *scratch) touch(n int32) *matchState {
	m := &s.seen[n]
	if !m.touched {
		m.touched = true
		s.touched = append(s.touched, n)
	}
	return m
}

// inWords marks a phrase that was found in the user's words.
const inWords = -1

// recordPhrase records the text in which a phrase was found.
func (s *scratch) recordPhrase(id, where int32) {
	if s.foundIn[id] == 0 {
		s.phrases = append(s.phrases, id)
	}
	s.foundIn[id] = where
}

func (s *scratch) reset() {
	for _, id := range s.phrases {
		s.foundIn[id] = 0
	}
	s.phrases = s.phrases[:0]

	for _, n := range s.touched {
		s.seen[n] = matchState{}
	}
	s.touched, s.text = s.touched[:0], s.text[:0]
}

// Match returns the matching lessons: exact matches ordered by slug, then matches by likeness if the
// book has traffic. Match is safe for concurrent use and allocates the hits only. Beyond maxWork Match
// returns no hit and sets q.Spent, because the rest could contain a phrase that forbids a lesson.
func (b *Book) Match(q *Query) []Hit {
	if len(b.compiled) == 0 {
		return nil
	}
	s, _ := b.scratch.Get().(*scratch)
	defer func() {
		s.reset()
		b.scratch.Put(s)
	}()
	s.left = maxWork
	for _, w := range q.Words {
		b.scan(s, q, w, inWords)
	}
	for i := range q.Errors {
		b.scan(s, q, q.Errors[i].Text, int32(i+1)) //nolint:gosec // the number of tool results of one request
	}
	q.Spent = s.left < 0
	if q.Spent {
		return nil
	}
	for _, tag := range q.Tags {
		for _, n := range b.tags[tagKey(tag)] {
			s.touch(n).words = true
		}
	}
	b.markRequests(s, q)
	for i := range q.Errors {
		b.markError(s, q, i)
	}
	hits := b.hits(s, q)
	if b.like != nil {
		hits = b.likeHits(s, q, hits)
	}
	return hits
}

// markRequests marks the lessons that have a kind of the requests in the user's words.
func (b *Book) markRequests(s *scratch, q *Query) {
	if len(b.requests) == 0 {
		return
	}
	for _, kind := range q.RequestKinds() {
		for _, n := range b.requests[kind] {
			s.touch(n).words = true
		}
	}
}

// markError marks the lessons that have a tag or a kind of the error text i.
func (b *Book) markError(s *scratch, q *Query, i int) {
	for _, tag := range q.Errors[i].Tags {
		for _, n := range b.tags[tagKey(tag)] {
			if m := s.touch(n); b.compiled[n].offered(m, q, q.Errors[i].Tool) {
				m.err = max(m.err, int32(i+1))
			}
		}
	}
	for _, kind := range q.Errors[i].Kinds {
		for _, n := range b.kinds[string(kind)] {
			if m := s.touch(n); b.compiled[n].failedIn(m, q, q.Errors[i].Tool) {
				m.err = max(m.err, int32(i+1))
			}
		}
	}
}

// scan searches a text for phrases. where is inWords for the user's words, or 1 + the index of an error text.
func (b *Book) scan(s *scratch, q *Query, text string, where int32) {
	s.text = appendText(s.text[:0], text)
	b.machine().scan(s.text, func(id int32, end int) bool {
		p := &b.phrases[id]
		if s.left--; s.foundIn[id] == where || !p.phrase.endsAt(s.text, end, &s.left) {
			return s.left >= 0
		}
		s.recordPhrase(id, where)
		for _, o := range p.owners {
			if where == inWords && o.role == roleError {
				continue
			}
			switch m := s.touch(o.lesson); {
			case o.role == roleVeto:
				m.vetoed = true
			case where == inWords:
				m.words = true
			case m.compared != where:
				m.compared = where
				if b.compiled[o.lesson].offered(m, q, q.Errors[where-1].Tool) {
					m.err = where
				}
			}
		}
		return s.left >= 0
	})
}

// Limits of a client's tool names. Names beyond the limits are not compared.
const (
	maxTools    = 1024 // names of a request
	maxToolName = 256  // bytes of a name
)

// offered reports whether the request offers one of the lesson's tools, or the failed call used one. A
// lesson without tools is always offered. failing is the tool of the failed call, empty for the user's words.
func (c *compiled) offered(m *matchState, q *Query, failing string) bool {
	tools := c.lesson.Trigger.Tools
	if len(tools) == 0 || failing != "" && anyTool(tools, []string{failing}) {
		return true
	}
	if !m.toolsCompared {
		m.toolsCompared, m.toolOffered = true, anyTool(tools, q.Tools[:min(len(q.Tools), maxTools)])
	}
	return m.toolOffered
}

// failedIn reports whether the lesson is for errors of the failing tool. Errors of every tool have kinds,
// so a lesson with tools matches a kind only in the errors of these tools.
func (c *compiled) failedIn(m *matchState, q *Query, failing string) bool {
	if failing == "" {
		return c.offered(m, q, "")
	}
	tools := c.lesson.Trigger.Tools
	return len(tools) == 0 || anyTool(tools, []string{failing})
}

func anyTool(patterns, names []string) bool {
	return slices.ContainsFunc(names, func(n string) bool { return len(n) <= maxToolName && anyGlob(patterns, n) })
}

// silenced reports whether the lesson is inactive in this turn although its state fires. A lesson
// of one tenant or agent supersedes others for this tenant or agent only.
func (c *compiled) silenced(q *Query) bool {
	return c.lesson.ExpiredAt(q.Now) ||
		slices.ContainsFunc(c.superseders, func(l *Lesson) bool { return l.InForce(q.Now) && l.Scope.admits(q) })
}

// admits reports whether the lesson is in effect for the request.
func (c *compiled) admits(q *Query) bool {
	return !c.silenced(q) && c.lesson.Scope.admits(q) && c.lesson.Trigger.addressed(q)
}

// hits returns a hit for each touched lesson that the query admits, in the order of the slugs.
func (b *Book) hits(s *scratch, q *Query) []Hit {
	if len(s.touched) == 0 {
		return nil
	}
	slices.Sort(s.touched) // lessons are numbered by slug
	var out []Hit
	for _, i := range s.touched {
		m, c := &s.seen[i], &b.compiled[i]
		if m.vetoed || !c.admits(q) {
			continue
		}
		switch {
		case m.words && c.offered(m, q, ""):
			out = append(out, Hit{Lesson: c.lesson})
		case m.err > 0:
			out = append(out, Hit{Lesson: c.lesson, CallID: q.Errors[m.err-1].CallID})
		}
	}
	return out
}
