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
	"precept/inject/rules"
	"precept/store"
)

// Server is the handler of the admin listener. A Server starts no goroutine: the caller serves the
// handler and runs its Workers.
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
	scans    *shared[string, *rules.Scan]
	recent   *shared[recentKey, store.Recent]
	audit    *audit
	views    views
}

// page is one page of the dashboard.
type page struct {
	Name  string // name in the navigation; empty for an unlisted page
	Path  string // route of echo
	Serve echo.HandlerFunc
	Badge func() int // number of waiting items; nil: none
}

// ServeHTTP handles one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.echo.ServeHTTP(w, r) }

// SetAccess replaces the Access for new requests. Sessions of a removed token end. On error the old
// Access stays.
func (s *Server) SetAccess(a Access) error {
	digested, err := digest(a, s.options.Address.Listen)
	if err != nil {
		return err
	}
	s.access.Store(digested)
	return nil
}

// log returns the logger of a request, with the id in the response's Precept-Request-Id.
func (s *Server) log(c echo.Context) *slog.Logger {
	h := c.Response().Header()
	if h.Get("Precept-Request-Id") == "" {
		var b [8]byte
		_, _ = io.ReadFull(s.options.Random, b[:]) // an id without randomness still identifies the request
		h.Set("Precept-Request-Id", "req_"+hex.EncodeToString(b[:]))
	}
	return s.options.Log.With("request", h.Get("Precept-Request-Id"))
}

// render renders a whole page before the first byte is written, so that an error never leaves half
// a page.
func (s *Server) render(c echo.Context, status int, page g.Node) error {
	var b bytes.Buffer
	if err := page.Render(&b); err != nil {
		return fmt.Errorf("write the page: %w", err)
	}
	return c.HTMLBlob(status, s.based(b.Bytes()))
}

// based prefixes the addresses of a page with the base path. Quotes in foreign text are escaped, so
// only a page's own attributes match.
func (s *Server) based(page []byte) []byte {
	if s.options.Address.Base == "" {
		return page
	}
	var r []string
	for _, attribute := range []string{"href", "src", "action"} {
		r = append(r, ` `+attribute+`="/`, ` `+attribute+`="`+s.options.Address.Base+`/`)
	}
	return []byte(strings.NewReplacer(r...).Replace(string(page)))
}

// below returns the path and query of a URL without the base path.
func (s *Server) below(u *url.URL) *url.URL {
	path, ok := strings.CutPrefix(u.Path, s.options.Address.Base)
	if s.options.Address.Base == "" || !ok || path != "" && path[0] != '/' {
		return u
	}
	out := *u
	out.RawPath = strings.TrimPrefix(u.RawPath, s.options.Address.Base)
	if out.Path = path; path == "" {
		out.Path = "/"
	}
	return &out
}

// redirect redirects to a page of this server; any other address means the first page.
func (s *Server) redirect(c echo.Context, path string) error {
	u, err := url.Parse(path)
	if err != nil || u.Scheme+u.Host != "" || !strings.HasPrefix(path, "/") ||
		strings.HasPrefix(path, "//") || strings.Contains(path, `\`) {
		path = "/"
	}
	return c.Redirect(http.StatusSeeOther, s.options.Address.Base+path)
}

// seeOther redirects after a form; the next page shows the notice once, with a link to the page of the
// object if an address is given.
func (s *Server) seeOther(c echo.Context, path, text string, object ...string) error {
	if one, ok := c.Get(sessionKey).(*session); ok {
		s.sessions.keepNotice(one, notice{text, strings.Join(object, "")})
	}
	return s.redirect(c, path)
}
