package proxy

import (
	"errors"
	"net/http"
	"runtime/debug"

	"github.com/labstack/echo/v4"

	"precept/inject/lesson"
	"precept/internal/label"
	"precept/internal/redact"
	"precept/internal/session"
	"precept/internal/wire"
)

// Handler is the data listener: precept's own paths, and everything else goes to the upstream.
func (p *Proxy) Handler() http.Handler { return p.front(p.router()) }

func (p *Proxy) router() *echo.Echo {
	e := echo.New()
	e.HideBanner, e.HidePort = true, true
	e.HTTPErrorHandler = p.fault
	e.GET("/healthz", func(c echo.Context) error { return c.String(http.StatusOK, "ok\n") })
	e.GET("/readyz", p.ready)
	e.POST("/v1/feedback", p.feedback)
	p.lessonRoutes(e)
	e.RouteNotFound("/*", func(c echo.Context) error { return p.serveTurn(clientOf(c.Response()), c.Request()) })
	return e
}

// lessonRoutes are the paths of /v1/lessons, also behind a path form, for agents that can set
// nothing but a base URL.
func (p *Proxy) lessonRoutes(e *echo.Echo) {
	if p.opts.Bank == nil {
		return
	}
	for _, g := range []*echo.Group{e.Group(""), e.Group("/p/:said")} {
		g.GET("/v1/lessons", p.own(ownLessons.list))
		g.POST("/v1/lessons", p.own(ownLessons.create))
		g.GET("/v1/lessons/:id", p.own(ownLessons.get))
		g.PATCH("/v1/lessons/:id", p.own(ownLessons.update))
		g.DELETE("/v1/lessons/:id", p.own(ownLessons.remove))
	}
}

// own finds out whose lessons are asked for: the tenant from the credential, the agent as in every
// other request.
func (p *Proxy) own(do func(ownLessons, echo.Context) error) echo.HandlerFunc {
	return func(c echo.Context) error {
		r, set := c.Request(), p.set.Load()
		who, err := set.asker(r)
		if err != nil {
			return err
		}
		claim := session.Identify(r.Header, r.URL.EscapedPath(), nil)
		who.claims(&claim)
		writes := r.Method == http.MethodPost || r.Method == http.MethodPatch
		if writes && (claim.LearnOff || !set.learns(&who, claim.Agent)) {
			return refusal(wire.None, http.StatusForbidden, "learning is off for this agent, and nothing of it is kept")
		}
		return do(ownLessons{&p.lessons, set, lesson.Scope{Tenant: who.tenant, Agent: claim.Agent}, p.opts.log(clientOf(c.Response()))}, c)
	}
}

// front stands before echo: it counts every request however it ends, answers for a panic, and
// refuses CONNECT, whose target is no path that a router knows.
func (p *Proxy) front(next http.Handler) http.Handler {
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		w := &clientWriter{
			ResponseWriter: rw, ctl: http.NewResponseController(rw), limit: p.set.Load().cfg.Limits.ClientWriteTimeout, now: p.opts.Now,
			old: !r.ProtoAtLeast(1, 1),
		}
		defer p.answered(w, r)
		if p.draining.Load() {
			rw.Header().Set("Connection", "close") // the next request is another replica's
		}
		if r.Method == http.MethodConnect {
			refusal(wire.None, http.StatusMethodNotAllowed, "precept is a reverse proxy and opens no tunnels").write(w)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// answered is the end of every request. A panic of ours is answered where nothing was, and seen as
// a cut where something was.
func (p *Proxy) answered(w *clientWriter, r *http.Request) {
	v := recover()
	if v != nil && v != http.ErrAbortHandler { //nolint:errorlint // as net/http compares it
		p.opts.Metrics.FailedOpen(label.StepHandler)
		p.opts.log(w).Error("a request panicked", "panic", redact.PanicKind(v), "stack", string(debug.Stack()))
		if w.code == 0 {
			unable(r).write(w)
			v = nil
		} else {
			v = http.ErrAbortHandler
		}
	}
	w.end()
	p.opts.Metrics.request(w.dialect, w.code)
	if v != nil {
		panic(v)
	}
}

// fault is where errors become HTTP.
func (p *Proxy) fault(err error, c echo.Context) {
	w, r := c.Response(), c.Request()
	if w.Committed {
		return
	}
	var own *problem
	var he *echo.HTTPError
	switch {
	case errors.As(err, &own):
	case errors.As(err, &he):
		own = refusal(spoken(r), he.Code, http.StatusText(he.Code))
	default:
		p.opts.Metrics.FailedOpen(label.StepHandler)
		p.opts.log(clientOf(w)).Error("a request failed in precept itself", "error", err)
		own = unable(r)
	}
	own.write(w)
}

// unable is what a client gets where the fault is ours.
func unable(r *http.Request) *problem {
	return refusal(spoken(r), http.StatusServiceUnavailable, "precept could not handle the request; try again")
}

// Drain makes /readyz say no, so that a load balancer looks elsewhere while streams end.
func (p *Proxy) Drain() { p.draining.Store(true) }

// Ready says in a line how precept does while requests may come, and else why they should not. It
// does not depend on the store: an agent can work without it.
func (p *Proxy) Ready() (string, error) {
	switch {
	case p.draining.Load():
		return "", errors.New("draining")
	case !p.opts.Store.Healthy():
		return "ok, degraded: the store cannot be written", nil
	}
	return "ok", nil
}

func (p *Proxy) ready(c echo.Context) error {
	how, err := p.Ready()
	if err != nil {
		return c.String(http.StatusServiceUnavailable, err.Error()+"\n")
	}
	return c.String(http.StatusOK, how+"\n")
}

// problem is an error of precept's own, for a client.
type problem struct {
	dialect wire.Dialect
	status  int
	message string
}

func (p *problem) Error() string { return p.message }

// refusal returns the error of a request that precept answers itself.
func refusal(d wire.Dialect, status int, message string) *problem {
	return &problem{dialect: d, status: status, message: message}
}

// write writes the error in the shape of the dialect.
func (p *problem) write(w http.ResponseWriter) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	if p.status == http.StatusServiceUnavailable {
		h.Set("Retry-After", "1")
	}
	w.WriteHeader(p.status)
	_, _ = w.Write(wire.ErrorBody(p.dialect, p.status, p.message)) //nolint:gosec // JSON, and its Content-Type says so
}

// spoken returns the dialect in which the client of a request reads errors.
func spoken(r *http.Request) wire.Dialect {
	_, path, _ := session.ParsePath(r.URL.EscapedPath())
	return family(path, r.Header)
}
