package app

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"precept/backtest"
	"precept/configs"
	"precept/lesson"
	"precept/report"
	"precept/sample"
	"precept/session"
)

// How much the dashboard's looks at stored sessions may cost.
const (
	surveyTime     = 2 * time.Second
	surveySessions = 100_000
	surveyDays     = 90
	backtestTime   = 5 * time.Second
	backtestMost   = 2000
)

// library is the dashboard's way to the lessons and to what is stored of sessions.
type library struct {
	*parts
	cfg    *configs.Config
	checks lesson.Checks
}

func newLibrary(p *parts, cfg *configs.Config) *library {
	return &library{parts: p, cfg: cfg, checks: lesson.Checks{Secrets: Secrets}}
}

// Book implements admin.Library.
func (l *library) Book() *lesson.Book { return l.book.Load() }

// Block implements admin.Library.
func (l *library) Block(tenant string, one *lesson.Lesson) string {
	return l.proxy.Presentation().Block(one, l.book.Load().Text(one), l.learner.Beliefs(tenant))
}

// Findings implements admin.Library.
func (l *library) Findings(one *lesson.Lesson) []lesson.Finding {
	c := l.checks
	c.Now = l.Now()
	book := l.book.Load()
	return append(c.Lesson(one, book), c.Notes(one)...)
}

// Log implements admin.Library.
func (l *library) Log(ctx context.Context, n int) ([]lesson.Event, error) {
	b, closeBank, err := l.OpenWriter(l.cfg)
	if err != nil {
		return nil, err
	}
	defer closeBank()
	ctx, cancel := context.WithTimeout(ctx, reachLimit)
	defer cancel()
	return b.Log(ctx, n)
}

// errEnough ends a walk that has seen enough.
var errEnough = errors.New("enough was seen")

// Survey implements admin.Surveyor: days are looked at from the newest on, until there is no time
// or enough sessions.
func (l *library) Survey(ctx context.Context, tenant string) (*report.Survey, error) {
	now := l.Now()
	w, ok := l.backend.(Walker)
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
			if s.Sessions >= surveySessions || l.Now().Sub(now) > surveyTime {
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
func (l *library) Backtest(
	ctx context.Context, tenant string, one *lesson.Lesson,
) (backtest.Result, error) {
	e, ok := l.backend.(interface {
		Walker
		Exchanges(ctx context.Context, tenant string, id session.ID) ([]sample.Exchange, error)
	})
	if !ok {
		return backtest.Result{}, errors.New("nothing is stored")
	}
	run, now := backtest.New([]*lesson.Lesson{one}, l.proxy.Presentation().Tags), l.Now()
	err := newestFirst(now, surveyDays, func(since, until time.Time) error {
		return e.EachSession(ctx, tenant, since, until, func(r session.Row, a session.Applied) error {
			xs, err := e.Exchanges(ctx, r.Tenant, r.ID)
			if err != nil || len(xs) == 0 {
				return err
			}
			slices.SortStableFunc(xs, func(x, y sample.Exchange) int { return cmp.Or(cmp.Compare(x.Turn, y.Turn), x.At.Compare(y.At)) })
			run.Add(&backtest.Session{
				Tenant: r.Tenant, Name: xs[0].SessionName, Exchanges: xs, Told: a.Told,
				Reward: a.Reward,
			})
			if run.Sessions() >= backtestMost || l.Now().Sub(now) > backtestTime {
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
