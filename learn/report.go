package learn

import (
	"cmp"
	"context"
	"time"

	"precept/bandit"
	"precept/bandit/feedback"
	"precept/bandit/report"
	"precept/bandit/trial"
	"precept/inject"
	"precept/inject/lesson"
	"precept/internal/label"
	"precept/internal/session"
)

// ReportQuery says which report is asked for.
type ReportQuery struct {
	Tenant      string
	Window      time.Duration // 0: all
	Provisional bool          // count sessions that are not closed yet
	WhatIf      float64       // an epsilon to project for; 0: none
	Bands       bool          // with the effect over time
	Explain     string        // a slug whose rows are to say how they came about; "" none
	Book        *lesson.Book
	Config      bandit.Config
	Inject      inject.Config // how lessons are presented
}

// openLimit bounds the open sessions of a provisional report.
const openLimit = 100_000

// Report makes the report of a tenant out of the counters in memory; where other replicas settle
// sessions, too, of what all of them have counted by now.
func (l *Learner) Report(ctx context.Context, q ReportQuery) (report.Report, error) {
	if err := l.follower.refresh(ctx); err != nil { // what was read last has to do
		l.failed(label.StepFollow, err)
	}
	if err := l.beliefs.load(ctx, q.Tenant); err != nil {
		l.failed(label.StepLoad, err)
	}
	c := l.beliefs.of(q.Tenant)
	if q.Provisional {
		var err error
		if c, err = l.withOpen(ctx, q.Tenant, c); err != nil {
			return report.Report{}, err
		}
	}
	return report.Build(report.Input{
		Now: l.now(), Tenant: q.Tenant, RewardDefinition: l.reward, Elsewhere: counted(l.beliefs.elsewhere(q.Tenant)), Counters: c.Measured(), Chooser: Chooser(c, q.Config), Policy: Policy(q.Config),
		Lessons: lessonsOf(&q, c, l.now()), Window: q.Window, Provisional: q.Provisional, WhatIf: q.WhatIf, Bands: q.Bands, Explain: q.Explain,
	}), nil
}

// withOpen adds what open sessions would contribute today to a copy of the counters.
func (l *Learner) withOpen(ctx context.Context, tenant string, c *bandit.Chooser) (*bandit.Chooser, error) {
	c = c.Clone()
	var after session.Row
	for seen := 0; seen < openLimit; {
		rows, err := l.open.be.Due(ctx, l.now(), after, closeBatch)
		if err != nil {
			return nil, err
		}
		for i := range rows {
			if rows[i].Tenant == tenant {
				c.Add(l.wouldAdd(ctx, &rows[i]))
			}
		}
		seen += len(rows)
		if len(rows) < closeBatch {
			break
		}
		after = rows[len(rows)-1]
	}
	return c, nil
}

// wouldAdd is what closing the session now would add to the counters.
func (l *Learner) wouldAdd(ctx context.Context, row *session.Row) []trial.Delta {
	rec, err := session.Decode(row.ID, row.Data)
	if err != nil {
		return nil
	}
	if rec.Unit.ID != "" { // its unit counts
		return nil
	}
	entries, err := l.open.be.Feedback(ctx, row.Tenant, row.ID)
	if err != nil {
		return nil
	}
	out := feedback.Reward(inTime(entries, row.Started, l.open.reward.CloseAfter), l.open.reward.Tiers)
	return atClosing(rec, out)
}

// lessonsOf are the lessons of a book as the report knows them.
func lessonsOf(q *ReportQuery, c *bandit.Chooser, now time.Time) []report.Lesson {
	book := q.Book
	if book == nil {
		return nil
	}
	var out []report.Lesson
	for _, l := range book.Lessons() {
		shown := q.Inject.Present(l, book.Text(l), c)
		r := report.Lesson{
			Slug: l.Slug, Arm: shown.Arm, Caution: shown.Caution, Tokens: shown.Tokens, ContentHash: l.ContentHash, State: string(l.State),
			Outcome: l.Outcome, Confidence: l.Confidence,
			Expired: !l.ExpiresAt.IsZero() && !now.Before(l.ExpiresAt), Superseded: len(book.Heirs(l.Slug, now)) > 0,
		}
		if l.State == lesson.Trial {
			r.Epsilon, r.Until, r.Trial = cmp.Or(l.Plan.Epsilon, trial.Epsilon), l.Plan.Until, trial.Name(l.Plan.Started, l.Plan.Picks)
		}
		for _, old := range l.Supersedes {
			if parent, ok := book.Get(old); ok {
				r.Parent = q.Inject.Present(parent, book.Text(parent), c).Arm
				break
			}
		}
		out = append(out, r)
	}
	return out
}
