package admin

import (
	"bytes"
	"embed"
	"fmt"
	"html/template"
	"net/http"
	"strings"

	"github.com/labstack/echo/v4"
)

//go:embed pages/*.html static/*
var files embed.FS

// pages parses the templates; at every use, which costs less than a millisecond and spares a package variable.
func pages() (*template.Template, error) {
	return template.ParseFS(files, "pages/*.html")
}

// render answers a page: rendered whole before the first byte goes out, so that a fault never gives half a page.
func (s *Server) render(c echo.Context, status int, name string, data any) error {
	t, err := pages()
	if err != nil {
		return fmt.Errorf("parse the pages: %w", err)
	}
	var b bytes.Buffer
	if err := t.ExecuteTemplate(&b, name, data); err != nil {
		return fmt.Errorf("render %s: %w", name, err)
	}
	return c.HTMLBlob(status, b.Bytes())
}

// static answers the style sheet and the refresher.
func static(c echo.Context) error {
	name := c.Param("name")
	b, err := files.ReadFile("static/" + name)
	if err != nil {
		return echo.ErrNotFound
	}
	kind := "text/css; charset=utf-8"
	if strings.HasSuffix(name, ".js") {
		kind = "text/javascript; charset=utf-8"
	}
	return c.Blob(http.StatusOK, kind, b)
}

// index is the first page: the effect table.
func (s *Server) index(c echo.Context) error {
	q, err := query(c)
	if err != nil {
		return err
	}
	v := view{Tenant: q.Tenant, Window: c.QueryParam("window"), Provisional: q.Provisional}
	if one, ok := c.Get(sessionKey).(*session); ok {
		v.CSRF = one.csrf
	}
	if s.options.Figures != nil {
		v.Figures = s.options.Figures(c.Request().Context())
	}
	switch {
	case s.options.Report == nil:
		v.Problem = "There is no report yet."
	default:
		r, err := s.options.Report.Report(c.Request().Context(), q)
		if err != nil {
			if s.options.Log != nil {
				s.options.Log.Error("report failed", "tenant", q.Tenant, "error", err)
			}
			v.Problem = "The report cannot be read right now; the log says why. Requests are not affected."
			break
		}
		v.fill(r, s.options.Truth)
	}
	return s.render(c, http.StatusOK, "index.html", v)
}
