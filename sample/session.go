package sample

import (
	"bytes"
	"encoding/json"
	"slices"
	"time"
)

// Failing decides whether a tool's answer is an error: the tool's name, the call's arguments, the
// answer's text, and what the wire says of it (+1 error, -1 none, 0 nothing). The detector is given
// as a parameter because it lives a floor up.
type Failing func(tool, args, text string, isError int8) bool

// Session is a closed session, from which samples are built.
type Session struct {
	Tenant, Agent, Name, ID string
	Exchanges               []Exchange // in any order
	Ratings                 []Rating
	Failing                 Failing // nil: only what the wire itself calls an error
}

// Rating is one feedback on a session.
type Rating struct {
	At         time.Time
	Source     string // user | system | implicit
	Type       string // approval | rejection | correction | score
	Score      float64
	Label      string // Good, Acceptable, Poor or empty
	Comment    string
	Correction json.RawMessage // what the answer should have been
	Details    json.RawMessage
	Turn       int // the turn it speaks of; 0: the session
}

// step is a tool call with its answer.
type step struct {
	Call
	turn     int
	answered bool
	failed   bool
	edited   bool // it came back in the history with other arguments: somebody changed it before it was carried out
	text     string
}

// part is one user turn: the exchange that brought a person's words, and those in which the agent
// worked on them.
type part struct {
	words     string
	exchanges []*Exchange
}

// history is a session laid out for the builders.
type history struct {
	*Session
	kept  []*Exchange // what counts, in order
	items [][]message // the new items of each
	parts []part
	steps []step
	open  map[string][]int // steps without an answer, by the id of their call
	loops int
}

// lay orders the exchanges, leaves out attempts that a retry repaired, and follows the calls.
func (s *Session) lay() *history {
	h := &history{Session: s}
	all := make([]*Exchange, len(s.Exchanges))
	for i := range s.Exchanges {
		all[i] = &s.Exchanges[i]
	}
	slices.SortStableFunc(all, func(a, b *Exchange) int {
		if a.Turn != b.Turn {
			return a.Turn - b.Turn
		}
		return a.At.Compare(b.At)
	})
	for i, e := range all {
		if e.Outcome != Complete && slices.ContainsFunc(all[i+1:], func(later *Exchange) bool { return repairs(later, e) }) {
			continue
		}
		h.add(e)
	}
	return h
}

// repairs reports whether later is a retry of e: the same turn, the same new items.
func repairs(later, e *Exchange) bool {
	if later.Turn != e.Turn || later.NewFrom != e.NewFrom || len(later.New) != len(e.New) {
		return false
	}
	for i := range e.New {
		if !bytes.Equal(e.New[i], later.New[i]) {
			return false
		}
	}
	return true
}

func (h *history) add(e *Exchange) {
	var items []message
	words := ""
	for _, raw := range e.New {
		m, ok := decodeItem(raw)
		if !ok {
			continue
		}
		items = append(items, m)
		if m.words != "" {
			words = m.words
		}
		for _, c := range m.calls {
			h.call(c, e.Turn)
		}
		for _, r := range m.results {
			h.result(r)
		}
	}
	for _, c := range e.Reply.Calls {
		h.call(c, e.Turn)
	}
	if words != "" || len(h.parts) == 0 {
		h.parts = append(h.parts, part{words: words})
	}
	last := &h.parts[len(h.parts)-1]
	last.exchanges = append(last.exchanges, e)
	h.kept = append(h.kept, e)
	h.items = append(h.items, items)
	h.loops += e.Loops
}

// call notes a call once: it is seen in the reply and again in the history that the agent sends
// back.
func (h *history) call(c Call, turn int) {
	if c.ID != "" {
		for i := len(h.steps) - 1; i >= max(0, len(h.steps)-64); i-- {
			if s := &h.steps[i]; s.ID == c.ID {
				s.edited = s.edited || c.Name != s.Name || !sameArgs(c.Args, s.Args)
				return
			}
		}
	}
	if h.open == nil {
		h.open = map[string][]int{}
	}
	h.open[c.ID] = append(h.open[c.ID], len(h.steps))
	h.steps = append(h.steps, step{Call: c, turn: turn})
}

// result answers the latest call of its id that has no answer yet.
func (h *history) result(r result) {
	open := h.open[r.callID]
	if len(open) == 0 {
		return
	}
	h.open[r.callID] = open[:len(open)-1]
	s := &h.steps[open[len(open)-1]]
	s.answered, s.text = true, r.text
	if h.Failing != nil {
		s.failed = h.Failing(s.Name, s.Args, r.text, r.isError)
	} else {
		s.failed = r.isError > 0
	}
}

// single reports whether the session is one request and its reply.
func (h *history) single() bool {
	if len(h.kept) != 1 {
		return false
	}
	return !slices.ContainsFunc(h.items[0], func(m message) bool { return m.role == "assistant" || m.role == "tool" })
}

// first and last turn of the part.
func (p *part) turns() (first, last int) {
	return p.exchanges[0].Turn, p.exchanges[len(p.exchanges)-1].Turn
}
