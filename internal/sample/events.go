package sample

// Event is one event of a session: words of a participant, or a tool call with its result.
type Event struct {
	Turn     int
	Role     string // user, assistant, or call
	Text     string // words of the participant; for a call, the result
	Call     Call   // call; set if Role is "call"
	Answered bool   // for a call: Text holds its result
	IsError  int8   // for a call: error flag of the API: +1 error, -1 success, 0 no flag

	failed bool // for a call: the result is an error
	edited bool // for a call: a person changed the call before its execution, so the history has a different call
}

// Roles of an Event. System messages are not events, because the operator writes them.
const (
	EventUser      = "user"
	EventAssistant = "assistant"
	EventCall      = "call"
)

// Events returns the events of a session in order. Each call occurs once. The text of a user event is the person's own
// words, without the blocks that agents add.
func (s *Session) Events() []Event { return s.history().events }
