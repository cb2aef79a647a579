package server

import (
	"context"
	"time"

	"precept/cmd/precept/lake"
	"precept/configs"
	"precept/distill"
	"precept/internal/sample"
	"precept/internal/session"
)

// OptOutOf returns the opt-outs of a configuration.
func OptOutOf(cfg *configs.Config) (*sample.OptOut, error) {
	return sample.NewOptOut(cfg.Learning.OptOutPatterns, cfg.Learning.OptOutAgents, cfg.Learning.OptOutTenants)
}

// sessionSource is a store of sessions with exchanges.
type sessionSource interface {
	EachSession(ctx context.Context, tenant string, since, until time.Time, fn func(session.Row, session.Applied) error) error
	Exchanges(ctx context.Context, tenant string, id session.ID) ([]sample.Exchange, error)
}

// permit removes the content that opted out after it was stored. Each way out of the store reads through
// a permit: exports, the lake, the distiller, backtests and scans.
type permit struct {
	from   sessionSource
	optOut func() *sample.OptOut
}

// EachSession visits the sessions whose tenant and agent did not opt out.
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

// Exchanges returns the exchanges of a session that did not opt out.
func (p permit) Exchanges(ctx context.Context, tenant string, id session.ID) ([]sample.Exchange, error) {
	o := p.optOut()
	if o.Hides(tenant, "") {
		return nil, nil
	}
	list, err := p.from.Exchanges(ctx, tenant, id)
	if err != nil {
		return nil, err
	}
	return o.Visible(list), nil
}

// samples returns a filter of samples. The samples of a session follow each other, so the filter keeps the
// exchanges of the last session.
func (p permit) samples() func(ctx context.Context, s *session.StoredSample) (permitted bool, err error) {
	var tenant string
	var id session.ID
	var list []sample.Exchange
	return func(ctx context.Context, s *session.StoredSample) (bool, error) {
		o := p.optOut()
		if o.Hides(s.Tenant, s.Agent) {
			return false, nil
		}
		if !o.HidesPaths() {
			return true, nil
		}
		if list == nil || tenant != s.Tenant || id != s.ID {
			var err error
			if list, err = p.from.Exchanges(ctx, s.Tenant, s.ID); err != nil {
				return false, err
			}
			tenant, id = s.Tenant, s.ID
		}
		return !o.HidesSample(&s.Sample, list), nil
	}
}

// eachSample visits the samples that did not opt out.
func (p permit) eachSample(ctx context.Context, from Walker, tenant string, since, until time.Time, fn func(session.StoredSample) error) error {
	permitted := p.samples()
	return from.EachSample(ctx, tenant, since, until, func(s session.StoredSample) error {
		if ok, err := permitted(ctx, &s); err != nil || !ok {
			return err
		}
		return fn(s)
	})
}

// permittedEvidence is an Evidence behind a permit.
type permittedEvidence struct {
	Evidence
	permit permit
}

// Permitted returns the content of a store that did not opt out until now. optOut returns the present
// opt-outs.
func Permitted(e Evidence, optOut func() *sample.OptOut) Evidence {
	return permittedEvidence{e, permit{e, optOut}}
}

// EachSession implements Evidence.
func (e permittedEvidence) EachSession(ctx context.Context, tenant string, since, until time.Time, fn func(session.Row, session.Applied) error) error {
	return e.permit.EachSession(ctx, tenant, since, until, fn)
}

// Exchanges implements Evidence.
func (e permittedEvidence) Exchanges(ctx context.Context, tenant string, id session.ID) ([]sample.Exchange, error) {
	return e.permit.Exchanges(ctx, tenant, id)
}

// EachSample implements Evidence.
func (e permittedEvidence) EachSample(ctx context.Context, tenant string, since, until time.Time, fn func(session.StoredSample) error) error {
	return e.permit.eachSample(ctx, e.Evidence, tenant, since, until, fn)
}

// permittedStore is a store for a verb behind a permit.
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

// EachSample implements Evidence.
func (s permittedStore) EachSample(ctx context.Context, tenant string, since, until time.Time, fn func(session.StoredSample) error) error {
	return s.permit.eachSample(ctx, s.Stored, tenant, since, until, fn)
}

// permittedSource is the source of a distiller behind a permit.
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

// permittedStreams is the source of a lake behind a permit.
type permittedStreams struct {
	lake.Source
	permit permit
}

// PermittedStreams returns the samples of a store that did not opt out until now.
func PermittedStreams(from lake.Source, exchanges Evidence, optOut func() *sample.OptOut) lake.Source {
	return permittedStreams{from, permit{exchanges, optOut}}
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
