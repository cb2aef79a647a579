package sample

// Event is a message of a participant, or a tool call with its result.
type Event struct {
	Turn     int
	Role     string // user, assistant, or call
	Text     string // text of the message, or the call's result
	Call     Call   // set if Role is "call"
	Answered bool   // call: Text holds the result
	IsError  int8   // call: +1 error, -1 success, 0 no flag

	failed bool // call: the result is an error
	edited bool // call: a person changed the call before its execution, so the history has a different call
}

// Roles of an Event. The operator's system messages are not events.
const (
	EventUser      = "user"
	EventAssistant = "assistant"
	EventCall      = "call"
)

// Events returns the events of a session in order. A call that a later request repeats is one event. A user event holds
// the person's own words, without the blocks that agents add.
func (s *Session) Events() []Event { return s.history().events }
