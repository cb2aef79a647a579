package store

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"precept/bandit/feedback"
	"precept/internal/redact"
	"precept/internal/sample"
	"precept/internal/session"
)

type (
	lister interface {
		ListSessions(ctx context.Context, tenant string, within session.ListRange) (session.Page[session.ListedSession], error)
		ListSamples(ctx context.Context, tenant string, within session.ListRange) (session.Page[session.StoredSample], error)
	}
	sessionReader interface {
		Session(ctx context.Context, tenant string, id session.ID) (session.Row, bool, error)
		SettledState(ctx context.Context, tenant string, id session.ID) (session.SettledState, error)
		Feedback(ctx context.Context, tenant string, id session.ID) ([]feedback.Entry, error)
		Exchanges(ctx context.Context, tenant string, id session.ID) ([]sample.Exchange, error)
	}
	archiveBackend interface {
		session.Finder
		lister
		sessionReader
	}
)

// Archive is the store's read side: session and sample lists, searches, and transcripts. It hides stored sessions and
// turns that newer opt-out rules (for agents, tenants and file paths) forbid.
type Archive struct {
	now       func() time.Time
	backend   archiveBackend
	exchanges func(ctx context.Context, tenant string, id session.ID) ([]sample.Exchange, error)
	reward    feedback.Definition
	optOut    *atomic.Pointer[sample.OptOut]
	redactor  func() *redact.Redactor
	onDamage  func(ref session.Ref, err error) // Hooks.OnDamage
}

// Hides reports whether a tenant or an agent has opted out.
func (a *Archive) Hides(tenant, agent string) bool { return a.optOut.Load().Hides(tenant, agent) }

// hidesSample reports whether a sample has content from an opted-out exchange. If not, hidesSample removes any feedback
// text that might be about such an exchange.
func (a *Archive) hidesSample(ctx context.Context, m *session.StoredSample) (bool, error) {
	o := a.optOut.Load()
	if !o.HasPathPatterns() && !m.Sample.HasSessionFeedbackText() {
		return false, nil
	}
	var list []sample.Exchange
	if o.HasPathPatterns() {
		var err error
		list, err = a.exchanges(ctx, m.Tenant, m.ID)
		if a.reportIfDamaged(m.Tenant, m.ID, err) {
			return true, nil
		}
		if err != nil {
			return false, err
		}
	}
	row, _, err := a.backend.Session(ctx, m.Tenant, m.ID)
	return err == nil && !NewLateOptOut(o, &row, list).AllowSample(&m.Sample), err
}

// reportIfDamaged calls Hooks.OnDamage and returns true if err means that the session has a damaged exchange.
func (a *Archive) reportIfDamaged(tenant string, id session.ID, err error) bool {
	if !errors.Is(err, session.ErrDamaged) {
		return false
	}
	if a.onDamage != nil {
		a.onDamage(session.Ref{Tenant: tenant, ID: id}, err)
	}
	return true
}

// find returns the stored session that name identifies, or ErrNoSession. name is the session's name or id, or the id of
// a request or a response.
func (a *Archive) find(ctx context.Context, tenant, name string) (session.ListedSession, *session.Record, error) {
	ids, err := idsByName(ctx, a.backend, tenant, name)
	if err != nil {
		return session.ListedSession{}, nil, err
	}
	if id, ok := session.ParseRequestID(name); ok {
		ids = append(ids, id)
	}
	response := session.TenantEchoKey(tenant, "r:"+name)
	byResponse, err := a.backend.FindEcho(ctx, tenant, []session.EchoKey{response})
	if err != nil {
		return session.ListedSession{}, nil, err
	}
	ids = append(ids, byResponse[response]...)
	for _, id := range ids {
		row, ok, err := a.backend.Session(ctx, tenant, id)
		if err != nil {
			return session.ListedSession{}, nil, err
		}
		if !ok {
			continue
		}
		rec, err := session.Decode(id, row.Data)
		if err != nil {
			return session.ListedSession{}, nil, err
		}
		settled, err := a.backend.SettledState(ctx, tenant, id)
		return session.ListedSession{Row: row, SettledState: settled}, rec, err
	}
	return session.ListedSession{}, nil, ErrNoSession
}
