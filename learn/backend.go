package learn

import (
	"context"
	"time"

	"precept/bandit/feedback"
	"precept/bandit/trial"
	"precept/internal/guard"
	"precept/internal/sample"
	"precept/internal/session"
)

// Memory is what is known of sessions before the backend knows it.
type Memory interface {
	// Newest is the record of a session that closes: one in memory is newer than its row.
	Newest(row *session.Row) *session.Record
	// InUse is what is known of who a session belongs to and what it was assigned, nil when it is
	// not in memory.
	InUse(of session.Ref) *session.Record
	// Known says who a session is, and whether the tenant has it.
	Known(ctx context.Context, tenant string, id session.ID) (session.Member, bool, error)
}

// Recorder brings to the backend what was said.
type Recorder interface {
	// Deliver hands over what came, at once.
	Deliver(ctx context.Context)
	// Still runs f while nothing is handed over and nothing is forgotten.
	Still(f func())
	// Undelivered are the sessions of which something is on its way to the backend; ok is false
	// when that cannot be told. It is called in Still.
	Undelivered() (of map[session.Ref]bool, ok bool)
}

// Touches are the sessions of which something was said, or that are to be looked at again for
// another reason.
type Touches interface {
	Touch(tenant string, id session.ID)
	Touched() map[session.Ref]bool
	// Tell adds to sessions what is said of them, and touches those that hear something new.
	Tell(ctx context.Context, tenant string, entries map[session.ID][]feedback.Entry) error
}

// The backend, in the groups in which it is used.
type (
	counts interface {
		Counters(ctx context.Context, tenant string) ([]trial.Delta, error)
		Maxima(ctx context.Context, tenant string) ([]trial.Delta, error)
		Tenants(ctx context.Context) ([]string, error)
	}
	published interface {
		Raise(ctx context.Context, tenant string, maxima []trial.Delta) error
		Priors(ctx context.Context, tenant string) (version int64, data []byte, err error)
		PutPriors(ctx context.Context, tenant string, from int64, data []byte) (bool, error)
	}
	numbers interface {
		counts
		published
	}
	openSessions interface {
		Session(ctx context.Context, tenant string, id session.ID) (session.Row, bool, error)
		Feedback(ctx context.Context, tenant string, id session.ID) ([]feedback.Entry, error)
		Due(ctx context.Context, startedBefore time.Time, after session.Row, limit int) ([]session.Row, error)
	}
	settler interface {
		Heard(ctx context.Context, tenant string, id session.ID) (entries []feedback.Entry, heard int64, err error)
		Applied(ctx context.Context, tenant string, id session.ID) (session.Applied, error)
		Settle(ctx context.Context, s []session.Settlement) ([]bool, error)
	}
	leftovers interface {
		Unsettled(ctx context.Context, limit int) ([]session.Unsettled, error)
		Unsampled(ctx context.Context) (int64, error)
	}
	closings interface {
		openSessions
		settler
		leftovers
	}
	tellers interface {
		session.Finder
		Feedback(ctx context.Context, tenant string, id session.ID) ([]feedback.Entry, error)
	}
	writer interface {
		Exchanges(ctx context.Context, tenant string, id session.ID) ([]sample.Exchange, error)
		Write(ctx context.Context, b session.Batch) error
	}
)

// Backend is what stands behind a learner.
type Backend interface {
	numbers
	closings
	tellers
	writer
	guard.Marks
}

// Fleet is a backend that other processes write to as well: through it replicas tell each other
// what they have counted and heard.
type Fleet interface {
	// Moved says of each tenant how far its counters, and what open sessions told, have come, by
	// whomever.
	Moved(ctx context.Context) (map[string]session.Stand, error)
	// OpenFeedback lists open sessions with all feedback that they got, in the order in which they
	// last got some, behind a place in it.
	OpenFeedback(ctx context.Context, tenant string, after int64, limit int) (rows []session.Row, said [][]feedback.Entry, last int64, err error)
	// Settled says which sessions the counters know.
	Settled(ctx context.Context, tenant string, ids []session.ID) ([]bool, error)
}
