package admin

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"precept/report"
)

// Reporter makes the report of one tenant.
type Reporter interface {
	Report(ctx context.Context, q Query) (report.Report, error)
}

// report answers GET /api/report.
func (s *Server) report(c echo.Context) error {
	q, err := query(c)
	if err != nil {
		return err
	}
	if s.options.Report == nil {
		return echo.NewHTTPError(http.StatusServiceUnavailable, "there is no report yet")
	}
	r, err := s.options.Report.Report(c.Request().Context(), q)
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, r)
}

// reportKey names the reports that pages are made of.
type reportKey struct {
	Tenant      string
	Window      time.Duration
	Provisional bool
}

// Owners are the goroutines that make what pages show: each runs until its context ends. Without
// them a page makes its own.
func (s *Server) Owners() []func(context.Context) error {
	return []func(context.Context) error{
		func(ctx context.Context) error {
			if s.options.Report == nil {
				return nil
			}
			return s.reports.run(ctx, reportKey{Tenant: "default"})
		},
		func(ctx context.Context) error { return s.surveys.run(ctx, "default") },
	}
}

// keep sets up what pages show and what does not follow each request. A report is made at most a
// tenth of the time, so that a small one is never old; the first page of the morning finds one of
// the last minute. A survey walks the store, and takes at most a hundredth of the time.
func (s *Server) keep() {
	s.reports = newStock(s.options.Now,
		func(ctx context.Context, k reportKey) (report.Report, error) {
			q := Query{Tenant: k.Tenant, Window: k.Window, Provisional: k.Provisional, Bands: true}
			r, err := s.options.Report.Report(ctx, q)
			if err == nil && k.Window == 0 && !k.Provisional {
				s.history.note(k.Tenant, &r, s.options.Now())
			}
			return r, err
		},
		func(took time.Duration) time.Duration { return min(10*took, time.Minute) },
		func(took time.Duration) time.Duration { return max(100*took, 10*time.Second) })
	s.surveys = newStock(s.options.Now,
		func(ctx context.Context, tenant string) (*report.Survey, error) {
			return s.options.Survey.Survey(ctx, tenant)
		},
		func(took time.Duration) time.Duration { return min(100*took, 5*time.Minute) },
		func(time.Duration) time.Duration { return 0 })
}

// counted says when a page's figures were counted.
type counted struct {
	At  time.Time
	Old bool // newer ones are being counted
}

// readReport is the report for a page; without one it says why, in a sentence for the page. Pages
// share it: it is only read.
func (s *Server) readReport(c echo.Context, q Query) (r report.Report, of counted, problem string) {
	if s.options.Report == nil {
		return r, of, "There is no report yet."
	}
	r, old, err := s.reports.get(c.Request().Context(), reportKey{q.Tenant, q.Window, q.Provisional}, 0)
	if err != nil {
		s.log(c).Error("report failed", "tenant", q.Tenant, "error", err)
		return report.Report{}, of, "The report cannot be read right now; the log says why. Requests are not affected."
	}
	return r, counted{r.GeneratedAt, old}, ""
}

// query reads tenant, window, provisional, what_if and explain.
func query(c echo.Context) (Query, error) {
	p := params{c: c}
	q := Query{
		Tenant: p.tenant(), Provisional: p.yes("provisional"), Explain: p.text("explain"),
	}
	var err error
	if q.Window, err = ParseWindow(c.QueryParam("window")); err != nil {
		p.fault("window", err.Error())
	}
	if text := c.QueryParam("what_if"); text != "" {
		if q.WhatIf, err = strconv.ParseFloat(text, 64); err != nil || !(q.WhatIf > 0 && q.WhatIf < 1) {
			p.fault("what_if", "it is an epsilon between 0 and 1")
		}
	}
	return q, p.err
}

// ParseWindow reads the window of a report: 24h or 30d; nothing (and all) is all that there is, 0.
func ParseWindow(text string) (time.Duration, error) {
	bad := fmt.Errorf("%.40q is no time: write one such as 24h or 30d", text)
	if text == "" || text == "all" {
		return 0, nil
	}
	if days, ok := strings.CutSuffix(text, "d"); ok {
		n, err := strconv.ParseUint(days, 10, 16)
		if err != nil {
			return 0, bad
		}
		return time.Duration(n) * 24 * time.Hour, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return 0, bad
	}
	return d, nil
}
