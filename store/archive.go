package store

import (
	"context"
	"sync/atomic"
	"time"

	"precept/bandit/feedback"
	"precept/internal/redact"
	"precept/internal/sample"
	"precept/internal/session"
)

// What an Archive reads of a backend: pages of sessions and samples, and one session.
type (
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
)

// Archive shows what is kept: sessions in a list, one of them as a person reads it, samples. It
// reads what is stored, and shows nothing of who has opted out since.
type Archive struct {
	now      func() time.Time
	be       archived
	reward   feedback.Definition // as it is in force
	optOut   *atomic.Pointer[sample.OptOut]
	redactor func() *redact.Redactor
}

// Hides says that an agent or a tenant has opted out since: what was kept before is shown no more.
func (a *Archive) Hides(tenant, agent string) bool {
	o := a.optOut.Load()
	return o != nil && (o.Tenant(tenant) || o.Agent(agent))
}

// veiledNow says that an exchange names a path that is opted out by now.
func (a *Archive) veiledNow(e *sample.Exchange) bool {
	o := a.optOut.Load()
	return o != nil && o.Named(e)
}

// find reads the row of the session that a name means.
func (a *Archive) find(ctx context.Context, tenant, name string) (session.Listed, *session.Record, error) {
	ids, err := idsNamed(ctx, a.be, tenant, name)
	if err != nil {
		return session.Listed{}, nil, err
	}
	for _, id := range ids {
		row, ok, err := a.be.Session(ctx, tenant, id)
		if err != nil {
			return session.Listed{}, nil, err
		}
		if !ok {
			continue
		}
		rec, err := session.Decode(id, row.Data)
		if err != nil {
			return session.Listed{}, nil, err
		}
		applied, err := a.be.Applied(ctx, tenant, id)
		return session.Listed{Row: row, Applied: applied}, rec, err
	}
	return session.Listed{}, nil, ErrNoSession
}
