package admin

import (
	"embed"
	"io/fs"
	"mime"
	"net/http"
	"path"

	"github.com/labstack/echo/v4"
)

//go:embed static
var files embed.FS

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
