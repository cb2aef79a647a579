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

// writeLimit is the time limit of one attempt to write a batch.
const writeLimit = 10 * time.Second

// Backend stores sessions, exchanges and feedback. Each part of a Store declares an interface with
// the methods that the part calls, and Backend joins these interfaces.
type Backend interface {
	recordingBackend
	archiveBackend
	deleter
	guard.Marks
	Close() error
}

// recordingBackend is the part of a backend that stores exchanges and feedback.
type recordingBackend interface {
	sessionFinder
	batchWriter
	syncer
	feedbackStore
	parkingStore
}

// Fleet is the part of a backend that only replicas need. Through a Fleet, replicas announce deleted and opted-out
// sessions to each other, and detect that the backend lost data.
type Fleet interface {
	epochReader
	announcer
	optOutKeeper
	optOutFinder
}

// ErrVolatile is the error of every write to a Volatile.
var ErrVolatile = errors.New("precept runs from memory: its data directory cannot be written")

// Volatile is the Backend of a precept whose data directory cannot be written. A Volatile stores
// nothing: lessons are picked and inserted from memory, exchanges are counted as dropped, and
// feedback is refused with ErrVolatile.
type Volatile struct{}

// Session finds nothing.
func (Volatile) Session(context.Context, string, session.ID) (session.Row, bool, error) {
	return session.Row{}, false, nil
}

// FindEcho finds nothing.
func (Volatile) FindEcho(context.Context, string, []session.EchoKey) (map[session.EchoKey][]session.ID, error) {
	return nil, nil
}

// Write returns ErrVolatile.
func (Volatile) Write(context.Context, session.Batch) error { return ErrVolatile }

// AddFeedback returns ErrVolatile.
func (Volatile) AddFeedback(context.Context, string, map[session.ID][]feedback.Entry) (map[session.ID]int, error) {
	return nil, ErrVolatile
}

// Feedback finds nothing.
func (Volatile) Feedback(context.Context, string, session.ID) ([]feedback.Entry, error) {
	return nil, nil
}

// FeedbackEntry finds nothing.
func (Volatile) FeedbackEntry(context.Context, string, session.ID, string) (feedback.Entry, bool, error) {
	return feedback.Entry{}, false, nil
}

// SessionFeedback returns no feedback: the backend stores none.
func (Volatile) SessionFeedback(context.Context, string, session.ID) ([]feedback.Entry, int64, error) {
	return nil, 0, nil
}

// Unsettled returns no session: no closed session waits for a settlement.
func (Volatile) Unsettled(context.Context, int) ([]session.Unsettled, error) { return nil, nil }

// Park refuses feedback for a session that is not known yet, with ErrVolatile.
func (Volatile) Park(context.Context, string, session.EchoKey, feedback.Entry) error {
	return ErrVolatile
}

// ParkedEntry finds nothing.
func (Volatile) ParkedEntry(context.Context, string, session.EchoKey, string) (feedback.Entry, bool, error) {
	return feedback.Entry{}, false, nil
}

// Join finds nothing.
func (Volatile) Join(context.Context, string, map[session.EchoKey]session.ID) (map[session.ID]int, error) {
	return nil, nil
}

// Due returns no session.
func (Volatile) Due(context.Context, time.Time, session.Row, int) ([]session.Row, error) {
	return nil, nil
}

// Applied finds nothing.
func (Volatile) Applied(context.Context, string, session.ID) (session.Applied, error) {
	return session.Applied{}, nil
}

// Settle reports that no session was settled.
func (Volatile) Settle(_ context.Context, s []session.Settlement) ([]bool, error) {
	return make([]bool, len(s)), nil
}

// Counters finds nothing.
func (Volatile) Counters(context.Context, string) ([]trial.Delta, error) { return nil, nil }

// Tenants finds nothing.
func (Volatile) Tenants(context.Context) ([]string, error) { return nil, nil }

// Raise returns ErrVolatile.
func (Volatile) Raise(context.Context, string, []trial.Delta) error { return ErrVolatile }

// Maxima finds nothing.
func (Volatile) Maxima(context.Context, string) ([]trial.Delta, error) { return nil, nil }

// Priors finds nothing.
func (Volatile) Priors(context.Context, string) (int64, []byte, error) { return 0, nil, nil }

// PutPriors returns ErrVolatile.
func (Volatile) PutPriors(context.Context, string, int64, []byte) (bool, error) {
	return false, ErrVolatile
}

// Exchanges finds nothing.
func (Volatile) Exchanges(context.Context, string, session.ID) ([]sample.Exchange, error) {
	return nil, nil
}

// Newest finds nothing.
func (Volatile) Newest(context.Context, string, session.ListRange) (session.Page[session.ListedSession], error) {
	return session.Page[session.ListedSession]{}, nil
}

// NewestSamples finds nothing.
func (Volatile) NewestSamples(context.Context, string, session.ListRange) (session.Page[session.StoredSample], error) {
	return session.Page[session.StoredSample]{}, nil
}

// SampleSession finds nothing.
func (Volatile) SampleSession(context.Context, string, string) (session.ID, bool, error) {
	return session.ID{}, false, nil
}

// Forget does nothing.
func (Volatile) Forget(context.Context, string, session.ID) (bool, error) { return false, nil }

// ForgetTenant does nothing.
func (Volatile) ForgetTenant(context.Context, string) (int, error) { return 0, nil }

// Retain does nothing.
func (Volatile) Retain(context.Context, time.Time) (int, error) { return 0, nil }

// PurgeParked does nothing.
func (Volatile) PurgeParked(context.Context, time.Time) (int, error) { return 0, nil }

// SetAside does nothing.
func (Volatile) SetAside(context.Context, []session.DeadLetter) error { return nil }

// Readmit does nothing.
func (Volatile) Readmit(context.Context, int) (int, error) { return 0, nil }

// Unsampled returns 0.
func (Volatile) Unsampled(context.Context) (int64, error) { return 0, nil }

// Sync does nothing.
func (Volatile) Sync(context.Context) error { return nil }

// Close does nothing.
func (Volatile) Close() error { return nil }

// EachNote finds nothing.
func (Volatile) EachNote(context.Context, string, string, func(string, []byte) error) error {
	return nil
}

// WriteNotes returns ErrVolatile.
func (Volatile) WriteNotes(context.Context, string, map[session.ID][]byte, map[string][]byte) error {
	return ErrVolatile
}
