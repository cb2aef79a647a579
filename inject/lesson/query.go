package lesson

import (
	"time"

	"precept/detect"
	"precept/inject/request"
)

// Query is the input for Match: a turn's new content, and the request's properties. The texts must not contain an
// agent's reminders and environment blocks, or precept's blocks.
type Query struct {
	Words              []string    // the user's new words
	Errors             []ErrorText // new errors, the newest last
	Tenant             string
	Agent, Role, Skill string
	Tags               []string
	Model              string
	Tools              []string // offered by the request
	Now                time.Time

	LimitExceeded bool // set by Match if the query exceeds maxWork
}

// RequestKinds returns the request kinds in the user's words.
func (q *Query) RequestKinds() (kinds []request.Kind) {
	for _, w := range q.Words {
		for _, f := range request.Kinds(w) {
			kinds = append(kinds, f.Kind)
		}
	}
	return kinds
}

// ErrorText is a tool result with an error. Text has the lines about the error.
type ErrorText struct {
	CallID, Tool, Text string
	Tags               []string // set by a Tagger
	Kinds              []detect.Kind
}

// Hit is a lesson that matches a query.
type Hit struct {
	Lesson      *Lesson
	CallID      string       // call with the newest error that triggers the lesson; empty for the user's words and tags
	Resemblance *Resemblance // nil for an exact match
}
