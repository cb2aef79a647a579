package store

import (
	"slices"

	"precept/bandit/feedback"
	"precept/detect"
	"precept/internal/sample"
	"precept/internal/session"
)

// signal is what the traffic itself says of a session.
type signal struct {
	session.Ref
	entry feedback.Entry
}

// signalsOf makes feedback of what the traffic said of an exchange's session: the outcome of a
// test, lint or build run (tier 2), refusals and interrupts (tier 3), and where sentiment counts,
// what the user's words sound like.
func signalsOf(x *sample.Exchange, signals []detect.Signal, sentiment bool) []signal {
	id, ok := session.ParseID(x.Session)
	if !ok {
		return nil
	}
	var out []signal
	for _, sg := range signals {
		if sg.Sentiment && (!sentiment || x.Turn <= 1) {
			continue
		}
		e := feedback.Implicit(x.Session, x.Turn, sg.Tier, kindOf(sg.Feeling), sg.Rule, x.At)
		out = slices.DeleteFunc(out, func(g signal) bool { return g.entry.ID == e.ID }) // of one turn the last word counts
		out = append(out, signal{session.Ref{Tenant: x.Tenant, ID: id}, e})
	}
	return out
}

// kindOf is the type of feedback that a feeling stands for.
func kindOf(f detect.Feeling) string {
	if f == detect.Thanks {
		return feedback.TypeApproval
	}
	return string(f)
}
