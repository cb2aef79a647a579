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

// Server is the handler of the admin listener. A Server starts no goroutine. The caller serves the handler and runs
// the functions of Workers.
type Server struct {
	options   Options
	echo      *echo.Echo
	pages     []page
	access    atomic.Pointer[access]
	logins    *loginStore
	throttle  *throttle
	history   *history
	decisions *decisions
	reports   *sharedCache[reportKey, report.Report]
	surveys   *sharedCache[string, *report.Survey]
	scans     *sharedCache[string, *rules.Scan]
	recent    *sharedCache[recentKey, store.Recent]
	audit     *audit
	views     views
}

// page is one page of the dashboard.
type page struct {
	Name  string // name in the navigation; empty for a page that the navigation does not list
	Path  string // route of echo
	Serve echo.HandlerFunc
	Badge func() int // number of waiting items, shown beside the name; nil if the page has no such number
}

// ServeHTTP handles one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.echo.ServeHTTP(w, r) }

// SetAccess validates a and replaces the access rules for new requests. From then on, tokens that are not in a are
// refused, and so are the logins with these tokens. After an error, the previous rules stay in effect.
func (s *Server) SetAccess(a Access) error {
	parsed, err := parseAccess(a, s.options.Address.Listen)
	if err != nil {
		return err
	}
	s.access.Store(parsed)
	return nil
}

// log returns the logger for a request. Each of its lines has the request id, which the response has in the header
// Precept-Request-Id.
func (s *Server) log(c echo.Context) *slog.Logger {
	h := c.Response().Header()
	if h.Get("Precept-Request-Id") == "" {
		var b [8]byte
		_, _ = io.ReadFull(s.options.Random, b[:]) // an error leaves the id zero; the request is answered
		h.Set("Precept-Request-Id", "req_"+hex.EncodeToString(b[:]))
	}
	return s.options.Log.With("request", h.Get("Precept-Request-Id"))
}

// render sends a page. The page is rendered in memory first, so that an error never leaves a client with half a page.
func (s *Server) render(c echo.Context, status int, page g.Node) error {
	var b bytes.Buffer
	if err := page.Render(&b); err != nil {
		return fmt.Errorf("write the page: %w", err)
	}
	return c.HTMLBlob(status, s.withBase(b.Bytes()))
}

// withBase returns a page whose addresses in href, src and action begin with the base path. Text of agents and clients
// stays unchanged, because the quotes in such text are escaped.
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

// withoutBase returns u without the base path. If the path does not begin with the base path, withoutBase returns u
// itself.
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

// redirect redirects to a path of this server. Any other address is replaced by the path of the overview, so that a
// link to /login cannot redirect to another site.
func (s *Server) redirect(c echo.Context, path string) error {
	u, err := url.Parse(path)
	if err != nil || u.Scheme+u.Host != "" || !strings.HasPrefix(path, "/") ||
		strings.HasPrefix(path, "//") || strings.Contains(path, `\`) {
		path = "/"
	}
	return c.Redirect(http.StatusSeeOther, s.options.Address.BasePath+path)
}

// seeOther redirects to path after a form was sent. The next page shows text as a notice, once. lessonAddress is the
// address of a lesson to which the notice links; without lessonAddress, the notice has no link.
func (s *Server) seeOther(c echo.Context, path, text string, lessonAddress ...string) error {
	if sess, ok := c.Get(browserSessionKey).(*browserSession); ok {
		s.logins.keepNotice(sess, notice{text, strings.Join(lessonAddress, "")})
	}
	return s.redirect(c, path)
}
