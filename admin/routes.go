package admin

import (
	"embed"
	"net/http"
	"net/http/pprof" //nolint:gosec // its init adds routes to http.DefaultServeMux, which no listener serves

	"github.com/labstack/echo/v4"
)

//go:embed static
var staticFiles embed.FS

// New returns the handler, or an error if o.Access has no valid tokens.
func New(o Options) (*Server, error) {
	s := &Server{
		options: o, echo: echo.New(), logins: newLoginStore(o.Random, o.Now), throttle: newThrottle(o.Now),
		history: newHistory(), decisions: &decisions{list: map[string]decision{}}, views: views{notes: o.Write.Notes},
	}
	if err := s.SetAccess(o.Access); err != nil {
		return nil, err
	}
	s.loadLogins()
	var err error
	if s.audit, err = openAudit(o.DataDir); err != nil {
		o.Log.Error("the audit log cannot be read", "file", auditFile, "error", err)
	}
	s.makeCaches()
	s.pages = s.dashboardPages()
	s.echo.HideBanner, s.echo.HidePort = true, true
	s.echo.HTTPErrorHandler = s.handleError
	s.echo.Pre(s.recover, securityHeaders, s.stripBase, s.refuseAgents, s.checkHost)
	s.addPublicRoutes(s.echo)
	s.addTokenRoutes(s.echo.Group("", s.authorize, s.auditRequest, s.checkWrite, s.checkPermission, checkKeys))
	return s, nil
}

// dashboardPages returns the pages in navigation order.
func (s *Server) dashboardPages() []page {
	return []page{
		{Name: "Overview", Path: "/", Serve: s.overview},
		{Name: "Lessons", Path: "/lessons", Serve: s.lessonsPage},
		{Path: "/lessons/:slug", Serve: s.lessonPage},
		{Name: "Breakdown", Path: "/breakdown", Serve: s.breakdown},
		{Name: "Rules", Path: "/rules", Serve: s.rulesPage},
		{Name: "Queue", Path: "/queue", Serve: s.queuePage, Badge: func() int { return len(s.waitingLessons()) }},
		{Name: "Sessions", Path: "/sessions", Serve: s.sessionsPage},
		{Path: "/sessions/:session", Serve: s.sessionPage},
		{Path: "/runs/:run", Serve: s.runPage},
		{Path: "/views", Serve: s.viewsPage},
		{Name: "Traffic", Path: "/traffic", Serve: s.trafficPage},
		{Name: "Compare", Path: "/compare", Serve: s.comparePage},
		{Name: "Samples", Path: "/samples", Serve: s.samplesPage},
		{Name: "Health", Path: "/health", Serve: s.healthPage},
		{Name: "Help", Path: "/help", Serve: s.help},
		{Path: "/help/*", Serve: s.helpPage},
	}
}

// addPublicRoutes adds the routes that need no token. /readyz responds as on the data listener.
func (s *Server) addPublicRoutes(e *echo.Echo) {
	e.GET("/healthz", func(c echo.Context) error { return c.String(http.StatusOK, "ok\n") })
	e.GET("/readyz", func(c echo.Context) error {
		state, err := s.options.Program.Ready()
		if err != nil {
			return c.String(http.StatusServiceUnavailable, err.Error()+"\n")
		}
		return c.String(http.StatusOK, state+"\n")
	})
	e.GET("/login", s.login)
	e.POST("/login", s.login)
	e.GET("/static/:name", func(c echo.Context) error {
		return echo.StaticFileHandler("static/"+c.Param("name"), staticFiles)(c)
	})
}

// addTokenRoutes adds the routes that need a token; g's middleware checks it.
func (s *Server) addTokenRoutes(g *echo.Group) {
	for _, p := range s.pages {
		g.GET(p.Path, p.Serve, restoreHidden)
	}
	g.POST("/logout", s.logout)
	g.POST("/lessons/:slug/:action", s.actOnPage)
	g.POST("/sessions/:session/rate", s.rateSession)
	g.POST("/sessions/:session/forget", s.forgetSession)
	g.POST("/views", s.saveView)
	g.POST("/views/:view/:action", s.actOnView)
	g.GET("/api/openapi.yaml", serveOpenAPI)
	g.GET("/api/report", s.apiReport)
	g.GET("/api/sessions", s.apiSessions)
	g.GET("/api/facets", s.apiFacets)
	g.GET("/api/runs/:run", s.apiRun)
	g.GET("/api/views", s.apiViews)
	g.GET("/api/traffic", s.apiTraffic)
	g.GET("/api/compare", s.apiCompare)
	g.GET("/api/sessions/:session", s.apiSession)
	g.GET("/api/samples", s.apiSamples)
	g.GET("/api/export", s.apiExport)
	g.GET("/api/export/sessions", s.apiExportSessions)
	g.GET("/api/health", s.apiHealth)
	g.POST("/api/feedback", s.apiFeedback)
	g.POST("/api/forget", s.apiForget)
	g.POST("/api/import", s.apiImport)
	g.POST("/api/lessons/:slug/:action", s.apiAct)
	g.GET("/metrics", echo.WrapHandler(s.options.Program.Metrics))
	for path, serve := range map[string]http.HandlerFunc{
		"": pprof.Index, ":profile": pprof.Index, "cmdline": pprof.Cmdline, "profile": pprof.Profile,
		"symbol": pprof.Symbol, "trace": pprof.Trace,
	} {
		g.GET("/debug/pprof/"+path, echo.WrapHandler(serve))
	}
	g.RouteNotFound("/*", func(echo.Context) error { return echo.ErrNotFound })
}
