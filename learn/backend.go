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
	// NewestRecord returns the newest record of a closing session, from memory or, if the session is not in memory,
	// from row.
	NewestRecord(row *session.Row) *session.Record
	// Snapshot returns a copy of the record of a session in memory, without the texts. The result is nil if the session
	// is not in memory.
	Snapshot(ref session.Ref) *session.Record
	// Member returns the name and the unit of a session; ok is false if the tenant has no such session.
	Member(ctx context.Context, tenant string, id session.ID) (member session.Member, ok bool, err error)
}

// Deliverer writes the waiting exchanges and records of sessions to the backend.
type Deliverer interface {
	// Deliver delivers all waiting data to the backend at once.
	Deliver(ctx context.Context)
	// WithDeliveryPaused calls f. Until f returns, no row is delivered and no session is deleted.
	WithDeliveryPaused(f func())
	// UndeliveredSessions returns the sessions with exchanges that the backend does not have yet. ok is false while
	// these sessions are unknown. Undelivered is called inside of WithDeliveryPaused.
	UndeliveredSessions() (sessions map[session.Ref]bool, ok bool)
}

// Exchanges reads the exchanges of sessions that close.
type Exchanges interface {
	// ExchangesAtClose returns the exchanges of a session. stored is the number of stored exchanges; 0 means unknown.
	// ExchangesAtClose is called inside of Deliverer.WithDeliveryPaused.
	ExchangesAtClose(ctx context.Context, ref session.Ref, stored int) ([]sample.Exchange, error)
}

// Touches holds the touched sessions, which wait for a correction because of new feedback or a failed correction.
type Touches interface {
	Touch(tenant string, id session.ID)
	TakeTouched() map[session.Ref]bool
	// PostFeedback adds feedback to sessions, and touches the sessions that did not have the feedback yet.
	PostFeedback(ctx context.Context, tenant string, entries map[session.ID][]feedback.Entry) error
}

// Parts of Backend, one for each user in this package.
type (
	counterReader interface {
		Counters(ctx context.Context, tenant string) ([]trial.Delta, error)
		Maxima(ctx context.Context, tenant string) ([]trial.Delta, error)
		Tenants(ctx context.Context) ([]string, error)
	}
	priorStore interface {
		RaiseMaxima(ctx context.Context, tenant string, maxima []trial.Delta) error
		Priors(ctx context.Context, tenant string) (version int64, data []byte, err error)
		PutPriors(ctx context.Context, tenant string, from int64, data []byte) (bool, error)
	}
	counterStore interface {
		counterReader
		priorStore
	}
	openSessionReader interface {
		Session(ctx context.Context, tenant string, id session.ID) (session.Row, bool, error)
		Feedback(ctx context.Context, tenant string, id session.ID) ([]feedback.Entry, error)
		DueSessions(ctx context.Context, startedBefore time.Time, after session.Row, limit int) ([]session.Row, error)
	}
	settler interface {
		SessionFeedback(ctx context.Context, tenant string, id session.ID) (entries []feedback.Entry, state int64, err error)
		SettledState(ctx context.Context, tenant string, id session.ID) (session.SettledState, error)
		Settle(ctx context.Context, s []session.Settlement) ([]bool, error)
	}
	unsettledReader interface {
		UnsettledSessions(ctx context.Context, limit int) ([]session.UnsettledSession, error)
		CountUnsampled(ctx context.Context) (int64, error)
	}
	closingStore interface {
		openSessionReader
		settler
		unsettledReader
	}
	memberReader interface {
		session.Finder
		Feedback(ctx context.Context, tenant string, id session.ID) ([]feedback.Entry, error)
	}
	sampleWriter interface {
		Exchanges(ctx context.Context, tenant string, id session.ID) ([]sample.Exchange, error)
		Write(ctx context.Context, b session.Batch) error
	}
)

// Backend is the store behind a Learner.
type Backend interface {
	counterStore
	closingStore
	memberReader
	sampleWriter
	guard.Marks
}

// Fleet is a backend that several replicas share.
type Fleet interface {
	// Positions returns, for each tenant in follow, the position of its newest counter change and of its newest
	// feedback on an open session, from all replicas. Moved also returns every other tenant that has changed since the
	// last call, without its position. The first call returns all tenants with their positions.
	Positions(ctx context.Context, follow []string) (map[string]session.Position, error)
	// Changes returns the deltas that are missing in the counters in memory: the settlements of other replicas between
	// the last call of Counters or Changes and the last call of Moved, and this replica's settlements whose response
	// was lost. ok is false if the deltas are incomplete. The caller never calls Changes during Settle.
	Changes(tenant string) (deltas []trial.Delta, ok bool)
	// RatedOpenSessions returns at most limit open sessions with all feedback on each session, in the order of their
	// newest feedback. The list starts after the given position. last is the position at which the next call continues.
	RatedOpenSessions(ctx context.Context, tenant, after string, limit int) (rows []session.Row, entries [][]feedback.Entry, last string, err error)
	// AreSettled reports, for each of the sessions, whether a replica has settled the session.
	AreSettled(ctx context.Context, tenant string, ids []session.ID) ([]bool, error)
}
