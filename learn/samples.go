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

type sampleBuilder struct {
	tools        tools
	backend      sampleWriter
	exchanges    Exchanges
	isEnabled    bool
	parallel     int // sessions read at the same time
	writtenCount *atomic.Int64
}

// write builds and writes the samples for sessions. ok is false if a read or write failed. finished omits sessions that
// the guard set aside after a panic or an invalid sample.
func (s *sampleBuilder) write(ctx context.Context, work []*pendingSettlement) (finished []*pendingSettlement, ok bool) {
	if !s.isEnabled {
		return work, true
	}
	var b session.Batch
	finished = work[:0:0]
	builds := make([]struct {
		batch    session.Batch
		returned bool
		err      error
	}, len(work))
	inParallel(len(work), s.parallel, func(i int) {
		one := &builds[i]
		one.returned = s.tools.guard.RunOn(label.StepSamples, work[i].ref(), "", func() { one.err = s.build(ctx, &one.batch, work[i]) })
	})
	for i := range builds {
		if err := builds[i].err; err != nil {
			s.tools.reportFailure(label.StepSamples, err)
			return append(finished, work[i:]...), false
		}
		if builds[i].returned {
			finished = append(finished, work[i])
		}
		b.Samples = append(b.Samples, builds[i].batch.Samples...)
		b.ReplacedSamples = append(b.ReplacedSamples, builds[i].batch.ReplacedSamples...)
	}
	if len(b.ReplacedSamples) == 0 {
		return finished, true
	}
	err := s.tools.guard.RunErr(label.StepSamples, func() error { return s.backend.Write(ctx, b) })
	if guard.IsPermanent(err) {
		return s.writeEach(ctx, finished)
	}
	if err != nil {
		s.tools.reportFailure(label.StepSamples, err)
		return finished, false
	}
	s.writtenCount.Add(int64(len(b.Samples)))
	return finished, true
}

func (s *sampleBuilder) build(ctx context.Context, b *session.Batch, st *pendingSettlement) error {
	exchanges, err := s.exchanges.ExchangesAtClose(ctx, st.ref(), st.storedExchanges)
	if err != nil || len(exchanges) == 0 {
		return err
	}
	if st.isImport {
		exchanges = withoutUnfinished(exchanges)
	}
	for _, sm := range sample.Build(sampleSession(st.settlement.Tenant, st.settlement.ID, exchanges, st.entries)) {
		b.Samples = append(b.Samples, session.StoredSample{Tenant: st.settlement.Tenant, Agent: exchanges[0].Agent, ID: st.settlement.ID, Sample: sm})
	}
	b.ReplacedSamples = append(b.ReplacedSamples, st.ref())
	return nil
}

// writeEach writes each session in a separate batch, so a rejected value blocks only one session.
func (s *sampleBuilder) writeEach(ctx context.Context, work []*pendingSettlement) (finished []*pendingSettlement, ok bool) {
	for n, st := range work {
		var b session.Batch
		var err error
		returned := s.tools.guard.RunOn(label.StepSamples, st.ref(), "", func() {
			if err = s.build(ctx, &b, st); err == nil && len(b.ReplacedSamples) > 0 {
				err = s.backend.Write(ctx, b)
			}
		})
		switch {
		case !returned:
		case errors.Is(err, session.ErrInvalid):
			s.tools.reportFailure(label.StepSamples, err)
			s.tools.guard.SetAside(label.StepSamples, st.ref(), "", err)
		case err != nil:
			s.tools.reportFailure(label.StepSamples, err)
			return append(finished, work[n:]...), false
		default:
			s.writtenCount.Add(int64(len(b.Samples)))
			finished = append(finished, st)
		}
	}
	return finished, true
}

func sampleSession(tenant string, id session.ID, exchanges []sample.Exchange, entries []feedback.Entry) sample.Session {
	out := sample.Session{
		Tenant: tenant, Agent: exchanges[0].Agent, Name: exchanges[0].SessionName, ID: id.String(), Exchanges: exchanges, IsFailure: isFailure,
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

func isFailure(tool, args, text string, isError int8) bool {
	return detect.Classify(tool, args, text, isError).Outcome == detect.Error
}
