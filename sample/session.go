package sample

import (
	"bytes"
	"encoding/json"
	"slices"
	"time"

	"precept/wire"
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
	kept  []*Exchange    // what counts, in order
	items [][]*wire.Item // the new items of each
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
	var before *Reply
	if n := len(h.kept); n > 0 {
		before = &h.kept[n-1].Reply
	}
	items := e.items(before)
	for _, it := range items {
		for _, c := range it.Calls {
			h.call(Call(c), e.Turn)
		}
		for i := range it.Results {
			h.result(&it.Results[i])
		}
	}
	for _, c := range e.calls() {
		h.call(c, e.Turn)
	}
	words := lastWords(items)
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
			s := &h.steps[i]
			if s.ID == c.ID && s.answered && s.turn != turn && !sameArgs(c.Args, s.Args) {
				break // the id is used again
			}
			if s.ID == c.ID {
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
func (h *history) result(r *wire.Result) {
	open := h.open[r.CallID]
	if len(open) == 0 {
		return
	}
	h.open[r.CallID] = open[:len(open)-1]
	s := &h.steps[open[len(open)-1]]
	s.answered, s.text = true, r.Text
	if h.Failing != nil {
		s.failed = h.Failing(s.Name, s.Args, r.Text, r.IsError)
	} else {
		s.failed = r.IsError > 0
	}
}

// single reports whether the session is one request and its reply.
func (h *history) single() bool {
	if len(h.kept) != 1 {
		return false
	}
	return !slices.ContainsFunc(h.items[0], func(it *wire.Item) bool { return speaks(it) || len(it.Results) > 0 })
}

// first and last turn of the part.
func (p *part) turns() (first, last int) {
	return p.exchanges[0].Turn, p.exchanges[len(p.exchanges)-1].Turn
}
