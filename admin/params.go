package admin

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"
)

// params reads a query; err is the first error in it.
type params struct {
	c   echo.Context
	err error
}

// setError sets err unless it is set.
func (p *params) setError(name, text string) {
	if p.err == nil {
		p.err = echo.NewHTTPError(http.StatusBadRequest, name+": "+text)
	}
}

// readParam returns a parsed parameter, or zero if it is missing or invalid. problem is the error message.
func readParam[T any](p *params, name, problem string, parse func(string) (T, bool)) (value T) {
	text := p.c.QueryParam(name)
	if text == "" {
		return value
	}
	parsed, ok := parse(text)
	if !ok {
		p.setError(name, problem)
		return value
	}
	return parsed
}

func (p *params) text(name string) string {
	return readParam(p, name, "longer than 256 bytes", func(t string) (string, bool) { return t, len(t) <= 256 })
}

func (p *params) tenant() string { return cmp.Or(p.text("tenant"), "default") }

// queryTenant returns the tenant in the query. Unlike params.tenant, queryTenant does not check the name's length.
func queryTenant(c echo.Context) string { return cmp.Or(c.QueryParam("tenant"), "default") }

func (p *params) number(name string) int {
	return readParam(p, name, "not 0 or a positive whole number", func(t string) (int, bool) {
		n, err := strconv.Atoi(t)
		return n, err == nil && n >= 0
	})
}

func (p *params) share(name string) *float64 {
	return readParam(p, name, "not a number from 0 to 1", func(t string) (*float64, bool) {
		x, err := strconv.ParseFloat(t, 64)
		return &x, err == nil && x >= 0 && x <= 1
	})
}

func (p *params) boolean(name string) bool {
	return readParam(p, name, "neither true nor false", func(t string) (bool, bool) {
		b, err := strconv.ParseBool(t)
		return b, err == nil
	})
}

func (p *params) time(name string) time.Time { return p.timeIn(name, time.UTC) }

// timeIn reads an RFC 3339 time, or a time in zone: a day, or a day with hour and minute as browsers send it.
func (p *params) timeIn(name string, zone *time.Location) time.Time {
	return readParam(p, name, "not a time such as 2026-01-31 or 2026-01-31T12:00:00Z", func(t string) (time.Time, bool) {
		for _, layout := range []string{time.DateOnly, "2006-01-02T15:04", time.RFC3339} {
			if at, err := time.ParseInLocation(layout, t, zone); err == nil {
				return at, true
			}
		}
		return time.Time{}, false
	})
}

// oneOf returns one of words, or "" if missing.
func (p *params) oneOf(name string, words []string) string {
	return readParam(p, name, "not one of "+alternatives(words), func(t string) (string, bool) { return t, slices.Contains(words, t) })
}

// values returns the values given in a repeated or comma-separated parameter. Each value must be in words.
func (p *params) values(name string, words []string) (out []string) {
	for _, t := range p.c.QueryParams()[name] {
		for w := range strings.SplitSeq(t, ",") {
			if w = strings.TrimSpace(w); w == "" {
				continue
			}
			if !slices.Contains(words, w) {
				p.setError(name, "not one of "+alternatives(words))
				return nil
			}
			out = append(out, w)
		}
	}
	return out
}

// alternatives joins words as "a, b or c".
func alternatives(words []string) string {
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// reportQuery reads tenant, window, provisional, what_if and explain.
func reportQuery(c echo.Context) (ReportQuery, error) {
	p := params{c: c}
	q := ReportQuery{
		Tenant: p.tenant(), Provisional: p.boolean("provisional"), Explain: p.text("explain"),
		WhatIf: readParam(&p, "what_if", "not a number between 0 and 1", func(t string) (float64, bool) {
			x, err := strconv.ParseFloat(t, 64)
			return x, err == nil && x > 0 && x < 1
		}),
	}
	var err error
	if q.Window, err = ParseWindow(c.QueryParam("window")); err != nil {
		p.setError("window", err.Error())
	}
	return q, p.err
}

// ParseWindow parses a window such as 24h or 30d. ParseWindow returns 0 (no limit) for "" and "all".
func ParseWindow(text string) (time.Duration, error) {
	bad := fmt.Errorf("%.40q is not a duration: write for example 24h or 30d", text)
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

// param returns a route parameter, unescaped. echo leaves the parameter escaped if the path has an escaped slash.
func param(c echo.Context, name string) string {
	raw := c.Param(name)
	if c.Request().URL.RawPath == "" {
		return raw
	}
	plain, err := url.PathUnescape(raw)
	if err != nil {
		return raw
	}
	return plain
}

// nameParam returns the session or run name (see PathName).
func nameParam(c echo.Context, name string) string {
	sent := param(c, name)
	if sent == "-" {
		return cmp.Or(c.QueryParam(nameKey), sent)
	}
	return sent
}

func isRead(r *http.Request) bool { return r.Method == http.MethodGet || r.Method == http.MethodHead }

func wantsHTML(r *http.Request) bool { return strings.Contains(r.Header.Get("Accept"), "text/html") }
