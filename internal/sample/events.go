package sample

// Event is one event of a session: words of a participant, or a tool call with its result.
type Event struct {
	Turn     int
	Role     string // user, assistant, or call
	Text     string // words; of a call, the result
	Call     Call   // call; set if Role is "call"
	Answered bool   // for a call: Text holds its result
	IsError  int8   // for a call: +1 the API marks an error, -1 the API marks success, 0 unmarked

	failed bool // for a call with a result: the result is an error
	edited bool // for a call: the history has other arguments, because a person changed the arguments before execution
}

// The roles of an Event. System messages are not events: the operator writes them.
const (
	EventUser      = "user"
	EventAssistant = "assistant"
	EventCall      = "call"
)

// Events lists the events of a session in order, each call once, for any dialect. A user's turn
// contains the person's own words, without the blocks of agents.
func (s *Session) Events() []Event { return s.history().events }
