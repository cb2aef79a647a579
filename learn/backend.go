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

// Memory reads the newest state of sessions, which the backend may not have yet.
type Memory interface {
	// NewestRecord returns a closing session's newest record, from memory or else from row.
	NewestRecord(row *session.Row) *session.Record
	// Snapshot returns a copy of a record in memory, without the texts, or nil.
	Snapshot(ref session.Ref) *session.Record
	// Member returns a session's name and unit; ok is false if the tenant has no such session.
	Member(ctx context.Context, tenant string, id session.ID) (member session.Member, ok bool, err error)
}

// Deliverer writes pending exchanges and session records to the backend.
type Deliverer interface {
	Deliver(ctx context.Context)
	// WithDeliveryPaused calls f. Until f returns, no row is delivered and no session is deleted.
	WithDeliveryPaused(f func())
	// UndeliveredSessions returns the sessions with exchanges that the backend lacks. ok is false while these sessions
	// are unknown. Call UndeliveredSessions only inside WithDeliveryPaused.
	UndeliveredSessions() (sessions map[session.Ref]bool, ok bool)
}

// Exchanges reads the exchanges in closing sessions.
type Exchanges interface {
	// ExchangesAtClose returns a session's exchanges. stored is how many exchanges the backend has, or 0 if unknown.
	// Call ExchangesAtClose only inside WithDeliveryPaused.
	ExchangesAtClose(ctx context.Context, ref session.Ref, stored int) ([]sample.Exchange, error)
}

// Touches holds the sessions that need a correction, because they have new feedback or because an earlier correction
// failed.
type Touches interface {
	QueueCorrection(tenant string, id session.ID)
	TakeQueuedCorrections() map[session.Ref]bool
	// PostFeedback adds feedback to sessions, and queues a correction for each session to which the feedback is new.
	PostFeedback(ctx context.Context, tenant string, entries map[session.ID][]feedback.Entry) error
}

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

// Fleet is a backend shared by several replicas.
type Fleet interface {
	// Positions returns each followed tenant's positions: the newest counter change, and the newest feedback on an open
	// session. Each other tenant that has changed since the last call has an entry with empty positions. The first call
	// returns all tenants' positions.
	Positions(ctx context.Context, follow []string) (map[string]session.Position, error)
	// Changes returns the deltas (counter changes) that memory lacks. These are other replicas' settlements between the
	// previous Counters or Changes call and the last Positions call, and this replica's settlements to which the
	// backend did not respond. ok is false if deltas are missing. Changes is never called during Settle.
	Changes(tenant string) (deltas []trial.Delta, ok bool)
	// RatedOpenSessions returns at most limit open sessions with all their feedback, ordered by their newest feedback,
	// starting after a position. last is the position for the next call.
	RatedOpenSessions(ctx context.Context, tenant, after string, limit int) (rows []session.Row, entries [][]feedback.Entry, last string, err error)
	// AreSettled reports which sessions a replica has settled.
	AreSettled(ctx context.Context, tenant string, ids []session.ID) ([]bool, error)
}
