package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"

	"precept/bandit/report"
	"precept/distill"
	"precept/inject/bank"
	"precept/inject/lesson"
	"precept/internal/redact"
	"precept/learn"
	"precept/proxy"
)

// trialGate ends the planned trials (a fixed number of sessions with a proposed lesson) that distill.gate: auto has
// started without a person's approval.
type trialGate struct {
	log     *slog.Logger
	lessons *library
	learner *learn.Learner
	proxy   *proxy.Proxy
}

// endTrials ends the planned trials that the automatic gate has started. The evaluation at the end of a trial decides:
// a lesson that is proven to help is approved. A lesson that is proven to harm stays, because the chooser rarely
// selects it, and so does a lesson whose measurement is invalid. Any other lesson is retired.
//
// If a running trial already shows harm, it ends early, and the lesson is retired.
func (g *trialGate) endTrials(ctx context.Context, d *Distiller) (errs error) {
	defer func() {
		if v := recover(); v != nil {
			errs = fmt.Errorf("panic: %s", redact.SafePanicText(v))
		}
	}()
	book := g.lessons.book.Load()
	reports := map[string]report.Report{}
	for _, l := range book.Lessons() {
		if l.State != lesson.Trial || l.Approval.By != distill.AutoGate || l.Plan.Picks == 0 {
			continue
		}
		tenant := cmp.Or(l.Scope.Tenant, "default")
		rep, ok := reports[tenant]
		if !ok {
			var err error
			if rep, err = g.learner.Report(ctx, learn.ReportQuery{Tenant: tenant, Book: book, Config: g.proxy.ChooserConfig(), Inject: g.proxy.InjectionConfig()}); err != nil {
				return fmt.Errorf("read the report for the tenant %s: %w", tenant, err)
			}
			reports[tenant] = rep
		}
		for i := range rep.Lessons {
			if r := &rep.Lessons[i]; r.Slug == l.Slug && (r.Trial == "ended" || r.Trial == "running" && isHarmful(r.Verdict)) {
				errs = errors.Join(errs, g.endTrial(ctx, d, l.Slug, r.Verdict))
			}
		}
	}
	return errs
}

func isHarmful(v report.Verdict) bool { return v == report.Harms || v == report.ProvenHarms }

func (g *trialGate) endTrial(ctx context.Context, d *Distiller, slug string, v report.Verdict) error {
	a := lesson.Retire
	switch v {
	case report.TrialHelps, report.ProvenHelps, report.Helps:
		a = lesson.Approve
	case report.TrialHarms, report.Invalid:
		return nil
	default: // no proof, or the interval shows harm
	}
	_, err := d.Options.Bank.Act(ctx, slug, bank.Decision{Action: a, By: distill.AutoGate})
	if errors.Is(err, bank.ErrNoLesson) {
		return nil // a person has removed the lesson
	}
	if err == nil {
		g.log.Info("a trial has ended", "lesson", slug, "verdict", string(v), "action", string(a))
	}
	return err
}
