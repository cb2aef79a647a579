package store

import (
	"context"
	"errors"
	"time"

	"precept/bandit/feedback"
	"precept/bandit/trial"
	"precept/internal/guard"
	"precept/internal/sample"
	"precept/internal/session"
)

// writeLimit is the time limit for one delivery, for one published write, and for the last writes when precept stops.
const writeLimit = 10 * time.Second

// Backend stores sessions, exchanges and feedback.
type Backend interface {
	recordingBackend
	archiveBackend
	deletionBackend
	guard.Marks
	Close() error
}

type recordingBackend interface {
	sessionFinder
	batchWriter
	syncer
	feedbackStore
	parkingStore
}

// Fleet is the part of a shared backend that announces deleted and opted-out sessions to other replicas and detects
// data loss.
type Fleet interface {
	epochReader
	announcer
	optOutKeeper
	optOutFinder
	// AwaitReplicas waits until a failover of the backend would lose no earlier write. An error means that a failover
	// could still lose writes.
	AwaitReplicas(ctx context.Context) error
}

// ErrNullBackend is returned by every write to a NullBackend.
var ErrNullBackend = errors.New("the data directory is not writable, so precept keeps all data in memory and stores nothing")

// NullBackend is the Backend for a data directory that is not writable. It stores nothing: precept picks and inserts
// lessons from memory, counts exchanges as dropped, and refuses feedback with ErrNullBackend.
type NullBackend struct{}

// Session finds nothing.
func (NullBackend) Session(context.Context, string, session.ID) (session.Row, bool, error) {
	return session.Row{}, false, nil
}

// FindEcho finds nothing.
func (NullBackend) FindEcho(context.Context, string, []session.EchoKey) (map[session.EchoKey][]session.ID, error) {
	return nil, nil
}

// Write returns ErrNullBackend.
func (NullBackend) Write(context.Context, session.Batch) error { return ErrNullBackend }

// AddFeedback returns ErrNullBackend.
func (NullBackend) AddFeedback(context.Context, string, map[session.ID][]feedback.Entry) (map[session.ID]int, error) {
	return nil, ErrNullBackend
}

// Feedback finds nothing.
func (NullBackend) Feedback(context.Context, string, session.ID) ([]feedback.Entry, error) {
	return nil, nil
}

// FeedbackEntry finds nothing.
func (NullBackend) FeedbackEntry(context.Context, string, session.ID, string) (feedback.Entry, bool, error) {
	return feedback.Entry{}, false, nil
}

// SessionFeedback returns no feedback.
func (NullBackend) SessionFeedback(context.Context, string, session.ID) ([]feedback.Entry, int64, error) {
	return nil, 0, nil
}

// UnsettledSessions returns no session.
func (NullBackend) UnsettledSessions(context.Context, int) ([]session.UnsettledSession, error) {
	return nil, nil
}

// Park returns ErrNullBackend.
func (NullBackend) Park(context.Context, string, session.EchoKey, feedback.Entry) error {
	return ErrNullBackend
}

// ParkedEntry finds nothing.
func (NullBackend) ParkedEntry(context.Context, string, session.EchoKey, string) (feedback.Entry, bool, error) {
	return feedback.Entry{}, false, nil
}

// Unpark finds nothing.
func (NullBackend) Unpark(context.Context, string, map[session.EchoKey]session.ID) (map[session.ID]int, error) {
	return nil, nil
}

// DueSessions returns no session.
func (NullBackend) DueSessions(context.Context, time.Time, session.Row, int) ([]session.Row, error) {
	return nil, nil
}

// SettledState finds nothing.
func (NullBackend) SettledState(context.Context, string, session.ID) (session.SettledState, error) {
	return session.SettledState{}, nil
}

// Settle reports that no session was settled.
func (NullBackend) Settle(_ context.Context, s []session.Settlement) ([]bool, error) {
	return make([]bool, len(s)), nil
}

// Counters finds nothing.
func (NullBackend) Counters(context.Context, string) ([]trial.Delta, error) { return nil, nil }

// Tenants finds nothing.
func (NullBackend) Tenants(context.Context) ([]string, error) { return nil, nil }

// RaiseMaxima returns ErrNullBackend.
func (NullBackend) RaiseMaxima(context.Context, string, []trial.Delta) error { return ErrNullBackend }

// Maxima finds nothing.
func (NullBackend) Maxima(context.Context, string) ([]trial.Delta, error) { return nil, nil }

// Priors finds nothing.
func (NullBackend) Priors(context.Context, string) (int64, []byte, error) { return 0, nil, nil }

// PutPriors returns ErrNullBackend.
func (NullBackend) PutPriors(context.Context, string, int64, []byte) (bool, error) {
	return false, ErrNullBackend
}

// Exchanges finds nothing.
func (NullBackend) Exchanges(context.Context, string, session.ID) ([]sample.Exchange, error) {
	return nil, nil
}

// ListSessions finds nothing.
func (NullBackend) ListSessions(context.Context, string, session.ListRange) (session.Page[session.ListedSession], error) {
	return session.Page[session.ListedSession]{}, nil
}

// ListSamples finds nothing.
func (NullBackend) ListSamples(context.Context, string, session.ListRange) (session.Page[session.StoredSample], error) {
	return session.Page[session.StoredSample]{}, nil
}

// SampleSession finds nothing.
func (NullBackend) SampleSession(context.Context, string, string) (session.ID, bool, error) {
	return session.ID{}, false, nil
}

// Forget does nothing.
func (NullBackend) Forget(context.Context, string, session.ID) (bool, error) { return false, nil }

// ForgetTenant does nothing.
func (NullBackend) ForgetTenant(context.Context, string) (int, error) { return 0, nil }

// PurgeSessions does nothing.
func (NullBackend) PurgeSessions(context.Context, time.Time) (int, error) { return 0, nil }

// PurgeParked does nothing.
func (NullBackend) PurgeParked(context.Context, time.Time) (int, error) { return 0, nil }

// SetAside does nothing.
func (NullBackend) SetAside(context.Context, []session.DeadLetter) error { return nil }

// Readmit does nothing.
func (NullBackend) Readmit(context.Context, int) (int, error) { return 0, nil }

// CountUnsampled returns 0.
func (NullBackend) CountUnsampled(context.Context) (int64, error) { return 0, nil }

// Sync does nothing.
func (NullBackend) Sync(context.Context) error { return nil }

// Close does nothing.
func (NullBackend) Close() error { return nil }

// EachNote finds nothing.
func (NullBackend) EachNote(context.Context, string, string, func(string, []byte) error) error {
	return nil
}

// WriteNotes returns ErrNullBackend.
func (NullBackend) WriteNotes(context.Context, string, map[session.ID][]byte, map[string][]byte) error {
	return ErrNullBackend
}
