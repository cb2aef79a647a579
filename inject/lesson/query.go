package lesson

import (
	"time"

	"precept/detect"
	"precept/inject/request"
)

// Query holds the new content of a turn, for matching. The caller removes the reminders and environment blocks of
// agents, and the blocks that precept inserted.
type Query struct {
	Words              []string    // newest user words
	Errors             []ErrorText // newest tool errors, the newest last
	Tenant             string
	Agent, Role, Skill string
	Tags               []string
	Model              string
	Tools              []string // names of the tools that the request offers
	Now                time.Time

	Spent bool // Match sets Spent if it exceeds its limit of work
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

// ErrorText is a new tool result that is an error. Text holds the lines that describe the error.
type ErrorText struct {
	CallID, Tool, Text string
	Tags               []string      // set by a Tagger
	Kinds              []detect.Kind // kinds of the error
}

// Hit is a lesson that matches a query.
type Hit struct {
	Lesson *Lesson
	CallID string       // newest tool result with a trigger; empty for user words and tags
	Like   *Resemblance // the likeness by which the lesson matched; nil for an exact match
}
