package learn

import (
	"context"
	"errors"
	"sync/atomic"

	"precept/bandit/feedback"
	"precept/detect"
	"precept/internal/guard"
	"precept/internal/label"
	"precept/internal/sample"
	"precept/internal/session"
)

// samples builds and writes the samples of sessions.
type samples struct {
	tools     tools
	backend   writer
	exchanges Exchanges
	keep      bool // false: no sample is built
	written   *atomic.Int64
}

// write builds and writes the samples of sessions that close, got a new rating, or continued after closing. ok is
// false if the exchanges could not be read or the samples could not be written. finished holds the sessions without
// those that the guard has set aside, because their step panicked or their samples are invalid.
func (s *samples) write(ctx context.Context, work []*settling) (finished []*settling, ok bool) {
	if !s.keep {
		return work, true
	}
	var b session.Batch
	finished = work[:0:0]
	for n, st := range work {
		var err error
		if s.tools.guard.On(label.StepSamples, st.ref(), "", func() { err = s.build(ctx, &b, st) }) {
			finished = append(finished, st)
		}
		if err != nil {
			s.tools.failed(label.StepSamples, err)
			return append(finished, work[n+1:]...), false
		}
	}
	if len(b.Whole) == 0 {
		return finished, true
	}
	err := s.tools.guard.Err(label.StepSamples, func() error { return s.backend.Write(ctx, b) })
	if guard.Poisoned(err) {
		return s.writeEach(ctx, finished)
	}
	if err != nil {
		s.tools.failed(label.StepSamples, err)
		return finished, false
	}
	s.written.Add(int64(len(b.Samples)))
	return finished, true
}

// build adds all samples of one session to a batch.
func (s *samples) build(ctx context.Context, b *session.Batch, st *settling) error {
	ex, err := s.exchanges.ExchangesAtClosing(ctx, st.ref(), st.stored)
	if err != nil || len(ex) == 0 {
		return err
	}
	for _, sm := range sample.Build(sampleSession(st.settlement.Tenant, st.settlement.ID, ex, st.entries)) {
		b.Samples = append(b.Samples, session.StoredSample{Tenant: st.settlement.Tenant, Agent: ex[0].Agent, ID: st.settlement.ID, Sample: sm})
	}
	b.Whole = append(b.Whole, st.ref())
	return nil
}

// writeEach writes the samples of each session in a separate batch, because one value that can never be stored
// would block all sessions of a common batch.
func (s *samples) writeEach(ctx context.Context, work []*settling) (finished []*settling, ok bool) {
	for n, st := range work {
		var b session.Batch
		var err error
		returned := s.tools.guard.On(label.StepSamples, st.ref(), "", func() {
			if err = s.build(ctx, &b, st); err == nil && len(b.Whole) > 0 {
				err = s.backend.Write(ctx, b)
			}
		})
		switch {
		case !returned:
		case errors.Is(err, session.ErrInvalid):
			s.tools.failed(label.StepSamples, err)
			s.tools.guard.SetAside(label.StepSamples, st.ref(), "", err)
		case err != nil:
			s.tools.failed(label.StepSamples, err)
			return append(finished, work[n:]...), false
		default:
			s.written.Add(int64(len(b.Samples)))
			finished = append(finished, st)
		}
	}
	return finished, true
}

// sampleSession returns a session in the form that sample.Build reads.
func sampleSession(tenant string, id session.ID, ex []sample.Exchange, entries []feedback.Entry) sample.Session {
	out := sample.Session{
		Tenant: tenant, Agent: ex[0].Agent, Name: ex[0].SessionName, ID: id.String(), Exchanges: ex, Failing: failing,
	}
	for i := range entries {
		e := &entries[i]
		out.Ratings = append(out.Ratings, sample.Rating{
			At: e.At, Source: e.Source, Type: e.Type, Score: e.Score, Label: e.Label, Comment: e.Comment,
			Correction: e.Correction, Details: e.Details, Turn: e.Turn,
		})
	}
	return out
}

// failing reports whether a tool result is an error.
func failing(tool, args, text string, isError int8) bool {
	return detect.Classify(tool, args, text, isError).Outcome == detect.Error
}
