package sample

import "precept/wire"

// Event is one thing that happened in a session: somebody's words, or a tool call with its answer.
type Event struct {
	Turn     int
	Role     string // user, assistant, or call
	Text     string // what was said; of a call, the tool's answer
	Call     Call   // of a call
	Answered bool   // of a call: Text is its answer
	IsError  int8   // of a call: +1 the wire says error, -1 it says none, 0 it does not say
}

// The roles of an Event. What system messages say is no event: it is the operator's, not
// experience.
const (
	EventUser      = "user"
	EventAssistant = "assistant"
	EventCall      = "call"
)

// Events lists what happened in a session in its order, each call once, whatever dialect it was
// spoken in. Of a user's turn it gives the person's own words, without the blocks that agents put
// around them.
func (s *Session) Events() []Event {
	h := s.lay()
	var out []Event
	at := map[string]int{} // the newest call of an id
	call := func(c Call, turn int) {
		if i, seen := at[c.ID]; seen && c.ID != "" && !(out[i].Answered && out[i].Turn != turn && !sameArgs(c.Args, out[i].Call.Args)) {
			return
		}
		at[c.ID] = len(out)
		out = append(out, Event{Turn: turn, Role: EventCall, Call: c})
	}
	for i, e := range h.kept {
		for _, m := range h.items[i] {
			if m.Role == wire.RoleAssistant && m.Text != "" && i == 0 {
				out = append(out, Event{Turn: e.Turn, Role: EventAssistant, Text: m.Text})
			}
			for _, c := range m.Calls {
				call(Call(c), e.Turn)
			}
			for _, r := range m.Results {
				if k, ok := at[r.CallID]; ok && !out[k].Answered {
					out[k].Answered, out[k].Text, out[k].IsError = true, r.Text, r.IsError
				}
			}
			if m.Words != "" {
				out = append(out, Event{Turn: e.Turn, Role: EventUser, Text: m.Words})
			}
		}
		if e.Reply.Text != "" {
			out = append(out, Event{Turn: e.Turn, Role: EventAssistant, Text: e.Reply.Text})
		}
		for _, c := range e.calls() {
			call(c, e.Turn)
		}
	}
	return out
}
