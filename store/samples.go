package store

import (
	"context"

	"precept/detect"
	"precept/feedback"
	"precept/sample"
	"precept/session"
)

// writeSamples builds the samples of sessions that close or got another rating.
func (s *Store) writeSamples(ctx context.Context, work []*settling) bool {
	if !s.opts.Learn {
		return true
	}
	var b session.Batch
	for _, st := range work {
		ex, err := s.be.Exchanges(ctx, st.Tenant, st.ID)
		if err != nil {
			s.opts.Failed("samples", err)
			return false
		}
		if len(ex) == 0 {
			continue
		}
		for _, sm := range sample.Build(closed(st.Tenant, st.ID, ex, st.entries)) {
			b.Samples = append(b.Samples, session.StoredSample{Tenant: st.Tenant, Agent: ex[0].Agent, ID: st.ID, Sample: sm})
		}
	}
	if len(b.Samples) == 0 {
		return true
	}
	if err := s.be.Write(ctx, b); err != nil {
		s.opts.Failed("samples", err)
		return false
	}
	s.Tally.Samples.Add(int64(len(b.Samples)))
	return true
}

// closed is a session as the builder of samples wants it.
func closed(tenant string, id session.ID, ex []sample.Exchange, entries []feedback.Entry) sample.Session {
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

// failing says whether a tool result is an error.
func failing(tool, args, text string, isError int8) bool {
	return detect.Classify(tool, args, text, isError).Outcome == detect.Error
}
