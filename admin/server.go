package admin

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"

	"github.com/labstack/echo/v4"
	g "maragu.dev/gomponents"

	"precept/bandit/report"
)

// Server is the admin face. It starts nothing: give it to an http.Server, and run its Owners.
type Server struct {
	options  Options
	echo     *echo.Echo
	pages    []page
	access   atomic.Pointer[access]
	sessions *sessions
	throttle *throttle
	history  *history
	decided  *decisions
	reports  *shared[reportKey, report.Report]
	surveys  *shared[string, *report.Survey]
	audit    *audit
}

// page is one page of the dashboard.
type page struct {
	Name  string // in the navigation; "" stands not in it
	Path  string // as echo routes it
	Serve echo.HandlerFunc
	Badge func() int // how many things wait there; nil: nothing ever does
}

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.echo.ServeHTTP(w, r) }

// SetAccess puts another Access in force, for requests that begin from now on. Browsers that logged
// in with a token that is gone are logged out. An error leaves the old one in force.
func (s *Server) SetAccess(a Access) error {
	digested, err := digest(a, s.options.Listen)
	if err != nil {
		return err
	}
	s.access.Store(digested)
	return nil
}

// log is for what is told of one request: the line names it, as its answer's Precept-Request-Id
// does.
func (s *Server) log(c echo.Context) *slog.Logger {
	h := c.Response().Header()
	if h.Get("Precept-Request-Id") == "" {
		var b [8]byte
		_, _ = io.ReadFull(s.options.Random, b[:]) // an id that is not random still names the request
		h.Set("Precept-Request-Id", "req_"+hex.EncodeToString(b[:]))
	}
	return s.options.Log.With("request", h.Get("Precept-Request-Id"))
}

// render answers a page: written whole before the first byte goes out, so that a fault never gives
// half a page.
func (s *Server) render(c echo.Context, status int, page g.Node) error {
	var b bytes.Buffer
	if err := page.Render(&b); err != nil {
		return fmt.Errorf("write the page: %w", err)
	}
	return c.HTMLBlob(status, s.based(b.Bytes()))
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

// redirect leads a browser to a page of ours; any other address is the first page.
func (s *Server) redirect(c echo.Context, path string) error {
	u, err := url.Parse(path)
	if err != nil || u.Scheme+u.Host != "" || !strings.HasPrefix(path, "/") ||
		strings.HasPrefix(path, "//") || strings.Contains(path, `\`) {
		path = "/"
	}
	return c.Redirect(http.StatusSeeOther, s.options.Base+path)
}

// seeOther leads a browser away from a form that it has sent; notice is shown on the next page,
// once.
func (s *Server) seeOther(c echo.Context, path, notice string) error {
	if one, ok := c.Get(sessionKey).(*session); ok {
		s.sessions.keepNotice(one, notice)
	}
	return s.redirect(c, path)
}
