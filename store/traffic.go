package store

import (
	"context"
	"errors"
	"slices"

	"precept/detect"
	"precept/feedback"
	"precept/sample"
	"precept/session"
	"precept/store/sqlite"
)

// signal is what the traffic itself says of a session.
type signal struct {
	touch
	entry feedback.Entry
}

// implicit makes feedback of what the traffic said of the session: the outcome of a test, lint or build run (tier 2),
// refusals and interrupts (tier 3).
func (s *Store) implicit(x *sample.Exchange, signals []detect.Signal) []signal {
	id, ok := session.ParseID(x.Session)
	if !ok {
		return nil
	}
	var out []signal
	for _, sg := range signals {
		if sg.Sentiment && (!s.opts.Sentiment || x.Turn <= 1) {
			continue
		}
		e := feedback.Implicit(x.Session, x.Turn, sg.Tier, kindOf(sg.Feeling), sg.Rule, x.At)
		out = slices.DeleteFunc(out, func(s signal) bool { return s.entry.ID == e.ID }) // of one turn the last word counts
		out = append(out, signal{touch{x.Tenant, id}, e})
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

// tell adds what the traffic said to the sessions' feedback. It returns what the backend did not take this time.
func (s *Store) tell(ctx context.Context, signals []signal) (left []signal) {
	for i := range signals {
		sg := &signals[i]
		_, err := s.be.AddFeedback(ctx, sg.tenant, sg.id, []feedback.Entry{sg.entry})
		if err == nil {
			s.touch(sg.tenant, sg.id)
			continue
		}
		s.opts.Failed("implicit", err)
		if !errors.Is(err, sqlite.ErrInvalid) {
			left = append(left, *sg)
		}
	}
	return left
}
