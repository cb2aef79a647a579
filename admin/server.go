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

// Server handles requests to the admin listener. Server starts no goroutine; the caller runs the functions from
// Workers.
type Server struct {
	options        Options
	echo           *echo.Echo
	pages          []page
	access         atomic.Pointer[access]
	logins         *loginStore
	throttle       *throttle
	history        *history
	decisions      *decisions
	reports        *sharedCache[reportKey, report.Report]
	surveys        *sharedCache[string, *report.Survey]
	scans          *sharedCache[string, *rules.Scan]
	recentSessions *sharedCache[recentKey, store.Recent]
	audit          *audit
	views          views
}

type page struct {
	Name  string // name in the navigation; empty: not listed
	Path  string
	Serve echo.HandlerFunc
	Badge func() int // waiting items, shown beside the name, or nil
}

func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.echo.ServeHTTP(w, r) }

// SetAccess replaces the access rules for new requests. Removed tokens, and logins made with them, are refused. After
// an error, the previous rules stay.
func (s *Server) SetAccess(a Access) error {
	parsed, err := parseAccess(a, s.options.Address.Listen)
	if err != nil {
		return err
	}
	s.access.Store(parsed)
	return nil
}

// log returns a logger with the request id, also sent as Precept-Request-Id in the response.
func (s *Server) log(c echo.Context) *slog.Logger {
	h := c.Response().Header()
	if h.Get("Precept-Request-Id") == "" {
		var b [8]byte
		_, _ = io.ReadFull(s.options.Random, b[:]) // on error, the id stays zero
		h.Set("Precept-Request-Id", "req_"+hex.EncodeToString(b[:]))
	}
	return s.options.Log.With("request", h.Get("Precept-Request-Id"))
}

// render renders a page in memory first, so an error never sends half a page.
func (s *Server) render(c echo.Context, status int, page g.Node) error {
	var b bytes.Buffer
	if err := page.Render(&b); err != nil {
		return fmt.Errorf("write the page: %w", err)
	}
	return c.HTMLBlob(status, s.withBase(b.Bytes()))
}

// withBase puts the base path before the addresses in href, src and action. Text from agents and clients stays
// unchanged, because its quotes are escaped.
func (s *Server) withBase(page []byte) []byte {
	if s.options.Address.BasePath == "" {
		return page
	}
	var r []string
	for _, attribute := range []string{"href", "src", "action"} {
		r = append(r, ` `+attribute+`="/`, ` `+attribute+`="`+s.options.Address.BasePath+`/`)
	}
	return []byte(strings.NewReplacer(r...).Replace(string(page)))
}

func (s *Server) withoutBase(u *url.URL) *url.URL {
	path, ok := strings.CutPrefix(u.Path, s.options.Address.BasePath)
	if s.options.Address.BasePath == "" || !ok || path != "" && path[0] != '/' {
		return u
	}
	out := *u
	out.RawPath = strings.TrimPrefix(u.RawPath, s.options.Address.BasePath)
	out.Path = path
	if path == "" {
		out.Path = "/"
	}
	return &out
}

// redirect redirects to a path on this server. Other addresses lead to the overview, so /login cannot redirect to
// another site.
func (s *Server) redirect(c echo.Context, path string) error {
	u, err := url.Parse(path)
	if err != nil || u.Scheme+u.Host != "" || !strings.HasPrefix(path, "/") ||
		strings.HasPrefix(path, "//") || strings.Contains(path, `\`) {
		path = "/"
	}
	return c.Redirect(http.StatusSeeOther, s.options.Address.BasePath+path)
}

// seeOther redirects after a form. The next page shows text once, with a link to lessonAddress if given.
func (s *Server) seeOther(c echo.Context, path, text string, lessonAddress ...string) error {
	if sess, ok := c.Get(browserSessionKey).(*browserSession); ok {
		s.logins.keepNotice(sess, notice{text, strings.Join(lessonAddress, "")})
	}
	return s.redirect(c, path)
}
