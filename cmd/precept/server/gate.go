package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"precept/bandit/report"
	"precept/distill"
	"precept/inject/bank"
	"precept/inject/lesson"
	"precept/internal/redact"
	"precept/learn"
)

// endTrials does what follows from the planned trials that the automatic gate has started: what is
// proven to help stays; that of which the look proves nothing is retired, with its numbers kept;
// what the look finds to harm is the chooser's to bench. What harms by the interval that holds at
// all times is retired at once, before the look: nobody need meet the rest of the plan.
// Trials that a person started are theirs.
func (p *parts) endTrials(ctx context.Context, d *Distiller) (all error) {
	defer func() {
		if v := recover(); v != nil {
			all = fmt.Errorf("panic: %s", redact.PanicKind(v))
		}
	}()
	book := p.book.Load()
	reports := map[string]report.Report{}
	for _, l := range book.Lessons() {
		if l.State != lesson.Trial || l.Approval.By != distill.AutoGate || l.Plan.Picks == 0 {
			continue
		}
		tenant := cmp.Or(l.Scope.Tenant, "default")
		rep, ok := reports[tenant]
		if !ok {
			var err error
			if rep, err = p.learner.Report(ctx, learn.ReportQuery{Tenant: tenant, Book: book, Config: p.proxy.Experiment(), Inject: p.proxy.Presentation()}); err != nil {
				return fmt.Errorf("the report of %s: %w", tenant, err)
			}
			reports[tenant] = rep
		}
		for i := range rep.Lessons {
			if r := &rep.Lessons[i]; r.Slug == l.Slug && (r.Trial == "ended" || r.Trial == "running" && harms(r.Verdict)) {
				all = errors.Join(all, p.endTrial(ctx, d, l.Slug, r.Verdict))
			}
		}
	}
	return all
}

func harms(v report.Verdict) bool { return v == report.Harms || v == report.ProvenHarms }

// endTrial acts on one verdict.
func (p *parts) endTrial(ctx context.Context, d *Distiller, slug string, v report.Verdict) error {
	a := lesson.Retire
	switch v {
	case report.TrialHelps, report.ProvenHelps, report.Helps:
		a = lesson.Approve
	case report.TrialHarms, report.Invalid:
		return nil
	default: // its look found nothing, whatever the chooser expects, or it harms
	}
	_, err := d.Options.Bank.Act(ctx, slug, bank.Decision{Action: a, By: distill.AutoGate})
	if errors.Is(err, bank.ErrNoLesson) {
		return nil // a person was faster
	}
	if err == nil {
		p.log.Info("a trial has ended", "lesson", slug, "verdict", string(v), "action", string(a))
	}
	return err
}
