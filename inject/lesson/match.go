package lesson

import (
	"slices"
)

// matchState holds Match's intermediate results for one lesson.
type matchState struct {
	isTouched             bool  // in scratch.touched
	matchesWords          bool  // a trigger matches the user's words, their request kinds, or the tags
	vetoed                bool  // a not_keyword occurs in a text
	toolsCompared         bool  // toolOffered is computed
	toolOffered           bool  // the request offers one of the lesson's tools
	newestErrorWithPhrase int32 // 1 + index of the newest error that contains a phrase from the lesson; 0 for none
	newestError           int32 // 1 + index of the newest error that triggers the lesson; 0 for none
}

// maxWork is the maximum number of steps in one match. A step is a found phrase or a compared position. Typical texts
// need a few hundred steps, and maxWork steps take a few milliseconds. Without a limit, a text crafted to exploit
// phrases with a *, or phrases that are suffixes of each other, would take a second.
const maxWork = 1 << 18

// scratch is reusable memory for a match.
type scratch struct {
	text    []byte       // folded text
	budget  int          // remaining part of maxWork
	foundIn []int32      // by phrase: the id of the last text that contains the phrase (textID in scan), or 0
	phrases []int32      // found phrases
	states  []matchState // by lesson
	touched []int32      // lessons that have a trigger or not_keyword in a text
}

// touch returns the state of lesson n, and adds n to touched.
func (s *scratch) touch(n int32) *matchState {
	m := &s.states[n]
	if !m.isTouched {
		m.isTouched = true
		s.touched = append(s.touched, n)
	}
	return m
}

// userWordsID is the text id for the user's words.
const userWordsID = -1

func (s *scratch) recordPhrase(id, textID int32) {
	if s.foundIn[id] == 0 {
		s.phrases = append(s.phrases, id)
	}
	s.foundIn[id] = textID
}

func (s *scratch) reset() {
	for _, id := range s.phrases {
		s.foundIn[id] = 0
	}
	s.phrases = s.phrases[:0]

	for _, n := range s.touched {
		s.states[n] = matchState{}
	}
	s.touched, s.text = s.touched[:0], s.text[:0]
}

// takeScratch returns an empty scratch. The caller returns it with putScratch.
func (b *Book) takeScratch() *scratch {
	s, _ := b.scratch.Get().(*scratch)
	s.budget = maxWork
	return s
}

func (b *Book) putScratch(s *scratch) {
	s.reset()
	b.scratch.Put(s)
}

func (b *Book) scanAll(s *scratch, q *Query) {
	for _, w := range q.Words {
		b.scan(s, q, w, userWordsID)
	}
	for i := range q.Errors {
		b.scan(s, q, q.Errors[i].Text, int32(i+1)) //nolint:gosec // the number of tool results of one request fits in an int32
	}
}

// Match returns the exact matches, sorted by slug, then the matches by likeness. If it reaches maxWork, Match returns
// nothing and sets q.LimitExceeded, because the rest of the text could contain a not_keyword. Match is safe for
// concurrent use.
func (b *Book) Match(q *Query) []Hit {
	if len(b.active) == 0 {
		return nil
	}
	s := b.takeScratch()
	defer b.putScratch(s)
	b.scanAll(s, q)
	q.LimitExceeded = s.budget < 0
	if q.LimitExceeded {
		return nil
	}
	for _, tag := range q.Tags {
		for _, n := range b.byTag[tagKey(tag)] {
			s.touch(n).matchesWords = true
		}
	}
	b.markRequestKinds(s, q)
	for i := range q.Errors {
		b.markError(s, q, i)
	}
	hits := b.hits(s, q)
	if b.like != nil {
		hits = b.appendLikenessHits(s, q, hits)
	}
	return hits
}

func (b *Book) markRequestKinds(s *scratch, q *Query) {
	if len(b.byRequestKind) == 0 {
		return
	}
	for _, kind := range q.RequestKinds() {
		for _, n := range b.byRequestKind[kind] {
			s.touch(n).matchesWords = true
		}
	}
}

// markError records error i in the states of the lessons that have one of the error's tags or kinds.
func (b *Book) markError(s *scratch, q *Query, i int) {
	for _, tag := range q.Errors[i].Tags {
		for _, n := range b.byTag[tagKey(tag)] {
			if m := s.touch(n); b.active[n].isOffered(m, q, q.Errors[i].Tool) {
				m.newestError = max(m.newestError, int32(i+1))
			}
		}
	}
	for _, kind := range q.Errors[i].Kinds {
		for _, n := range b.byErrorKind[string(kind)] {
			if m := s.touch(n); b.active[n].firesOnToolError(m, q, q.Errors[i].Tool) {
				m.newestError = max(m.newestError, int32(i+1))
			}
		}
	}
}

// scan searches a text. textID is userWordsID, or 1 + an error's index.
func (b *Book) scan(s *scratch, q *Query, text string, textID int32) {
	s.text = appendText(s.text[:0], text)
	b.automaton().scan(s.text, func(id int32, end int) bool {
		p := &b.phrases[id]
		if s.budget--; s.foundIn[id] == textID || !p.phrase.endsAt(s.text, end, &s.budget) {
			return s.budget >= 0
		}
		s.recordPhrase(id, textID)
		for _, use := range p.uses {
			if textID == userWordsID && use.role == roleError {
				continue
			}
			switch m := s.touch(use.lesson); {
			case use.role == roleVeto:
				m.vetoed = true
			case textID == userWordsID:
				m.matchesWords = true
			case m.newestErrorWithPhrase != textID:
				m.newestErrorWithPhrase = textID
				if b.active[use.lesson].isOffered(m, q, q.Errors[textID-1].Tool) {
					m.newestError = textID
				}
			}
		}
		return s.budget >= 0
	})
}

// Limits for the tool names in a request. Further names are not compared.
const (
	maxTools    = 1024
	maxToolName = 256 // bytes
)

// isOffered reports whether the tools allow the lesson to match. They do if the lesson names no tools, if the request
// offers one of the lesson's tools, or if failedTool ("" for the user's words) is one of these tools. m caches the
// comparison with the request.
func (c *compiledLesson) isOffered(m *matchState, q *Query, failedTool string) bool {
	tools := c.lesson.Trigger.Tools
	if len(tools) == 0 || failedTool != "" && anyTool(tools, []string{failedTool}) {
		return true
	}
	if !m.toolsCompared {
		m.toolsCompared, m.toolOffered = true, anyTool(tools, q.Tools[:min(len(q.Tools), maxTools)])
	}
	return m.toolOffered
}

// firesOnToolError reports whether an error kind from failedTool triggers the lesson. Errors from many tools have the
// same kind, so an error triggers a lesson that names tools only if one of these tools failed.
func (c *compiledLesson) firesOnToolError(m *matchState, q *Query, failedTool string) bool {
	if failedTool == "" {
		return c.isOffered(m, q, "")
	}
	tools := c.lesson.Trigger.Tools
	return len(tools) == 0 || anyTool(tools, []string{failedTool})
}

func anyTool(patterns, names []string) bool {
	return slices.ContainsFunc(names, func(n string) bool { return len(n) <= maxToolName && anyGlob(patterns, n) })
}

// isExpiredOrSuperseded reports whether the lesson has expired, or is superseded by a lesson for the query's tenant and
// agent.
func (c *compiledLesson) isExpiredOrSuperseded(q *Query) bool {
	return c.lesson.ExpiredAt(q.Now) ||
		slices.ContainsFunc(c.superseders, func(l *Lesson) bool { return l.IsActiveAt(q.Now) && l.Scope.admits(q) })
}

// admits reports whether all conditions for a match hold, except triggers and tools.
func (c *compiledLesson) admits(q *Query) bool {
	return !c.isExpiredOrSuperseded(q) && c.lesson.Scope.admits(q) && c.lesson.Trigger.admitsModelAndAgent(q)
}

// hits returns the touched lessons that fulfil all conditions.
func (b *Book) hits(s *scratch, q *Query) []Hit {
	if len(s.touched) == 0 {
		return nil
	}
	slices.Sort(s.touched) // lessons are numbered by slug
	var out []Hit
	for _, i := range s.touched {
		m, c := &s.states[i], &b.active[i]
		if m.vetoed || !c.admits(q) {
			continue
		}
		switch {
		case m.matchesWords && c.isOffered(m, q, ""):
			out = append(out, Hit{Lesson: c.lesson})
		case m.newestError > 0:
			out = append(out, Hit{Lesson: c.lesson, CallID: q.Errors[m.newestError-1].CallID})
		}
	}
	return out
}
