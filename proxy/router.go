package proxy

import (
	"errors"
	"maps"
	"net/http"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"

	"precept/inject/lesson"
	"precept/internal/label"
	"precept/internal/redact"
	"precept/internal/session"
	"precept/internal/wire"
)

// Handler returns a handler that answers precept's own paths, and forwards all other requests to an upstream.
func (p *Proxy) Handler() http.Handler { return p.front(p.router()) }

func (p *Proxy) router() *echo.Echo {
	e := echo.New()
	e.HideBanner, e.HidePort = true, true
	e.HTTPErrorHandler = p.writeError
	endpoints := p.endpoints()
	for path, methods := range endpoints {
		for method, h := range methods {
			h := ownEndpoint(h)
			e.Add(method, path, h)
			e.Add(method, "/p/:names"+path, h) // for agents that send names in the path
		}
	}
	e.RouteNotFound("/*", func(c echo.Context) error {
		if err := misdirectedError(endpoints, c); err != nil {
			return err
		}
		return p.serveTurn(unwrapClient(c.Response()), c.Request())
	})
	return e
}

// endpoints returns the handlers for precept's own paths, by path and method.
func (p *Proxy) endpoints() map[string]map[string]echo.HandlerFunc {
	healthy := func(c echo.Context) error { return c.String(http.StatusOK, "ok\n") }
	all := map[string]map[string]echo.HandlerFunc{
		"/healthz":     {http.MethodGet: healthy, http.MethodHead: healthy},
		"/readyz":      {http.MethodGet: p.ready, http.MethodHead: p.ready},
		"/v1/feedback": {http.MethodPost: p.serveFeedback},

		"/v1/hooks/:id": {http.MethodPost: p.serveHook},
	}
	if p.opts.Bank != nil {
		all["/v1/lessons"] = map[string]echo.HandlerFunc{http.MethodGet: p.withOwnLessons(lessonsRequest.list), http.MethodPost: p.withOwnLessons(lessonsRequest.create)}
		all["/v1/lessons/:id"] = map[string]echo.HandlerFunc{
			http.MethodGet: p.withOwnLessons(lessonsRequest.get), http.MethodPatch: p.withOwnLessons(lessonsRequest.update), http.MethodDelete: p.withOwnLessons(lessonsRequest.remove),
		}
	}
	return all
}

// ownEndpoint wraps the handler for a precept endpoint, so that metrics count the requests under ownDialect.
func ownEndpoint(h echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		unwrapClient(c.Response()).atEndpoint = true
		return h(c)
	}
}

// misdirectedError returns an error for a request to a precept endpoint with a wrong method or an unknown path below
// the endpoint. precept does not forward such a request, because the body may contain feedback for precept.
func misdirectedError(endpoints map[string]map[string]echo.HandlerFunc, c echo.Context) error {
	path := c.Request().URL.EscapedPath()
	if after, ok := strings.CutPrefix(path, "/p/"); ok {
		_, rest, _ := strings.Cut(after, "/")
		path = "/" + rest
	}
	for _, endpoint := range [...]string{"/healthz", "/readyz", "/v1/feedback", "/v1/lessons", "/v1/hooks"} {
		below, ok := strings.CutPrefix(path, endpoint)
		if !ok || endpoints[endpoint] == nil && endpoints[endpoint+"/:id"] == nil || below != "" && below[0] != '/' {
			continue
		}
		unwrapClient(c.Response()).atEndpoint = true
		methods := endpoints[endpoint]
		switch {
		case strings.Count(below, "/") == 1 && endpoints[endpoint+"/:id"] != nil:
			methods = endpoints[endpoint+"/:id"]
		case below != "" || methods == nil:
			return newAPIError(wire.NoDialect, http.StatusNotFound, "precept answers "+endpoint+" itself, and has no such path; correct the path")
		}
		allow := strings.Join(slices.Sorted(maps.Keys(methods)), ", ")
		c.Response().Header().Set("Allow", allow)
		return newAPIError(wire.NoDialect, http.StatusMethodNotAllowed, "precept answers "+endpoint+" itself, and accepts only "+allow+" here")
	}
	return nil
}

// withOwnLessons wraps handle, which serves a request for the agent's own lessons. The credential determines the
// tenant, and the request names the agent.
func (p *Proxy) withOwnLessons(handle func(lessonsRequest, echo.Context) error) echo.HandlerFunc {
	return func(c echo.Context) error {
		r, set := c.Request(), p.settings.Load()
		who, err := set.apiIdentity(r)
		if err != nil {
			return err
		}
		claim := session.Identify(r.Header, r.URL.EscapedPath(), nil)
		who.restrict(&claim)
		writes := r.Method == http.MethodPost || r.Method == http.MethodPatch
		if writes && (claim.LearnOff || !set.mayLearn(&who, claim.Agent)) {
			return newAPIError(wire.NoDialect, http.StatusForbidden, "learning is off for this agent, so the agent's lessons are not stored")
		}
		return handle(lessonsRequest{&p.lessons, set, lesson.Scope{Tenant: who.tenant, Agent: claim.Agent}, p.opts.log(unwrapClient(c.Response()))}, c)
	}
}

// front returns a handler that calls next. The handler normalises the path, counts the request, answers after a panic,
// and refuses CONNECT, because a CONNECT target is not a path.
func (p *Proxy) front(next http.Handler) http.Handler {
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		w := &clientWriter{
			ResponseWriter: rw, controller: http.NewResponseController(rw), ioTimeout: p.settings.Load().cfg.Limits.ClientWriteTimeout, now: p.opts.Now,
			http10: !r.ProtoAtLeast(1, 1),
		}
		defer p.endRequest(w, r)
		if p.draining.Load() {
			rw.Header().Set("Connection", "close") // the next request goes to a different replica
		}
		paths{p.settings.Load().bases, p.opts.Bank != nil}.normalise(r)
		if r.Method == http.MethodConnect {
			newAPIError(wire.NoDialect, http.StatusMethodNotAllowed, "precept is a reverse proxy and does not support CONNECT; use precept as the base URL").write(w)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// endRequest answers with an error after a panic, or closes the connection if part of the response was already sent.
func (p *Proxy) endRequest(w *clientWriter, r *http.Request) {
	v := recover()
	if v != nil && v != http.ErrAbortHandler { //nolint:errorlint // net/http compares the value in the same way
		p.opts.Metrics.FailedOpen(label.StepHandler)
		p.opts.log(w).Error("a request panicked", "panic", redact.SafePanicText(v), "stack", string(debug.Stack()))
		if w.status == 0 {
			internalError(r).write(w)
			v = nil
		} else {
			v = http.ErrAbortHandler
		}
	}
	w.end()
	p.warnUnknown(w, r)
	p.opts.Metrics.countRequest(w)
	if v != nil {
		panic(v)
	}
}

func (p *Proxy) writeError(err error, c echo.Context) {
	w, r := c.Response(), c.Request()
	if w.Committed {
		return
	}
	var answer *apiError
	var routing *echo.HTTPError
	switch {
	case errors.As(err, &answer):
	case errors.As(err, &routing):
		answer = newAPIError(errorDialect(r), routing.Code, http.StatusText(routing.Code))
	default:
		p.opts.Metrics.FailedOpen(label.StepHandler)
		p.opts.log(unwrapClient(w)).Error("a request failed with an internal error", "error", err)
		answer = internalError(r)
	}
	answer.write(w)
}

func internalError(r *http.Request) *apiError {
	return newAPIError(errorDialect(r), http.StatusServiceUnavailable, "precept could not handle the request; try again")
}

// Drain makes /readyz respond with 503, so that a load balancer uses other replicas while streams end.
func (p *Proxy) Drain() { p.draining.Store(true) }

// Ready returns precept's state in one line. An error tells a load balancer to use a different replica. A failing store
// is not an error, because agents can work without the store.
func (p *Proxy) Ready() (string, error) {
	if p.draining.Load() {
		return "", errors.New("draining")
	}
	if trouble := p.opts.Store.Problem(); trouble != "" {
		return "ok, degraded: " + trouble, nil
	}
	return "ok", nil
}

func (p *Proxy) ready(c echo.Context) error {
	state, err := p.Ready()
	if err != nil {
		return c.String(http.StatusServiceUnavailable, err.Error()+"\n")
	}
	return c.String(http.StatusOK, state+"\n")
}

// apiError is precept's answer to a client in place of an upstream response.
type apiError struct {
	dialect wire.Dialect
	status  int
	message string
}

func (p *apiError) Error() string { return p.message }

func newAPIError(d wire.Dialect, status int, message string) *apiError {
	return &apiError{dialect: d, status: status, message: message}
}

func (p *apiError) write(w http.ResponseWriter) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	if p.status == http.StatusServiceUnavailable {
		h.Set("Retry-After", "1")
	}
	w.WriteHeader(p.status)
	_, _ = w.Write(wire.ErrorBody(p.dialect, p.status, p.message)) //nolint:gosec // the body is JSON and not HTML, and the Content-Type is application/json
}

func errorDialect(r *http.Request) wire.Dialect {
	_, path, _ := session.ParsePath(r.URL.EscapedPath())
	return detectAPI(path, r.Header)
}
