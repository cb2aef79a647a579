package main

import (
	"context"
	"io"
	"slices"
	"time"

	"precept/sample"
	"precept/session"
)

// exporting is one export. It holds no more than a page of the store, and what it is about to
// write.
type exporting struct {
	*world
	evidence
	filter *sample.Filter
	out    io.Writer
	watch  *progress
	hides  func(tenant, agent string) bool // who has opted out since; nil: a verb writes what is kept
}

func (x *exporting) run(ctx context.Context, f *exportFlags) error {
	st, err := x.Stats(ctx)
	if err != nil {
		return err
	}
	what := "samples"
	if !f.stats && f.format != "mplp" && f.format != "parquet" {
		what = "sessions"
	}
	x.watch = x.newProgress(what, st[what])
	defer x.watch.end()
	if f.stats {
		return x.stats(ctx)
	}
	return x.write(ctx, f)
}

// write writes the selection in one of the formats.
func (x *exporting) write(ctx context.Context, f *exportFlags) error {
	var err error
	if f.format == "parquet" {
		p, err := newParquetExport(x.out)
		if err != nil {
			return err
		}
		if err := x.samples(ctx, p.add); err != nil {
			return err
		}
		return p.end()
	}
	lines := sample.NewExporter(x.out)
	switch f.format {
	case "mplp":
		err = x.samples(ctx, func(s *session.StoredSample) error { return lines.MPLP(&s.Sample) })
	case "experiment":
		err = exportTrials(ctx, x.counted(), lines, x.filter)
	case "preference":
		err = x.sessions(ctx, lines.Preferences)
	default:
		err = x.sessions(ctx, lines.Chat)
	}
	if err != nil {
		return err
	}
	return lines.Flush()
}

func (x *exporting) samples(ctx context.Context, write func(*session.StoredSample) error) error {
	return x.EachSample(ctx, x.filter.Tenant, x.filter.From, x.filter.To, func(s session.StoredSample) error {
		x.watch.add(1)
		if x.hidden(s.Tenant, s.Agent) || !x.filter.Match(s.Tenant, &s.Sample) {
			return nil
		}
		return write(&s)
	})
}

func (x *exporting) hidden(tenant, agent string) bool {
	return x.hides != nil && x.hides(tenant, agent)
}

// sessions hands over the conversations that began in time and, where a family, a quality or a
// lesson is asked for, gave such a sample.
func (x *exporting) sessions(ctx context.Context, write func(*sample.Session) error) error {
	wanted := *x.filter
	wanted.From, wanted.To = time.Time{}, time.Time{}
	all := len(wanted.Families)+len(wanted.Quality) == 0 && wanted.Lesson == ""
	return x.EachSession(ctx, x.filter.Tenant, x.filter.From, x.filter.To, func(r session.Row, _ session.Applied) error {
		x.watch.add(1)
		s, err := transcript(ctx, x, r)
		if err != nil || len(s.Exchanges) == 0 || x.hidden(r.Tenant, s.Agent) {
			return err
		}
		if !all && !slices.ContainsFunc(sample.Build(s), func(m sample.Sample) bool { return wanted.Match(r.Tenant, &m) }) {
			return nil
		}
		return write(&s)
	})
}

// counted is the evidence, with a person watching how far it is walked through.
func (x *exporting) counted() evidence { return countedEvidence{x.evidence, x.watch} }

type countedEvidence struct {
	evidence
	watch *progress
}

// EachSession implements walker.
func (c countedEvidence) EachSession(ctx context.Context, tenant string, since, until time.Time, fn func(session.Row, session.Applied) error) error {
	return c.evidence.EachSession(ctx, tenant, since, until, func(r session.Row, a session.Applied) error {
		c.watch.add(1)
		return fn(r, a)
	})
}

// ratings is the answer of export --stats. The rates are shares of the rated samples, null where
// there are none.
type ratings struct {
	sample.Quality
	Approval   *float64 `json:"approval_rate"`
	Correction *float64 `json:"correction_rate"`
	Rejection  *float64 `json:"rejection_rate"`
	MeanScore  *float64 `json:"mean_score"`
}

func (x *exporting) stats(ctx context.Context) error {
	var r ratings
	if err := x.samples(ctx, func(s *session.StoredSample) error { r.Add(&s.Sample); return nil }); err != nil {
		return err
	}
	if rates := r.Rates(); rates.OK {
		r.Approval, r.Correction, r.Rejection, r.MeanScore = &rates.Approval, &rates.Correction, &rates.Rejection, &rates.MeanScore
	}
	return writeJSON(x.out, r)
}
