package admin

import (
	"bytes"
	"embed"
	"fmt"
	"html/template"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"strings"

	"github.com/labstack/echo/v4"
)

//go:embed pages/*.html static
var files embed.FS

// parse reads the templates: each page for itself, with the layout and the parts, so that every
// page can have a "main" of its own.
func (s *Server) parse() error {
	names, err := fs.Glob(files, "pages/*.html")
	if err != nil {
		return fmt.Errorf("list the pages: %w", err)
	}
	s.pages = make(map[string]*template.Template, len(names))
	for _, name := range names {
		t, err := template.New(path.Base(name)).Funcs(s.functions()).ParseFS(files, "pages/layout.html", "pages/parts.html", "pages/table.html", name)
		if err != nil {
			return fmt.Errorf("parse the page %s: %w", name, err)
		}
		s.pages[strings.TrimSuffix(path.Base(name), ".html")] = t
	}
	return nil
}

// render answers a page: rendered whole before the first byte goes out, so that a fault never gives
// half a page.
func (s *Server) render(c echo.Context, status int, page, name string, data any) error {
	t, ok := s.pages[page]
	if !ok {
		return fmt.Errorf("there is no page %q", page)
	}
	var b bytes.Buffer
	if err := t.ExecuteTemplate(&b, name, data); err != nil {
		return fmt.Errorf("render %s: %w", page, err)
	}
	return c.HTMLBlob(status, b.Bytes())
}

// static answers style sheets, scripts and icons.
func static(c echo.Context) error {
	name := c.Param("name")
	if !fs.ValidPath(name) {
		return echo.ErrNotFound
	}
	b, err := files.ReadFile("static/" + name)
	if err != nil {
		return echo.ErrNotFound
	}
	kind := mime.TypeByExtension(path.Ext(name))
	if kind == "" {
		kind = "text/plain; charset=utf-8" // licences
	}
	return c.Blob(http.StatusOK, kind, b)
}
