package server

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"precept/admin"
	"precept/bandit/report"
	"precept/inject/backtest"
	"precept/inject/bank"
	"precept/inject/lesson"
	"precept/internal/sample"
	"precept/internal/session"
)

// How much the dashboard's looks at stored sessions may cost.
const (
	surveyTime     = 2 * time.Second
	surveySessions = 100_000
	surveyDays     = 90
	backtestTime   = 5 * time.Second
	backtestMost   = 2000
)

// Book implements admin.Library.
func (p *parts) Book() *lesson.Book { return p.book.Load() }

// Block implements admin.Library.
func (p *parts) Block(tenant string, one *lesson.Lesson) string {
	return p.proxy.Presentation().Block(one, p.book.Load().Text(one), p.learner.Beliefs(tenant))
}

// Findings implements admin.Library.
func (p *parts) Findings(one *lesson.Lesson) []lesson.Finding {
	c, book := lesson.Checks{Secrets: Secrets, Now: p.Now()}, p.book.Load()
	return append(c.Lesson(one, book), c.Notes(one)...)
}

// Log implements admin.Library.
func (p *parts) Log(ctx context.Context, n int) ([]lesson.Event, error) {
	ctx, cancel := context.WithTimeout(ctx, reachLimit)
	defer cancel()
	return p.writer.Log(ctx, n)
}

// errEnough ends a walk that has seen enough.
var errEnough = errors.New("enough was seen")

// Survey implements admin.Surveyor: days are looked at from the newest on, until there is no time
// or enough sessions.
func (p *parts) Survey(ctx context.Context, tenant string) (*report.Survey, error) {
	now := p.Now()
	w, ok := p.backend.(Walker)
	if !ok {
		return nil, errors.New("nothing is stored")
	}
	s := report.NewSurvey(now)
	s.Whole = true
	err := newestFirst(now, surveyDays, func(since, until time.Time) error {
		s.Since = since
		return w.EachSession(ctx, tenant, since, until, func(r session.Row, a session.Applied) error {
			if !a.Told || a.Version == 0 {
				return nil
			}
			as, err := assignmentOf(r, a)
			if err != nil {
				return err
			}
			s.Add(as, a.Reward)
			s.Saw(as, r.ID.String(), r.Started)
			if s.Sessions >= surveySessions || p.Now().Sub(now) > surveyTime {
				return errEnough
			}
			return nil
		})
	})
	if errors.Is(err, errEnough) {
		s.Whole, err = false, nil
	}
	if err != nil {
		return nil, err
	}
	return s, nil
}

// newestFirst goes back through time: a day, then twice as long each time, up to so many days.
func newestFirst(now time.Time, days int, look func(since, until time.Time) error) error {
	const day = 24 * time.Hour
	until, oldest := now.Add(time.Minute), now.Add(-time.Duration(days)*day)
	for length := day; until.After(oldest); length *= 2 {
		since := until.Add(-length)
		if since.Before(oldest) {
			since = oldest
		}
		if err := look(since, until); err != nil {
			return err
		}
		until = since
	}
	return nil
}

// Backtest implements admin.Surveyor.
func (p *parts) Backtest(
	ctx context.Context, tenant string, one *lesson.Lesson,
) (backtest.Result, error) {
	e, ok := p.backend.(Evidence)
	if !ok {
		return backtest.Result{}, errors.New("nothing is stored")
	}
	run, now := backtest.New([]*lesson.Lesson{one}, p.proxy.Presentation().Tags), p.Now()
	err := newestFirst(now, surveyDays, func(since, until time.Time) error {
		return e.EachSession(ctx, tenant, since, until, func(r session.Row, a session.Applied) error {
			s, err := Captured(ctx, e, r, a)
			if err != nil || s == nil {
				return err
			}
			run.Add(s)
			if run.Sessions() >= backtestMost || p.Now().Sub(now) > backtestTime {
				return errEnough
			}
			return nil
		})
	})
	if err != nil && !errors.Is(err, errEnough) {
		return backtest.Result{}, err
	}
	return run.Results()[0], nil
}

// Captured is a session as a backtest wants it; nil of one of which no exchange is kept.
func Captured(ctx context.Context, e Evidence, r session.Row, a session.Applied) (*backtest.Session, error) {
	xs, err := e.Exchanges(ctx, r.Tenant, r.ID)
	if err != nil || len(xs) == 0 {
		return nil, err
	}
	slices.SortStableFunc(xs, func(x, y sample.Exchange) int { return cmp.Or(cmp.Compare(x.Turn, y.Turn), x.At.Compare(y.At)) })
	return &backtest.Session{
		Tenant: r.Tenant, Name: xs[0].SessionName, Exchanges: xs, Told: a.Told, Reward: a.Reward,
	}, nil
}

// Act implements admin.Keeper.
func (p *parts) Act(
	ctx context.Context, slug string, seen lesson.Sight, a lesson.Action, plan lesson.TrialPlan,
	by string,
) (*lesson.Lesson, error) {
	if strings.ContainsAny(slug, "/\\") {
		return nil, admin.ErrNoLesson
	}
	ctx, cancel := context.WithTimeout(ctx, BankLimit)
	defer cancel()
	r, err := p.writer.Act(ctx, slug, bank.Decision{Action: a, Plan: plan, By: by, Seen: seen})
	if errors.Is(err, bank.ErrNoLesson) {
		err = admin.ErrNoLesson
	}
	return r.Lesson, err
}
