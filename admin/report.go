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

// readReport makes the report for a page; without one it says why, in a sentence for the page.
func (s *Server) readReport(c echo.Context, q Query) (r report.Report, problem string) {
	if s.options.Report == nil {
		return r, "There is no report yet."
	}
	r, err := s.options.Report.Report(c.Request().Context(), q)
	if err != nil {
		if s.options.Log != nil {
			s.log(c).Error("report failed", "tenant", q.Tenant, "error", err)
		}
		return r, "The report cannot be read right now; the log says why. Requests are not affected."
	}
	return r, ""
}

// query reads tenant, window, provisional, what_if and explain.
func query(c echo.Context) (Query, error) {
	q := Query{Tenant: c.QueryParam("tenant")}
	if q.Tenant == "" {
		q.Tenant = "default"
	}
	if len(q.Tenant) > 256 {
		return q, echo.NewHTTPError(http.StatusBadRequest, "tenant is longer than 256 bytes")
	}
	window, err := ParseWindow(c.QueryParam("window"))
	if err != nil {
		return q, echo.NewHTTPError(http.StatusBadRequest, "window: "+err.Error())
	}
	q.Window = window
	if q.Explain = c.QueryParam("explain"); len(q.Explain) > 256 {
		return q, echo.NewHTTPError(http.StatusBadRequest, "explain is longer than 256 bytes")
	}
	if text := c.QueryParam("provisional"); text != "" {
		if q.Provisional, err = strconv.ParseBool(text); err != nil {
			return q, echo.NewHTTPError(http.StatusBadRequest, "provisional is true or false")
		}
	}
	if text := c.QueryParam("what_if"); text != "" {
		if q.WhatIf, err = strconv.ParseFloat(text, 64); err != nil || !(q.WhatIf > 0 && q.WhatIf < 1) {
			return q, echo.NewHTTPError(http.StatusBadRequest, "what_if is an epsilon between 0 and 1")
		}
	}
	return q, nil
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
