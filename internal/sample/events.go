package sample

// Event is one thing that happened in a session: somebody's words, or a tool call with its answer.
type Event struct {
	Turn     int
	Role     string // user, assistant, or call
	Text     string // what was said; of a call, the tool's answer
	Call     Call   // of a call
	Answered bool   // of a call: Text is its answer
	IsError  int8   // of a call: +1 the wire says error, -1 it says none, 0 it does not say

	failed bool // of an answered call: its answer is an error
	edited bool // of a call: it came back in the history with other arguments: somebody changed it before it was carried out
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
func (s *Session) Events() []Event { return s.lay().events }
