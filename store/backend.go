package store

import (
	"context"
	"time"

	"precept/feedback"
	"precept/sample"
	"precept/session"
	"precept/trial"
)

// The backend, in the groups in which it is used.
type (
	sessionKeeper interface {
		Session(ctx context.Context, tenant string, id session.ID) (session.Row, bool, error)
		FindEcho(ctx context.Context, tenant string, keys []session.EchoKey) (map[session.EchoKey][]session.ID, error)
		Write(ctx context.Context, b session.Batch) error
		// Sync makes what was written survive a power cut, where it does not by itself.
		Sync(ctx context.Context) error
	}
	feedbackKeeper interface {
		AddFeedback(ctx context.Context, tenant string, id session.ID, entries []feedback.Entry) (added int, err error)
		AddFeedbackAll(ctx context.Context, tenant string, entries map[session.ID][]feedback.Entry) (added map[session.ID]int, err error)
		Feedback(ctx context.Context, tenant string, id session.ID) ([]feedback.Entry, error)
		Park(ctx context.Context, tenant string, key session.EchoKey, e feedback.Entry) error
		Join(ctx context.Context, tenant string, owners map[session.EchoKey]session.ID) (map[session.ID]int, error)
	}
	listener interface {
		Heard(ctx context.Context, tenant string, id session.ID) (entries []feedback.Entry, heard int64, err error)
		Unsettled(ctx context.Context, limit int) ([]session.Unsettled, error)
	}
	counterKeeper interface {
		listener
		Due(ctx context.Context, startedBefore time.Time, after session.Row, limit int) ([]session.Row, error)
		Applied(ctx context.Context, tenant string, id session.ID) (session.Applied, error)
		Settle(ctx context.Context, s []session.Settlement) ([]bool, error)
		Counters(ctx context.Context, tenant string) ([]trial.Delta, error)
		Tenants(ctx context.Context) ([]string, error)
	}
	modelKeeper interface {
		Raise(ctx context.Context, tenant string, maxima []trial.Delta) error
		Maxima(ctx context.Context, tenant string) ([]trial.Delta, error)
		Priors(ctx context.Context, tenant string) (version int64, data []byte, err error)
		PutPriors(ctx context.Context, tenant string, from int64, data []byte) (bool, error)
	}
	keeper interface {
		Forget(ctx context.Context, tenant string, id session.ID) (bool, error)
		ForgetTenant(ctx context.Context, tenant string) (sessions int, err error)
		Retain(ctx context.Context, before time.Time) (int, error)
		PurgeParked(ctx context.Context, before time.Time) (int, error)
	}
	surgeon interface {
		SetAside(ctx context.Context, list []session.Aside) error
		Readmit(ctx context.Context, most int) (int, error)
		Unsampled(ctx context.Context) (int64, error)
	}
	lister interface {
		Newest(ctx context.Context, tenant string, of session.Stretch) (session.Page[session.Listed], error)
		NewestSamples(ctx context.Context, tenant string, of session.Stretch) (session.Page[session.StoredSample], error)
	}
	sampleReader interface {
		keeper
		lister
		surgeon
		Exchanges(ctx context.Context, tenant string, id session.ID) ([]sample.Exchange, error)
		SampleSession(ctx context.Context, tenant, sampleID string) (session.ID, bool, error)
	}
)

// Backend is what stands behind the store.
type Backend interface {
	sessionKeeper
	feedbackKeeper
	counterKeeper
	modelKeeper
	sampleReader
	Close() error
}

// Fleet is a backend that other processes write to as well: through it replicas tell each other
// what they have counted, heard and forgotten.
type Fleet interface {
	// Epoch changes when the backend has lost something that it had taken.
	Epoch(ctx context.Context) (string, error)
	// Announce tells the others what is forgotten, and where in their list that stands.
	Announce(ctx context.Context, e session.Erasure) (place string, err error)
	// Erasures lists what was announced behind a place.
	Erasures(ctx context.Context, after string) ([]session.Erasure, error)
	// Moved says of each tenant how far its counters, and what open sessions told, have come, by
	// whomever.
	Moved(ctx context.Context) (map[string]session.Stand, error)
	// Told lists open sessions with all feedback that they got, in the order in which they last got
	// some, behind a place in it.
	Told(ctx context.Context, tenant string, after int64, limit int) (rows []session.Row, said [][]feedback.Entry, last int64, err error)
	// Settled says which sessions the counters know.
	Settled(ctx context.Context, tenant string, ids []session.ID) ([]bool, error)
}
