package admin

import (
	"bytes"
	"embed"
	"fmt"
	"io/fs"
	"mime"
	"net/http"
	"path"

	"github.com/labstack/echo/v4"
	g "maragu.dev/gomponents"
)

//go:embed static
var files embed.FS

// render answers a page: written whole before the first byte goes out, so that a fault never gives
// half a page.
func (s *Server) render(c echo.Context, status int, page g.Node) error {
	var b bytes.Buffer
	if err := page.Render(&b); err != nil {
		return fmt.Errorf("write the page: %w", err)
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
