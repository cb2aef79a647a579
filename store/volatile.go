package store

import (
	"context"
	"errors"
	"time"

	"precept/bandit/feedback"
	"precept/bandit/trial"
	"precept/internal/sample"
	"precept/internal/session"
)

// ErrVolatile is what Volatile answers to whatever should have been kept.
var ErrVolatile = errors.New("precept runs from memory: its data directory cannot be written")

// Volatile is the backend of a precept whose data directory cannot be written. It keeps nothing:
// lessons are chosen and replayed from memory, exchanges are counted as dropped, and feedback is
// refused with "try again".
type Volatile struct{}

// Session knows none.
func (Volatile) Session(context.Context, string, session.ID) (session.Row, bool, error) {
	return session.Row{}, false, nil
}

// FindEcho knows none.
func (Volatile) FindEcho(context.Context, string, []session.EchoKey) (map[session.EchoKey][]session.ID, error) {
	return nil, nil
}

// Write keeps nothing.
func (Volatile) Write(context.Context, session.Batch) error { return ErrVolatile }

// AddFeedback keeps nothing.
func (Volatile) AddFeedback(context.Context, string, map[session.ID][]feedback.Entry) (map[session.ID]int, error) {
	return nil, ErrVolatile
}

// Feedback knows none.
func (Volatile) Feedback(context.Context, string, session.ID) ([]feedback.Entry, error) {
	return nil, nil
}

// Heard knows none.
func (Volatile) Heard(context.Context, string, session.ID) ([]feedback.Entry, int64, error) {
	return nil, 0, nil
}

// Unsettled knows none.
func (Volatile) Unsettled(context.Context, int) ([]session.Unsettled, error) { return nil, nil }

// Park keeps nothing.
func (Volatile) Park(context.Context, string, session.EchoKey, feedback.Entry) error {
	return ErrVolatile
}

// Join knows none.
func (Volatile) Join(context.Context, string, map[session.EchoKey]session.ID) (map[session.ID]int, error) {
	return nil, nil
}

// Due knows none.
func (Volatile) Due(context.Context, time.Time, session.Row, int) ([]session.Row, error) {
	return nil, nil
}

// Applied knows none.
func (Volatile) Applied(context.Context, string, session.ID) (session.Applied, error) {
	return session.Applied{}, nil
}

// Settle takes none.
func (Volatile) Settle(_ context.Context, s []session.Settlement) ([]bool, error) {
	return make([]bool, len(s)), nil
}

// Counters knows none.
func (Volatile) Counters(context.Context, string) ([]trial.Delta, error) { return nil, nil }

// Tenants knows none.
func (Volatile) Tenants(context.Context) ([]string, error) { return nil, nil }

// Raise keeps nothing.
func (Volatile) Raise(context.Context, string, []trial.Delta) error { return ErrVolatile }

// Maxima knows none.
func (Volatile) Maxima(context.Context, string) ([]trial.Delta, error) { return nil, nil }

// Priors knows none.
func (Volatile) Priors(context.Context, string) (int64, []byte, error) { return 0, nil, nil }

// PutPriors keeps nothing.
func (Volatile) PutPriors(context.Context, string, int64, []byte) (bool, error) {
	return false, ErrVolatile
}

// Exchanges knows none.
func (Volatile) Exchanges(context.Context, string, session.ID) ([]sample.Exchange, error) {
	return nil, nil
}

// Newest knows none.
func (Volatile) Newest(context.Context, string, session.Stretch) (session.Page[session.Listed], error) {
	return session.Page[session.Listed]{}, nil
}

// NewestSamples knows none.
func (Volatile) NewestSamples(context.Context, string, session.Stretch) (session.Page[session.StoredSample], error) {
	return session.Page[session.StoredSample]{}, nil
}

// SampleSession knows none.
func (Volatile) SampleSession(context.Context, string, string) (session.ID, bool, error) {
	return session.ID{}, false, nil
}

// Forget has nothing to forget.
func (Volatile) Forget(context.Context, string, session.ID) (bool, error) { return false, nil }

// ForgetTenant has nothing to forget.
func (Volatile) ForgetTenant(context.Context, string) (int, error) { return 0, nil }

// Retain has nothing that could be too old.
func (Volatile) Retain(context.Context, time.Time) (int, error) { return 0, nil }

// PurgeParked has nothing that waits.
func (Volatile) PurgeParked(context.Context, time.Time) (int, error) { return 0, nil }

// SetAside keeps nothing, and there is nobody who could be told.
func (Volatile) SetAside(context.Context, []session.DeadLetter) error { return nil }

// Readmit has nothing to readmit.
func (Volatile) Readmit(context.Context, int) (int, error) { return 0, nil }

// Unsampled counts none: nothing is kept.
func (Volatile) Unsampled(context.Context) (int64, error) { return 0, nil }

// Sync has nothing to make safe.
func (Volatile) Sync(context.Context) error { return nil }

// Close has nothing to close.
func (Volatile) Close() error { return nil }
