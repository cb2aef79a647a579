package admin

import (
	"embed"

	"github.com/labstack/echo/v4"
)

//go:embed static
var files embed.FS

// static answers style sheets, scripts and icons.
func static(c echo.Context) error { return echo.StaticFileHandler("static/"+c.Param("name"), files)(c) }
