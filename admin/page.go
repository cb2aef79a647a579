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
// page can have a "main" of its own. It is done for the first page that somebody asks for: the
// collector would mark them all the time where nobody does.
func (s *Server) parse() (map[string]*template.Template, error) {
	names, err := fs.Glob(files, "pages/*.html")
	if err != nil {
		return nil, fmt.Errorf("list the pages: %w", err)
	}
	pages := make(map[string]*template.Template, len(names))
	for _, name := range names {
		t, err := template.New(path.Base(name)).Funcs(s.functions()).ParseFS(files, "pages/layout.html", "pages/parts.html", "pages/table.html", name)
		if err != nil {
			return nil, fmt.Errorf("parse the page %s: %w", name, err)
		}
		pages[strings.TrimSuffix(path.Base(name), ".html")] = t
	}
	return pages, nil
}

// render answers a page: rendered whole before the first byte goes out, so that a fault never gives
// half a page.
func (s *Server) render(c echo.Context, status int, page, name string, data any) error {
	pages, err := s.pages()
	if err != nil {
		return err
	}
	t, ok := pages[page]
	if !ok {
		return fmt.Errorf("there is no page %q", page)
	}
	var b bytes.Buffer
	if err := t.ExecuteTemplate(&b, name, data); err != nil {
		return fmt.Errorf("render %s: %w", page, err)
	}
	return c.HTMLBlob(status, s.based(b.Bytes()))
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
