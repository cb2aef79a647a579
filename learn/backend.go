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

// Memory reads sessions whose newest state is not in the backend yet.
type Memory interface {
	// Newest returns the newest record of a session that closes: from memory or from the row.
	Newest(row *session.Row) *session.Record
	// Snapshot returns a copy of the record of a session in memory, without the texts; nil means the session
	// is not in memory.
	Snapshot(ref session.Ref) *session.Record
	// Member returns the name and the unit of a session; ok is false if the tenant has no such session.
	Member(ctx context.Context, tenant string, id session.ID) (member session.Member, ok bool, err error)
}

// Deliverer delivers exchanges and records of sessions to the backend.
type Deliverer interface {
	// Deliver delivers all waiting data to the backend at once.
	Deliver(ctx context.Context)
	// WithDeliveryPaused runs f. Until f returns, no row is delivered and no session is deleted.
	WithDeliveryPaused(f func())
	// Undelivered returns the sessions with exchanges that the backend does not have yet. ok is false while
	// the sessions are unknown. Undelivered is called inside of WithDeliveryPaused.
	Undelivered() (sessions map[session.Ref]bool, ok bool)
}

// Exchanges reads the exchanges of sessions that close.
type Exchanges interface {
	// ExchangesAtClosing returns the exchanges of a session with the given number of stored exchanges.
	// ExchangesAtClosing is called inside of Deliverer.WithDeliveryPaused.
	ExchangesAtClosing(ctx context.Context, ref session.Ref, stored int) ([]sample.Exchange, error)
}

// Touches hold the sessions to correct: sessions with new feedback, or with a failed correction.
type Touches interface {
	Touch(tenant string, id session.ID)
	Touched() map[session.Ref]bool
	// PostFeedback adds feedback to sessions, and touches the sessions to which the feedback is new.
	PostFeedback(ctx context.Context, tenant string, entries map[session.ID][]feedback.Entry) error
}

// Interfaces of the backend, by use.
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
	counterStore interface {
		counts
		published
	}
	openSessions interface {
		Session(ctx context.Context, tenant string, id session.ID) (session.Row, bool, error)
		Feedback(ctx context.Context, tenant string, id session.ID) ([]feedback.Entry, error)
		Due(ctx context.Context, startedBefore time.Time, after session.Row, limit int) ([]session.Row, error)
	}
	settler interface {
		SessionFeedback(ctx context.Context, tenant string, id session.ID) (entries []feedback.Entry, state int64, err error)
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
	memberReader interface {
		session.Finder
		Feedback(ctx context.Context, tenant string, id session.ID) ([]feedback.Entry, error)
	}
	writer interface {
		Exchanges(ctx context.Context, tenant string, id session.ID) ([]sample.Exchange, error)
		Write(ctx context.Context, b session.Batch) error
	}
)

// Backend is the store behind a Learner.
type Backend interface {
	counterStore
	closings
	memberReader
	writer
	guard.Marks
}

// Fleet is a backend that several replicas write.
type Fleet interface {
	// Moved returns the progress of the counters and of the feedback on open sessions, over all
	// replicas, for the tenants that the caller follows. Moved also returns each other tenant that has
	// changed since the last call, without its progress. The first call returns all tenants with their
	// progress.
	Moved(ctx context.Context, follow []string) (map[string]session.Position, error)
	// Changes returns the deltas that the counters in memory lack: the settlements of other replicas
	// between the last call of Counters or Changes and the last call of Moved, and own settlements whose
	// answer was lost. ok is false if the deltas are incomplete. Changes never runs during Settle.
	Changes(tenant string) (deltas []trial.Delta, ok bool)
	// OpenFeedback lists at most limit open sessions with all feedback of each session, in the order of their
	// newest feedback. The list starts behind the position after; last is the position for the next call.
	OpenFeedback(ctx context.Context, tenant, after string, limit int) (rows []session.Row, entries [][]feedback.Entry, last string, err error)
	// Settled reports, for each session, whether the session was settled.
	Settled(ctx context.Context, tenant string, ids []session.ID) ([]bool, error)
}
