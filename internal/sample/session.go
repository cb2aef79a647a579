package sample

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"
	"time"

	"precept/internal/wire"
)

// FailureFunc reports whether a tool's result is an error. isError is the agent's flag: +1 error, -1 success, 0 no
// flag. Callers pass the function, because this package must not import package detect.
type FailureFunc func(tool, args, text string, isError int8) bool

// Session is a closed session, the source for samples.
type Session struct {
	Tenant, Agent, Name, ID string
	Exchanges               []Exchange // in any order
	Ratings                 []Rating
	IsFailure               FailureFunc // if nil, only the API's error flags decide
}

// Rating is one feedback entry on a session.
type Rating struct {
	At         time.Time
	Source     string // user | system | implicit
	Type       string // approval | rejection | correction | score
	Score      float64
	Label      string // Good, Acceptable, Poor or empty
	Comment    string
	Correction json.RawMessage // the right answer, for a correction
	Details    json.RawMessage
	Turn       int // rated turn; 0 means the whole session
}

// userTurn holds the user's words, the exchange with these words, and the exchanges in which the agent then worked on
// the request.
type userTurn struct {
	userText  string
	exchanges []*Exchange
}

type history struct {
	Session    *Session
	exchanges  []*Exchange    // in order, without failed attempts that the agent retried
	items      [][]*wire.Item // each exchange's items
	userTurns  []userTurn
	events     []Event
	newestCall map[string]int // index in events by call id
	calls      []*Event       // calls among events
	loops      int            // loop warnings
}

func (s *Session) history() *history {
	h := &history{Session: s, newestCall: map[string]int{}}
	all := make([]*Exchange, len(s.Exchanges))
	for i := range s.Exchanges {
		all[i] = &s.Exchanges[i]
	}
	slices.SortStableFunc(all, func(a, b *Exchange) int {
		return cmp.Or(a.Turn-b.Turn, a.At.Compare(b.At))
	})
	for i, e := range all {
		if e.Outcome != Complete && slices.ContainsFunc(all[i+1:], func(later *Exchange) bool { return isRetry(later, e) }) {
			continue
		}
		h.addExchange(e)
	}
	for i := range h.events {
		if h.events[i].Role == EventCall {
			h.calls = append(h.calls, &h.events[i])
		}
	}
	return h
}

// isRetry reports whether later repeats e. It returns false if the turn's items were not recorded because the program
// ended first.
func isRetry(later, e *Exchange) bool {
	return e.FirstNew+len(e.New) > 0 && later.Turn == e.Turn && later.FirstNew == e.FirstNew &&
		slices.EqualFunc(later.New, e.New, func(a, b json.RawMessage) bool { return bytes.Equal(a, b) })
}

func (h *history) addExchange(e *Exchange) {
	var before *Reply
	if n := len(h.exchanges); n > 0 {
		before = &h.exchanges[n-1].Reply
	}
	items := e.items(before)
	judgements, index := e.judgementsOn(items), 0
	for _, it := range items {
		if it.Role == wire.RoleAssistant && before == nil { // later assistant items repeat replies
			h.addMessage(EventAssistant, it.Text, e.Turn)
		}
		for _, c := range it.Calls {
			h.addCall(Call(c), e.Turn)
		}
		for i := range it.Results {
			h.addResult(&it.Results[i], judgements, index)
			index++
		}
		h.addMessage(EventUser, it.UserText, e.Turn)
	}
	h.addMessage(EventAssistant, e.Reply.Text, e.Turn)
	for _, c := range e.calls() {
		h.addCall(c, e.Turn)
	}
	words := lastUserText(items)
	if words != "" || len(h.userTurns) == 0 {
		h.userTurns = append(h.userTurns, userTurn{userText: cmp.Or(wire.UserRequest(words), words)})
	}
	last := &h.userTurns[len(h.userTurns)-1]
	last.exchanges = append(last.exchanges, e)
	h.exchanges = append(h.exchanges, e)
	h.items = append(h.items, items)
	h.loops += e.Loops
}

func (h *history) addMessage(role, text string, turn int) {
	if text != "" {
		h.events = append(h.events, Event{Turn: turn, Role: role, Text: text})
	}
}

// addCall adds a call only once, although the call occurs in the reply and again in the history. After the call's
// result, the same id with different arguments is a new call, because some servers reuse ids.
func (h *history) addCall(c Call, turn int) {
	if i, seen := h.newestCall[c.ID]; seen && c.ID != "" {
		s := &h.events[i]
		same := sameArgs(c.Args, s.Call.Args)
		if !s.Answered || s.Turn == turn || same {
			s.edited = s.edited || !same || c.Name != s.Call.Name
			return
		}
	}
	h.newestCall[c.ID] = len(h.events)
	h.events = append(h.events, Event{Turn: turn, Role: EventCall, Call: c})
}

// addResult adds a result to the newest call with the same id, unless that call has a result. index is the result's
// index in judgements.
func (h *history) addResult(r *wire.Result, judgements *ResultJudgements, index int) {
	i, ok := h.newestCall[r.CallID]
	if !ok || h.events[i].Answered {
		return
	}
	s := &h.events[i]
	s.Answered, s.Text, s.IsError = true, r.Text, r.IsError
	switch {
	case h.Session.IsFailure == nil:
		s.failed = r.IsError > 0
	case judgements != nil:
		s.failed = slices.Contains(judgements.Failed, index)
	default:
		s.failed = h.Session.IsFailure(s.Call.Name, s.Call.Args, r.Text, r.IsError)
	}
}

func (h *history) isSingleExchange() bool {
	if len(h.exchanges) != 1 {
		return false
	}
	return !slices.ContainsFunc(h.items[0], func(it *wire.Item) bool { return hasModelOutput(it) || len(it.Results) > 0 })
}

func (u *userTurn) turns() (first, last int) {
	return u.exchanges[0].Turn, u.exchanges[len(u.exchanges)-1].Turn
}
