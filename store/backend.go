package store

import (
	"context"
	"time"

	"precept/feedback"
	"precept/sample"
	"precept/session"
	"precept/store/guard"
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
		AddFeedback(ctx context.Context, tenant string, entries map[session.ID][]feedback.Entry) (added map[session.ID]int, err error)
		Feedback(ctx context.Context, tenant string, id session.ID) ([]feedback.Entry, error)
		Park(ctx context.Context, tenant string, key session.EchoKey, e feedback.Entry) error
		Join(ctx context.Context, tenant string, owners map[session.EchoKey]session.ID) (map[session.ID]int, error)
	}
	keeper interface {
		Forget(ctx context.Context, tenant string, id session.ID) (bool, error)
		ForgetTenant(ctx context.Context, tenant string) (sessions int, err error)
		Retain(ctx context.Context, before time.Time) (int, error)
		PurgeParked(ctx context.Context, before time.Time) (int, error)
	}
	lister interface {
		Newest(ctx context.Context, tenant string, of session.Stretch) (session.Page[session.Listed], error)
		NewestSamples(ctx context.Context, tenant string, of session.Stretch) (session.Page[session.StoredSample], error)
	}
	sessionReader interface {
		Session(ctx context.Context, tenant string, id session.ID) (session.Row, bool, error)
		Applied(ctx context.Context, tenant string, id session.ID) (session.Applied, error)
		Feedback(ctx context.Context, tenant string, id session.ID) ([]feedback.Entry, error)
		Exchanges(ctx context.Context, tenant string, id session.ID) ([]sample.Exchange, error)
	}
	archived interface {
		session.Finder
		lister
		sessionReader
	}
	sampleReader interface {
		keeper
		archived
		guard.Marks
		SampleSession(ctx context.Context, tenant, sampleID string) (session.ID, bool, error)
	}
)

// Backend is what stands behind the store.
type Backend interface {
	sessionKeeper
	feedbackKeeper
	sampleReader
	Close() error
}

// Fleet is a backend that other processes write to as well: through it replicas tell each other
// what they have forgotten.
type Fleet interface {
	// Epoch changes when the backend has lost something that it had taken.
	Epoch(ctx context.Context) (string, error)
	// Announce tells the others what is forgotten, and where in their list that stands.
	Announce(ctx context.Context, e session.Erasure) (place string, err error)
	// Erasures lists what was announced behind a place.
	Erasures(ctx context.Context, after string) ([]session.Erasure, error)
	// KeepOptOuts keeps marks of sessions that opted out, for a time; of two of one session the one
	// of more items.
	KeepOptOuts(ctx context.Context, marks map[session.ID]session.OptOutMark) error
	// OptOutOf finds one.
	OptOutOf(ctx context.Context, id session.ID) (m session.OptOutMark, ok bool, err error)
}
