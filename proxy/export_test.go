package proxy

import (
	"log/slog"
	"net/http"
	"net/url"
	"strings"

	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus"

	"precept/internal/session"
	"precept/internal/wire"
)

// This file exports parts of the proxy to the tests in package proxy_test.

// Options returns the options of the proxy, which tests may change before the first request.
func (p *Proxy) Options() *Options { return &p.opts }

// MakeDecisionsPanic makes every decision panic.
func (p *Proxy) MakeDecisionsPanic() { p.settings.Load().injector = nil }

// WithMiddleware wraps next with the middleware of all handlers.
func (p *Proxy) WithMiddleware(next http.Handler) http.Handler { return p.front(next) }

// Routes returns the routes of precept's endpoints.
func (p *Proxy) Routes() []*echo.Route { return p.router().Routes() }

// InFlight returns the number of requests in flight, and the sizes of their bodies and of the copies of their replies.
func (p *Proxy) InFlight() (requests, bodies, copies int64) {
	return p.inFlight.requests.Load(), p.inFlight.bodies.Load(), p.inFlight.copies.Load()
}

// Transport returns the transport of an upstream whose host begins with host.
func (p *Proxy) Transport(host string) *http.Transport {
	for key, transport := range p.settings.Load().transports {
		if strings.HasPrefix(key.host, host) {
			return transport
		}
	}
	return nil
}

// ClaimOf returns the identity that a request claims, restricted by its credential.
func (p *Proxy) ClaimOf(r *http.Request) (session.Claim, error) {
	caller, err := p.settings.Load().authenticate(r, wire.NoDialect)
	c := session.Identify(r.Header, r.URL.EscapedPath(), nil)
	caller.restrict(&c)
	return c, err
}

// WriteInternalError writes the response for an internal error of precept.
func WriteInternalError(w http.ResponseWriter, r *http.Request) { internalError(r).write(w) }

// APIOf returns the API of a request.
func APIOf(path string, h http.Header) wire.Dialect { return apiOf(path, h) }

// Target is an upstream.
type Target = target

// NewTarget returns the upstream with a URL.
func NewTarget(name, raw string) (*Target, error) { return newTarget(name, raw) }

// Series returns the counter vector with the short name, such as "side" for the counter of side requests.
func (m *Metrics) Series(shortName string) *prometheus.CounterVec {
	return map[string]*prometheus.CounterVec{
		"requests": m.requests, "fail_open": m.failOpen, "sessions": m.sessions.newSessions, "excluded": m.sessions.excludedSessions, "side": m.sessions.sideRequests, "uninspected": m.uninspected,
		"unread": m.unsupported, "tokens": m.upstream.tokens,
	}[shortName]
}

// Injected returns the counter of injected lessons.
func (m *Metrics) Injected() prometheus.Counter { return m.lessons.injected }

// Resolve returns the URL at the upstream for a path that a client requests.
func (t *Target) Resolve(path, query string, forceQuery bool) *url.URL {
	return t.resolve(path, query, forceQuery)
}

// WarnUnknown logs a path that the upstream does not know.
func (t *Target) WarnUnknown(log func() *slog.Logger, asked, sent string) {
	t.warnUnknown(log, asked, sent)
}
