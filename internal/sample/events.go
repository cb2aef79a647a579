package sample

// Event is a message from the user or the assistant, or a tool call with its result.
type Event struct {
	Turn     int
	Role     string // user, assistant, or call
	Text     string // message text, or the call's result
	Call     Call   // set if Role is "call"
	Answered bool   // call: Text holds the result
	IsError  int8   // call: +1 error, -1 success, 0 no flag

	failed bool // call: the result is an error
	edited bool // call: a person changed the call before execution, so the history has a different call
}

// Event roles. The operator's system messages are not events.
const (
	EventUser      = "user"
	EventAssistant = "assistant"
	EventCall      = "call"
)

// Events returns a session's events in order. A call is one event, even if later requests repeat the call. A user event
// holds the user's own words, without the blocks that agents add.
func (s *Session) Events() []Event { return s.history().events }
