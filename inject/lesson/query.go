package lesson

import (
	"time"

	"precept/detect"
	"precept/inject/request"
)

// Query is the input of a match: the new content of a turn, and the properties of the request. The texts must not
// contain the reminders and environment blocks of agents, or the blocks that precept inserted.
type Query struct {
	Words              []string    // new words of the user
	Errors             []ErrorText // new tool errors, the newest last
	Tenant             string
	Agent, Role, Skill string
	Tags               []string
	Model              string
	Tools              []string // names of the tools that the request offers
	Now                time.Time

	LimitExceeded bool // set by Match if the match exceeds maxWork
}

// RequestKinds returns the kinds of the requests in the user's words.
func (q *Query) RequestKinds() (kinds []request.Kind) {
	for _, w := range q.Words {
		for _, f := range request.Kinds(w) {
			kinds = append(kinds, f.Kind)
		}
	}
	return kinds
}

// ErrorText is a tool result with an error. Text contains the lines that describe the error.
type ErrorText struct {
	CallID, Tool, Text string
	Tags               []string      // set by a Tagger
	Kinds              []detect.Kind // kinds of the error
}

// Hit is a lesson that matches a query.
type Hit struct {
	Lesson      *Lesson
	CallID      string       // id of the call with the newest error that triggers the lesson; empty for the user's words and tags
	Resemblance *Resemblance // the resemblance by which the lesson matched; nil for an exact match
}
