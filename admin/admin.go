package admin

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/pprof" //nolint:gosec // its init touches the default mux only, which nobody here serves
	"sync/atomic"
	"time"

	"github.com/labstack/echo/v4"

	"precept/report"
)

// Query says which report is asked for.
type Query struct {
	Tenant      string
	Window      time.Duration // 0: all that there is
	Provisional bool          // count sessions that have not closed yet
	WhatIf      float64       // an epsilon to project for; 0: none
	Explain     string        // a slug whose rows are to say how they came about; "" none
	Bands       bool          // with the effect over time, which pages draw
}

// Figure is one line of the health table.
type Figure struct {
	Name  string `json:"name"`
	Value string `json:"value"`
	Bad   bool   `json:"bad,omitempty"` // worth a look
}

// Prices are what a million tokens of input cost, in the operator's currency; 0: not known.
type Prices struct {
	Input  float64
	Cached float64 // those that the provider's prompt cache had; 0: as the others
}

// Options is what an admin server is made of. Every function may be called concurrently.
type Options struct {
	Access  Access
	Base    string                            // the path below which a proxy before it shows it, such as /precept; "": none
	Listen  string                            // the listener's own host:port, once it is known
	Report  Reporter                          // nil: no report yet
	Forget  Forgetter                         // nil: nothing can be forgotten
	Keep    Keeper                            // nil: lessons cannot be changed
	Library Library                           // nil: no pages of single lessons, and no queue
	Survey  Surveyor                          // nil: nothing of single sessions
	Figures func(context.Context) []Figure    // health; nil: none
	Ready   func() (string, error)            // a line that says how it does, or why it is not ready; nil: ok as soon as it serves
	Truth   func(slug string) (float64, bool) // demo: the true effect, in units of reward; nil: unknown
	Metrics http.Handler                      // nil: 404
	Archive Archive                           // sessions and samples; nil: nothing is kept
	Rate    Rater                             // feedback from the dashboard; nil: none
	Export  Exporter                          // nil: nothing can be exported
	Prices  func() Prices                     // nil: none are known
	Health  func(context.Context) Health      // nil: none
	DataDir string                            // where actions are noted; "": in memory only
	Mount   func(authorized *echo.Group)      // further routes behind the same door; nil: none
	Random  io.Reader                         // of session ids and CSRF tokens; nil: the system's
	Now     func() time.Time
	Log     *slog.Logger // nil: nothing is logged
}

// Access is who may come in; it is swapped whole when the configuration changes.
type Access struct {
	Tokens        []string // of operators; in clear, or sha256:<hex>
	Viewers       []string // tokens that look, and act on nothing
	Hosts         []string // further host names
	PublicMetrics bool     // /metrics without a token
}

// Server is the admin face. It starts nothing: give it to an http.Server, and run its Owners.
type Server struct {
	options  Options
	echo     *echo.Echo
	access   atomic.Pointer[access]
	sessions *sessions
	throttle *throttle
	history  *history
	decided  *decisions
	reports  *stock[reportKey, report.Report]
	surveys  *stock[string, *report.Survey]
	audit    *audit
}

// ErrNoToken is returned for an Access that would leave the door without a lock, or with one that
// anybody opens.
var ErrNoToken = errors.New("no admin token in force; set PRECEPT_ADMIN_TOKEN or admin.tokens")

// New makes the handler of the admin listener.
func New(o Options) (*Server, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Random == nil {
		o.Random = rand.Reader
	}
	s := &Server{
		options: o, sessions: newSessions(o.Random, o.Now), throttle: newThrottle(o.Now),
		history: newHistory(), decided: &decisions{at: map[string]time.Time{}},
	}
	s.keep()
	var err error
	if s.audit, err = openAudit(o.DataDir); err != nil {
		o.Log.Error("what was noted of earlier actions cannot be read", "file", AuditFile, "error", err)
	}
	if err := s.SetAccess(o.Access); err != nil {
		return nil, err
	}
	e := echo.New()
	e.HideBanner, e.HidePort = true, true
	e.HTTPErrorHandler = s.fail
	e.Pre(s.recover, headers, s.unbase, s.checkHost)
	s.open(e)
	s.locked(e.Group("", s.authorize, s.audited, s.checkWrite, s.permit))
	s.echo = e
	return s, nil
}

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.echo.ServeHTTP(w, r) }

// open registers what needs no token.
func (s *Server) open(e *echo.Echo) {
	e.GET("/healthz", func(c echo.Context) error { return c.String(http.StatusOK, "ok\n") })
	e.GET("/readyz", s.ready)
	e.GET("/login", s.login)
	e.POST("/login", s.login)
	e.GET("/static/:name", static)
}

// locked registers what needs one.
func (s *Server) locked(g *echo.Group) {
	for _, p := range s.dashboard() {
		g.GET(p.Path, p.Serve)
	}
	g.POST("/logout", s.logout)
	g.POST("/lessons/:slug/:action", s.actOnPage)
	g.GET("/api/openapi.yaml", describe)
	g.GET("/api/report", s.report)
	g.POST("/api/forget", s.forget)
	g.GET("/api/sessions", s.apiSessions)
	g.GET("/api/sessions/:session", s.apiSession)
	g.GET("/api/samples", s.apiSamples)
	g.GET("/api/export", s.apiExport)
	g.GET("/api/health", s.apiHealth)
	g.POST("/api/feedback", s.apiFeedback)
	g.POST("/sessions/:session/rate", s.rateSession)
	g.POST("/sessions/:session/forget", s.forgetSession)
	g.POST("/api/lessons/:slug/:action", s.act)
	g.GET("/metrics", s.metrics)
	g.GET("/debug/pprof/", echo.WrapHandler(http.HandlerFunc(pprof.Index)))
	g.GET("/debug/pprof/:profile", echo.WrapHandler(http.HandlerFunc(pprof.Index)))
	g.GET("/debug/pprof/cmdline", echo.WrapHandler(http.HandlerFunc(pprof.Cmdline)))
	g.GET("/debug/pprof/profile", echo.WrapHandler(http.HandlerFunc(pprof.Profile)))
	g.GET("/debug/pprof/symbol", echo.WrapHandler(http.HandlerFunc(pprof.Symbol)))
	g.GET("/debug/pprof/trace", echo.WrapHandler(http.HandlerFunc(pprof.Trace)))
	if s.options.Mount != nil {
		s.options.Mount(g)
	}
	g.RouteNotFound("/*", func(echo.Context) error { return echo.ErrNotFound })
}

// ready says what the data listener says.
func (s *Server) ready(c echo.Context) error {
	how := "ok"
	if s.options.Ready != nil {
		var err error
		if how, err = s.options.Ready(); err != nil {
			return c.String(http.StatusServiceUnavailable, err.Error()+"\n")
		}
	}
	return c.String(http.StatusOK, how+"\n")
}

func (s *Server) metrics(c echo.Context) error {
	if s.options.Metrics == nil {
		return echo.ErrNotFound
	}
	s.options.Metrics.ServeHTTP(c.Response(), c.Request())
	return nil
}
