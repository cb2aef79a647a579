package lesson

import "time"

// Query is what a turn shows to the matcher: only what is new in the turn. The caller has stripped
// reminders, environment blocks and our own blocks from the texts.
type Query struct {
	Words              []string    // newest user words
	Errors             []ErrorText // newest tool errors, the newest last
	Tenant             string
	Agent, Role, Skill string
	Tags               []string
	Model              string
	Tools              []string // tools offered in the request
	Now                time.Time

	Spent bool // set by Match: the match was given up, because it would have cost too much
}

// ErrorText is the error signature of one newest tool result.
type ErrorText struct {
	CallID, Tool, Text string
	Tags               []string // by a Tagger
}

// Hit is a lesson whose target and trigger fired.
type Hit struct {
	Lesson *Lesson
	CallID string // of the newest tool result that triggered it; "" when user words or tags did
}
