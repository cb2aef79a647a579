package lesson

import (
	"time"

	"precept/detect"
	"precept/inject/request"
)

// Query is the matcher's view of a turn: the new content only. The caller has removed reminders,
// environment blocks and our own blocks.
type Query struct {
	Words              []string    // newest user words
	Errors             []ErrorText // newest tool errors, the newest last
	Tenant             string
	Agent, Role, Skill string
	Tags               []string
	Model              string
	Tools              []string // tools offered in the request
	Now                time.Time

	Spent bool // set by Match: the match exceeded its work limit
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

// ErrorText is the error signature of a new tool result.
type ErrorText struct {
	CallID, Tool, Text string
	Tags               []string      // set by a Tagger
	Kinds              []detect.Kind // kinds of the error
}

// Hit is a lesson with a matching target and trigger.
type Hit struct {
	Lesson *Lesson
	CallID string       // newest tool result with a trigger; empty for user words and tags
	Like   *Resemblance // the likeness by which the lesson matched; nil for an exact match
}
