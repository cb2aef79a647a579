package server

import (
	"context"
	"errors"
	"time"

	"precept/bandit/feedback"
	"precept/cmd/precept/lake"
	"precept/configs"
	"precept/internal/sample"
	"precept/internal/session"
	"precept/store"
)

// NewOptOut returns the configured opt-outs.
func NewOptOut(cfg *configs.Config) (*sample.OptOut, error) {
	return sample.NewOptOut(cfg.Learning.OptOutPatterns, cfg.Learning.OptOutAgents, cfg.Learning.OptOutTenants)
}

type sessionSource interface {
	EachSession(ctx context.Context, tenant string, since, until time.Time, fn func(session.Row, session.SettledState) error) error
	Session(ctx context.Context, tenant string, id session.ID) (session.Row, bool, error)
	Exchanges(ctx context.Context, tenant string, id session.ID) ([]sample.Exchange, error)
	Feedback(ctx context.Context, tenant string, id session.ID) ([]feedback.Entry, error)
}

// optOutFilter wraps a store and hides content that was opted out after it was stored.
type optOutFilter struct {
	source    sessionSource
	optOut    func() *sample.OptOut
	onDamaged func(ref session.Ref, err error) // called for a session that is hidden because of a damaged exchange
}

func newOptOutFilter(source sessionSource, optOut func() *sample.OptOut, damaged func(session.Ref, error)) optOutFilter {
	if damaged == nil {
		damaged = func(session.Ref, error) {}
	}
	return optOutFilter{source, optOut, damaged}
}

// EachSession visits the sessions, except those with an opted-out tenant or agent.
func (f optOutFilter) EachSession(ctx context.Context, tenant string, since, until time.Time, fn func(session.Row, session.SettledState) error) error {
	return f.source.EachSession(ctx, tenant, since, until, func(r session.Row, a session.SettledState) error {
		o := f.optOut()
		if o.Hides(r.Tenant, "") {
			return nil
		}
		if o.HasAgentPatterns() {
			if rec, err := session.Decode(r.ID, r.Data); err == nil && o.Hides(r.Tenant, rec.Identity.Agent) {
				return nil
			}
		}
		return fn(r, a)
	})
}

// Exchanges returns a session's exchanges, without opted-out exchanges.
func (f optOutFilter) Exchanges(ctx context.Context, tenant string, id session.ID) ([]sample.Exchange, error) {
	o := f.optOut()
	if o.Hides(tenant, "") {
		return nil, nil
	}
	list, err := f.source.Exchanges(ctx, tenant, id)
	if errors.Is(err, session.ErrDamaged) {
		f.onDamaged(session.Ref{Tenant: tenant, ID: id}, err)
		return nil, nil
	}
	return o.VisibleExchanges(list), err
}

// Feedback returns a session's feedback, without texts that may be about an opted-out turn.
func (f optOutFilter) Feedback(ctx context.Context, tenant string, id session.ID) ([]feedback.Entry, error) {
	entries, err := f.source.Feedback(ctx, tenant, id)
	if err != nil || len(entries) == 0 {
		return entries, err
	}
	late, err := f.lateOptOut(ctx, tenant, id)
	if err != nil || late == nil {
		return nil, err
	}
	return late.VisibleFeedback(entries), nil
}

// lateOptOut returns the opt-outs that apply since a session's content was stored, or nil if an exchange is damaged.
func (f optOutFilter) lateOptOut(ctx context.Context, tenant string, id session.ID) (*store.LateOptOut, error) {
	o := f.optOut()
	var list []sample.Exchange
	var err error
	if o.HasPathPatterns() {
		if list, err = f.source.Exchanges(ctx, tenant, id); errors.Is(err, session.ErrDamaged) {
			f.onDamaged(session.Ref{Tenant: tenant, ID: id}, err)
			return nil, nil //nolint:nilnil // the content of the session is left out
		}
	}
	row, _, failed := f.source.Session(ctx, tenant, id)
	return store.NewLateOptOut(o, &row, list), errors.Join(err, failed)
}

// sampleFilter returns a function that reports whether a sample is permitted, that is, not opted out. The function
// removes from the sample any feedback text that may be about an opted-out turn. A session's samples are adjacent, so
// only the last session's opt-outs are kept.
func (f optOutFilter) sampleFilter() func(ctx context.Context, s *session.StoredSample) (permitted bool, err error) {
	var last session.Ref
	var late *store.LateOptOut
	return func(ctx context.Context, s *session.StoredSample) (bool, error) {
		o := f.optOut()
		if o.Hides(s.Tenant, s.Agent) {
			return false, nil
		}
		if !o.HasPathPatterns() && !s.Sample.HasSessionFeedbackText() {
			return true, nil
		}
		if ref := (session.Ref{Tenant: s.Tenant, ID: s.ID}); last != ref {
			l, err := f.lateOptOut(ctx, s.Tenant, s.ID)
			if err != nil {
				return false, err
			}
			late, last = l, ref
		}
		return late != nil && late.AllowSample(&s.Sample), nil
	}
}

// filteredReader is a StoreReader without opted-out content.
type filteredReader struct {
	rowCounter
	optOutFilter

	samples Walker
}

// filterOptedOut returns a view of reader without opted-out content. damaged, if not nil, is called for each session
// that is hidden because of a damaged exchange.
func filterOptedOut(reader UnfilteredReader, optOut func() *sample.OptOut, damaged func(session.Ref, error)) StoreReader {
	return filteredReader{reader, newOptOutFilter(reader, optOut, damaged), reader}
}

// EachSample visits the samples that are not opted out.
func (e filteredReader) EachSample(ctx context.Context, tenant string, since, until time.Time, fn func(session.StoredSample) error) error {
	permitted := e.sampleFilter()
	return e.samples.EachSample(ctx, tenant, since, until, func(s session.StoredSample) error {
		if ok, err := permitted(ctx, &s); err != nil || !ok {
			return err
		}
		return fn(s)
	})
}

// filteredStreams is a lake's source without opted-out samples. A lake is a copy of the samples in Parquet files.
type filteredStreams struct {
	lake.Source
	filter optOutFilter
}

// FilterOptedOutStreams returns a view of a store's samples without opted-out samples.
func FilterOptedOutStreams(db CommandStore, optOut func() *sample.OptOut, damaged func(session.Ref, error)) lake.Source {
	return filteredStreams{db, newOptOutFilter(db, optOut, damaged)}
}

// SamplesAfter implements lake.Source.
func (s filteredStreams) SamplesAfter(ctx context.Context, stream, after, until string) (list []session.StoredSample, last string, err error) {
	all, last, err := s.Source.SamplesAfter(ctx, stream, after, until)
	if err != nil {
		return nil, after, err
	}
	permitted := s.filter.sampleFilter()
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
