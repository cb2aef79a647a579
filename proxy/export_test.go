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

// These functions give the tests in package proxy_test access to unexported parts.

// Options returns the options, which a test may change before the first request.
func (p *Proxy) Options() *Options { return &p.opts }

func (p *Proxy) MakeDecisionsPanic() { p.settings.Load().injector = nil }

func (p *Proxy) WithMiddleware(next http.Handler) http.Handler { return p.front(next) }

func (p *Proxy) Routes() []*echo.Route { return p.router().Routes() }

// InFlight returns the request count, and the bytes in request bodies and in reply copies.
func (p *Proxy) InFlight() (requests, bodies, copies int64) {
	return p.inFlight.requests.Load(), p.inFlight.requestBodyBytes.Load(), p.inFlight.replyCopyBytes.Load()
}

// Transport returns the transport for an upstream with a host that begins with host.
func (p *Proxy) Transport(host string) *http.Transport {
	for key, transport := range p.settings.Load().transports {
		if strings.HasPrefix(key.host, host) {
			return transport
		}
	}
	return nil
}

// RequestClaim returns the claimed identity, restricted by the credential.
func (p *Proxy) RequestClaim(r *http.Request) (session.Claim, error) {
	caller, err := p.settings.Load().authenticate(r, wire.NoDialect)
	c := session.Identify(r.Header, r.URL.EscapedPath(), nil)
	caller.restrict(&c)
	return c, err
}

func WriteInternalError(w http.ResponseWriter, r *http.Request) { internalError(r).write(w) }

func DetectAPI(path string, h http.Header) wire.Dialect { return detectAPI(path, h) }

type Target = target

func NewTarget(name, raw string) (*Target, error) { return newTarget(name, raw) }

// Series returns the counter with a short name, such as "side" for side requests.
func (m *Metrics) Series(shortName string) *prometheus.CounterVec {
	return map[string]*prometheus.CounterVec{
		"requests": m.requests, "fail_open": m.failOpen, "sessions": m.sessions.newSessions, "excluded": m.sessions.excludedSessions, "side": m.sessions.sideRequests, "uninspected": m.uninspected,
		"unread": m.unreadReplies, "tokens": m.upstream.tokens,
	}[shortName]
}

func (m *Metrics) Injected() prometheus.Counter { return m.lessons.injected }

func (t *Target) Resolve(path, query string, forceQuery bool) *url.URL {
	return t.resolve(path, query, forceQuery)
}

func (t *Target) WarnUnknown(log func() *slog.Logger, asked, sent string) {
	t.warnUnknown(log, asked, sent)
}
