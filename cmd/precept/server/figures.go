package server

import (
	"context"
	"strconv"

	"precept/admin"
	"precept/bandit/report"
	"precept/distill"
	"precept/internal/label"
	"precept/learn"
)

// Report implements admin.Reporter.
func (p *parts) Report(ctx context.Context, q admin.Query) (report.Report, error) {
	r, err := p.learner.Report(ctx, learn.ReportQuery{
		Tenant: q.Tenant, Window: q.Window, Provisional: q.Provisional, WhatIf: q.WhatIf,
		Explain: q.Explain, Bands: q.Bands, Book: p.book.Load(), Config: p.proxy.Experiment(),
		Inject: p.proxy.Presentation(),
	})
	if err != nil {
		return r, err
	}
	if err := Annotate(ctx, &r, p.backend, q.Tenant); err != nil { // what was measured is told without them
		p.failed(label.StepOpinions, err)
	}
	return r, nil
}

// figures is the health of the parts, for the dashboard.
func (p *parts) figures() []admin.Figure {
	t := &p.store.Tally
	out := append(p.lessonFigures(), []admin.Figure{
		{Name: "Sessions in memory", Value: strconv.Itoa(p.store.Sessions())},
		{Name: "Exchanges stored since start", Value: strconv.FormatInt(t.Exchanges.Load(), 10)},
		{Name: "Exchanges waiting", Value: strconv.FormatInt(t.Pending.Load(), 10)},
		{Name: "Sessions closed since start", Value: strconv.FormatInt(
			p.learner.Tally.Closed.Load(), 10,
		)},
	}...)
	if p.notice != "" {
		out = append(out, admin.Figure{Name: "Store", Value: "none: " + p.notice, Bad: true})
	} else if !p.store.Healthy() {
		out = append(out, admin.Figure{
			Name: "Store", Value: "the last write failed and is being repeated", Bad: true,
		})
	}
	return out
}

func (p *parts) lessonFigures() []admin.Figure {
	return []admin.Figure{
		{Name: "Lessons in force", Value: strconv.Itoa(inForce(p.book.Load(), p.Now()))},
		{
			Name: "Lesson files with faults", Value: strconv.FormatInt(p.problems.Load(), 10),
			Bad: p.problems.Load() > 0,
		},
	}
}

// Annotate puts the judges' opinions of a tenant's lessons beside the rows of a finished report,
// where the store keeps any.
func Annotate(ctx context.Context, r *report.Report, from any, tenant string) error {
	notes, ok := from.(distill.NoteReader)
	if !ok {
		return nil
	}
	opinions, err := distill.ReadOpinions(ctx, notes, tenant)
	if err != nil {
		return err
	}
	r.Annotate(opinions)
	return nil
}
