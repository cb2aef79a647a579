package sample

// Event is one event of a session: words of a participant, or a tool call with its result.
type Event struct {
	Turn     int
	Role     string // user, assistant, or call
	Text     string // words; for a call, the result
	Call     Call   // call; set if Role is "call"
	Answered bool   // for a call: Text holds its result
	IsError  int8   // for a call: mark of the result in the API: +1 error, -1 success, 0 no mark

	failed bool // for a call with a result: the result is an error
	edited bool // for a call: the history has other arguments, because a person changed the arguments before execution
}

// The roles of an Event. System messages are not events: the operator writes them.
const (
	EventUser      = "user"
	EventAssistant = "assistant"
	EventCall      = "call"
)

// Events returns the events of a session in order. Each call occurs once. The text of a user event has the person's
// own words, without the blocks that agents add.
func (s *Session) Events() []Event { return s.history().events }
