package sample

// Event is one event of a session: words of a participant, or a tool call with its result.
type Event struct {
	Turn     int
	Role     string // user, assistant, or call
	Text     string // words; of a call, the result
	Call     Call   // of a call
	Answered bool   // of a call: Text is its result
	IsError  int8   // of a call: +1 the wire marks an error, -1 the wire marks success, 0 unmarked

	failed bool // of a call with a result: the result is an error
	edited bool // of a call: the history has other arguments, because a person changed them before execution
}

// The roles of an Event. System messages are not events: the operator writes them.
const (
	EventUser      = "user"
	EventAssistant = "assistant"
	EventCall      = "call"
)

// Events lists the events of a session in order, each call once, for any dialect. A user's turn
// contains the person's own words, without the blocks of agents.
func (s *Session) Events() []Event { return s.lay().events }
