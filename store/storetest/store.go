package storetest

import (
	"context"
	"time"

	"precept/bandit/feedback"
	"precept/bandit/trial"
	"precept/internal/sample"
	"precept/internal/session"
)

// Sessions stores and finds sessions.
type Sessions interface {
	Session(ctx context.Context, tenant string, id session.ID) (session.Row, bool, error)
	FindEcho(ctx context.Context, tenant string, keys []session.EchoKey) (map[session.EchoKey][]session.ID, error)
	DueSessions(ctx context.Context, startedBefore time.Time, after session.Row, limit int) ([]session.Row, error)
	Write(ctx context.Context, b session.Batch) error
}

// FeedbackEntries stores the feedback on each session.
type FeedbackEntries interface {
	AddFeedback(ctx context.Context, tenant string, entries map[session.ID][]feedback.Entry) (added map[session.ID]int, err error)
	Feedback(ctx context.Context, tenant string, id session.ID) ([]feedback.Entry, error)
	FeedbackEntry(ctx context.Context, tenant string, id session.ID, entry string) (feedback.Entry, bool, error)
	SessionFeedback(ctx context.Context, tenant string, id session.ID) (entries []feedback.Entry, state int64, err error)
	UnsettledSessions(ctx context.Context, limit int) ([]session.UnsettledSession, error)
}

// Parking stores feedback on sessions that are not known yet.
type Parking interface {
	Park(ctx context.Context, tenant string, key session.EchoKey, e feedback.Entry) error
	ParkedEntry(ctx context.Context, tenant string, key session.EchoKey, id string) (feedback.Entry, bool, error)
	Unpark(ctx context.Context, tenant string, sessions map[session.EchoKey]session.ID) (added map[session.ID]int, err error)
	PurgeParked(ctx context.Context, before time.Time) (int, error)
}

// Counters stores the settled states of sessions, and the counters for rewards.
type Counters interface {
	SettledState(ctx context.Context, tenant string, id session.ID) (session.SettledState, error)
	Settle(ctx context.Context, steps []session.Settlement) ([]bool, error)
	Counters(ctx context.Context, tenant string) ([]trial.Delta, error)
	Tenants(ctx context.Context) ([]string, error)
}

// Models stores maxima (values that only rise), and priors (start values for new lessons) that all replicas share.
type Models interface {
	RaiseMaxima(ctx context.Context, tenant string, maxima []trial.Delta) error
	Maxima(ctx context.Context, tenant string) ([]trial.Delta, error)
	Priors(ctx context.Context, tenant string) (version int64, data []byte, err error)
	PutPriors(ctx context.Context, tenant string, from int64, data []byte) (bool, error)
}

// MetaValues stores values of the program by key, such as the salt for the random assignment.
type MetaValues interface {
	Meta(ctx context.Context, key string) (value []byte, ok bool, err error)
	InitMeta(ctx context.Context, key string, value []byte) (stored []byte, err error)
}

// Samples stores exchanges and samples.
type Samples interface {
	Exchanges(ctx context.Context, tenant string, id session.ID) ([]sample.Exchange, error)
	SampleSession(ctx context.Context, tenant, sampleID string) (session.ID, bool, error)
	EachSample(ctx context.Context, tenant string, since, until time.Time, fn func(session.StoredSample) error) error
	EachSession(ctx context.Context, tenant string, since, until time.Time, fn func(session.Row, session.SettledState) error) error
}

// Listings returns pages of sessions and samples, newest first.
type Listings interface {
	ListSessions(ctx context.Context, tenant string, within session.ListRange) (session.Page[session.ListedSession], error)
	ListSamples(ctx context.Context, tenant string, within session.ListRange) (session.Page[session.StoredSample], error)
}

// DeadLetters stores the sessions and exchanges at which a step panicked, and counts exchanges without a sample.
type DeadLetters interface {
	SetAside(ctx context.Context, list []session.DeadLetter) error
	Readmit(ctx context.Context, maxTries int) (int, error)
	DeadLetters(ctx context.Context, limit int) (list []session.DeadLetter, total int, err error)
	CountUnsampled(ctx context.Context) (int64, error)
}

// Maintenance deletes and counts data, syncs it to the disk, and closes the store.
type Maintenance interface {
	Forget(ctx context.Context, tenant string, id session.ID) (bool, error)
	ForgetTenant(ctx context.Context, tenant string) (sessions int, err error)
	PurgeSessions(ctx context.Context, before time.Time) (int, error)
	Stats(ctx context.Context) (map[string]int64, error)
	Sync(ctx context.Context) error
	Close() error
}

// Notes stores the distiller's notes on sessions and tenants, and the leases of workers.
type Notes interface {
	SessionNote(ctx context.Context, tenant string, id session.ID) ([]byte, error)
	TenantNote(ctx context.Context, tenant, key string) ([]byte, error)
	EachNote(ctx context.Context, tenant, prefix string, fn func(key string, data []byte) error) error
	WriteNotes(ctx context.Context, tenant string, sessionNotes map[session.ID][]byte, tenantNotes map[string][]byte) error
	AcquireLease(ctx context.Context, name, owner string, now time.Time, ttl time.Duration) (bool, error)
	ReleaseLease(ctx context.Context, name, owner string) error
}

// Records groups the interfaces for sessions and traffic.
type Records interface {
	Sessions
	Samples
	Listings
	FeedbackEntries
	Parking
}

// Learning groups the interfaces for package learn.
type Learning interface {
	Counters
	Models
}

// Store is a complete backend.
type Store interface {
	Records
	Learning
	Notes
	MetaValues
	Maintenance
	DeadLetters
}
