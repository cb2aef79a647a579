package admin

import (
	"context"
	"time"

	"github.com/labstack/echo/v4"

	"precept/bandit/report"
)

// Workers returns the workers for the shared caches. Each runs until the context ends. Without workers, each page
// computes all values itself.
func (s *Server) Workers() []func(context.Context) error {
	return []func(context.Context) error{
		func(ctx context.Context) error { return s.reports.run(ctx, reportKey{Tenant: "default"}) },
		func(ctx context.Context) error { return s.surveys.run(ctx, "default") },
		func(ctx context.Context) error { return s.scans.run(ctx, "default") },
		func(ctx context.Context) error { return s.recentSessions.run(ctx, recentKey{Tenant: "default"}) },
	}
}

// makeCaches sets the shared caches. A value that took t to compute is served for 10 t (report), 20 t (sessions) or 100
// t (survey, scan), up to a maximum, so computations take a small part of a core.
func (s *Server) makeCaches() {
	s.reports = newSharedCache(s.options.Now,
		func(ctx context.Context, k reportKey) (report.Report, error) {
			q := ReportQuery{Tenant: k.Tenant, Window: k.Window, Provisional: k.Provisional, Bands: true}
			r, err := s.options.Read.Report.Report(ctx, q)
			if err == nil && k.countsAllClosed() {
				s.history.addReport(k.Tenant, &r, s.options.Now())
			}
			return r, err
		},
		func(took time.Duration) time.Duration { return min(10*took, time.Minute) },
		func(took time.Duration) time.Duration { return max(100*took, 10*time.Second) })
	s.surveys = newSharedCache(s.options.Now, s.options.Read.Survey.Survey,
		func(took time.Duration) time.Duration { return min(100*took, 5*time.Minute) },
		func(time.Duration) time.Duration { return 0 })
	s.scans = newSharedCache(s.options.Now, s.options.Read.Rules.ScanRules,
		func(took time.Duration) time.Duration { return min(100*took, 5*time.Minute) },
		func(time.Duration) time.Duration { return 0 })
	s.recentSessions = newSharedCache(s.options.Now, s.readRecent,
		func(took time.Duration) time.Duration { return min(20*took, time.Minute) },
		func(time.Duration) time.Duration { return 0 })
	s.recentSessions.removeAfter = 5 * time.Minute
}

// pageReport is a report that pages share and only read.
type pageReport struct {
	report     report.Report
	key        reportKey
	asOf       countedAt
	problem    string                      // why the report is missing
	sinceStart func(arm string) []effectAt // an arm's effects computed since the server's start
}

func (s *Server) readReport(c echo.Context) (pageReport, error) {
	q, err := reportQuery(c)
	if err != nil {
		return pageReport{}, err
	}
	x := pageReport{key: reportKey{q.Tenant, q.Window, q.Provisional}}
	x.sinceStart = func(arm string) []effectAt {
		if !x.key.countsAllClosed() {
			return nil
		}
		return s.history.effects(historyKey{q.Tenant, arm})
	}
	r, old, err := s.reports.get(c.Request().Context(), x.key, 0)
	if err != nil {
		s.log(c).Error("the report for a page cannot be read", "tenant", q.Tenant, "error", err)
		x.problem = "The report cannot be read; the log has the reason. Requests are not affected."
		return x, nil
	}
	x.report, x.asOf = r, countedAt{r.GeneratedAt, old}
	return x, nil
}
