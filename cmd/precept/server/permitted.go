package server

import (
	"context"
	"errors"
	"time"

	"precept/bandit/feedback"
	"precept/cmd/precept/lake"
	"precept/configs"
	"precept/distill"
	"precept/internal/sample"
	"precept/internal/session"
	"precept/store"
)

// OptOutOf returns the configured opt-outs.
func OptOutOf(cfg *configs.Config) (*sample.OptOut, error) {
	return sample.NewOptOut(cfg.Learning.OptOutPatterns, cfg.Learning.OptOutAgents, cfg.Learning.OptOutTenants)
}

// sessionSource reads sessions with their exchanges and feedback.
type sessionSource interface {
	EachSession(ctx context.Context, tenant string, since, until time.Time, fn func(session.Row, session.Applied) error) error
	Session(ctx context.Context, tenant string, id session.ID) (session.Row, bool, error)
	Exchanges(ctx context.Context, tenant string, id session.ID) ([]sample.Exchange, error)
	Feedback(ctx context.Context, tenant string, id session.ID) ([]feedback.Entry, error)
}

// permit is a view of a store that hides content that was opted out after the content was stored. Exports, the lake,
// the distiller, backtests and scans of rules files read through a permit.
type permit struct {
	from    sessionSource
	optOut  func() *sample.OptOut           // returns the current opt-outs
	damaged func(of session.Ref, err error) // called for a session with a damaged exchange, whose content is hidden
}

// newPermit returns a permit. damaged may be nil.
func newPermit(from sessionSource, optOut func() *sample.OptOut, damaged func(session.Ref, error)) permit {
	if damaged == nil {
		damaged = func(session.Ref, error) {}
	}
	return permit{from, optOut, damaged}
}

// EachSession visits the sessions whose tenant and agent are not opted out.
func (p permit) EachSession(ctx context.Context, tenant string, since, until time.Time, fn func(session.Row, session.Applied) error) error {
	return p.from.EachSession(ctx, tenant, since, until, func(r session.Row, a session.Applied) error {
		o := p.optOut()
		if o.Hides(r.Tenant, "") {
			return nil
		}
		if o.HidesAgents() {
			if rec, err := session.Decode(r.ID, r.Data); err == nil && o.Hides(r.Tenant, rec.Identity.Agent) {
				return nil
			}
		}
		return fn(r, a)
	})
}

// Exchanges returns the exchanges of a session, without opted-out exchanges.
func (p permit) Exchanges(ctx context.Context, tenant string, id session.ID) ([]sample.Exchange, error) {
	o := p.optOut()
	if o.Hides(tenant, "") {
		return nil, nil
	}
	list, err := p.from.Exchanges(ctx, tenant, id)
	if errors.Is(err, session.ErrDamaged) {
		p.damaged(session.Ref{Tenant: tenant, ID: id}, err)
		return nil, nil
	}
	return o.Visible(list), err
}

// Feedback returns the feedback on a session, without texts that may be about an opted-out turn.
func (p permit) Feedback(ctx context.Context, tenant string, id session.ID) ([]feedback.Entry, error) {
	entries, err := p.from.Feedback(ctx, tenant, id)
	if err != nil || len(entries) == 0 {
		return entries, err
	}
	late, err := p.late(ctx, tenant, id)
	if err != nil || late == nil {
		return nil, err
	}
	return late.VisibleFeedback(entries), nil
}

// late returns the opt-outs of a session that were made after its content was stored; nil if an exchange of the
// session is damaged.
func (p permit) late(ctx context.Context, tenant string, id session.ID) (*store.LateOptOut, error) {
	o := p.optOut()
	var list []sample.Exchange
	var err error
	if o.HidesPaths() {
		if list, err = p.from.Exchanges(ctx, tenant, id); errors.Is(err, session.ErrDamaged) {
			p.damaged(session.Ref{Tenant: tenant, ID: id}, err)
			return nil, nil //nolint:nilnil // the content of the session is left out
		}
	}
	row, _, failed := p.from.Session(ctx, tenant, id)
	return store.NewLateOptOut(o, &row, list), errors.Join(err, failed)
}

// samples returns a function that reports whether a sample is permitted. The function also removes feedback texts
// from the sample that may be about an opted-out turn. The samples of a session are adjacent, so the function keeps
// the opt-outs of the last session.
func (p permit) samples() func(ctx context.Context, s *session.StoredSample) (permitted bool, err error) {
	var last session.Ref // session to which late belongs
	var late *store.LateOptOut
	return func(ctx context.Context, s *session.StoredSample) (bool, error) {
		o := p.optOut()
		if o.Hides(s.Tenant, s.Agent) {
			return false, nil
		}
		if !o.HidesPaths() && !s.Sample.HasSessionWords() {
			return true, nil
		}
		if ref := (session.Ref{Tenant: s.Tenant, ID: s.ID}); last != ref {
			l, err := p.late(ctx, s.Tenant, s.ID)
			if err != nil {
				return false, err
			}
			late, last = l, ref
		}
		return late != nil && late.AllowSample(&s.Sample), nil
	}
}

// eachSample visits the samples that are not opted out.
func (p permit) eachSample(ctx context.Context, from Walker, tenant string, since, until time.Time, fn func(session.StoredSample) error) error {
	permitted := p.samples()
	return from.EachSample(ctx, tenant, since, until, func(s session.StoredSample) error {
		if ok, err := permitted(ctx, &s); err != nil || !ok {
			return err
		}
		return fn(s)
	})
}

// permittedEvidence is an Evidence that reads through a permit.
type permittedEvidence struct {
	Evidence
	permit permit
}

// Permitted returns a view of a store without opted-out content. optOut returns the current opt-outs. damaged is
// called for a session with a damaged exchange, whose content is hidden; damaged may be nil.
func Permitted(e WholeEvidence, optOut func() *sample.OptOut, damaged func(session.Ref, error)) Evidence {
	return permittedEvidence{e, newPermit(e, optOut, damaged)}
}

// EachSession implements Evidence.
func (e permittedEvidence) EachSession(ctx context.Context, tenant string, since, until time.Time, fn func(session.Row, session.Applied) error) error {
	return e.permit.EachSession(ctx, tenant, since, until, fn)
}

// Exchanges implements Evidence.
func (e permittedEvidence) Exchanges(ctx context.Context, tenant string, id session.ID) ([]sample.Exchange, error) {
	return e.permit.Exchanges(ctx, tenant, id)
}

// Feedback implements Evidence.
func (e permittedEvidence) Feedback(ctx context.Context, tenant string, id session.ID) ([]feedback.Entry, error) {
	return e.permit.Feedback(ctx, tenant, id)
}

// EachSample implements Evidence.
func (e permittedEvidence) EachSample(ctx context.Context, tenant string, since, until time.Time, fn func(session.StoredSample) error) error {
	return e.permit.eachSample(ctx, e.Evidence, tenant, since, until, fn)
}

// permittedStore is a Stored that reads through a permit.
type permittedStore struct {
	Stored
	permit permit
}

// EachSession implements Evidence.
func (s permittedStore) EachSession(ctx context.Context, tenant string, since, until time.Time, fn func(session.Row, session.Applied) error) error {
	return s.permit.EachSession(ctx, tenant, since, until, fn)
}

// Exchanges implements Evidence.
func (s permittedStore) Exchanges(ctx context.Context, tenant string, id session.ID) ([]sample.Exchange, error) {
	return s.permit.Exchanges(ctx, tenant, id)
}

// Feedback implements Evidence.
func (s permittedStore) Feedback(ctx context.Context, tenant string, id session.ID) ([]feedback.Entry, error) {
	return s.permit.Feedback(ctx, tenant, id)
}

// EachSample implements Evidence.
func (s permittedStore) EachSample(ctx context.Context, tenant string, since, until time.Time, fn func(session.StoredSample) error) error {
	return s.permit.eachSample(ctx, s.Stored, tenant, since, until, fn)
}

// permittedSource is the source of a distiller that reads through a permit.
type permittedSource struct {
	distill.Source
	permit permit
}

// EachSession implements distill.Source.
func (d permittedSource) EachSession(ctx context.Context, tenant string, since, until time.Time, fn func(session.Row, session.Applied) error) error {
	return d.permit.EachSession(ctx, tenant, since, until, fn)
}

// Exchanges implements distill.Source.
func (d permittedSource) Exchanges(ctx context.Context, tenant string, id session.ID) ([]sample.Exchange, error) {
	return d.permit.Exchanges(ctx, tenant, id)
}

// Feedback implements distill.Source.
func (d permittedSource) Feedback(ctx context.Context, tenant string, id session.ID) ([]feedback.Entry, error) {
	return d.permit.Feedback(ctx, tenant, id)
}

// permittedStreams is the source of a lake that reads through a permit.
type permittedStreams struct {
	lake.Source
	permit permit
}

// PermittedStreams returns a view of the samples of a store without opted-out samples. The arguments are those of
// Permitted.
func PermittedStreams(from lake.Source, exchanges WholeEvidence, optOut func() *sample.OptOut, damaged func(session.Ref, error)) lake.Source {
	return permittedStreams{from, newPermit(exchanges, optOut, damaged)}
}

// SamplesAfter implements lake.Source.
func (l permittedStreams) SamplesAfter(ctx context.Context, stream, after, until string) (list []session.StoredSample, last string, err error) {
	all, last, err := l.Source.SamplesAfter(ctx, stream, after, until)
	if err != nil {
		return nil, after, err
	}
	permitted := l.permit.samples()
	for i := range all {
		ok, err := permitted(ctx, &all[i])
		if err != nil {
			return nil, after, err
		}
		if ok {
			list = append(list, all[i])
		}
	}
	return list, last, nil
}
