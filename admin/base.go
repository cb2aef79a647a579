package admin

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/labstack/echo/v4"
)

// unbase takes the base path off, so that nothing behind it knows of one. A proxy may have done so
// before.
func (s *Server) unbase(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		if s.options.Base != "" {
			c.Request().URL = s.below(c.Request().URL)
		}
		return next(c)
	}
}

// below is an address without the base path.
func (s *Server) below(u *url.URL) *url.URL {
	path, ok := strings.CutPrefix(u.Path, s.options.Base)
	if s.options.Base == "" || !ok || path != "" && path[0] != '/' {
		return u
	}
	out := *u
	out.RawPath = strings.TrimPrefix(u.RawPath, s.options.Base)
	if out.Path = path; path == "" {
		out.Path = "/"
	}
	return &out
}

// based puts the base path before the addresses of a page. Quotes are escaped in what others said,
// so only a page's own attributes are met.
func (s *Server) based(page []byte) []byte {
	if s.options.Base == "" {
		return page
	}
	var r []string
	for _, attribute := range []string{"href", "src", "action"} {
		r = append(r, ` `+attribute+`="/`, ` `+attribute+`="`+s.options.Base+`/`)
	}
	return []byte(strings.NewReplacer(r...).Replace(string(page)))
}

// redirect leads a browser to a page of ours.
func (s *Server) redirect(c echo.Context, path string) error {
	return c.Redirect(http.StatusSeeOther, s.options.Base+path)
}
