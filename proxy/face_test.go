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

// What tests of the public face have to know of the inside is handed to them here, by its name.

// Parts is what the face was made of; tests put others in their place before the first request.
func (p *Proxy) Parts() *Options { return &p.opts }

// BreakDeciding lets every decision panic.
func (p *Proxy) BreakDeciding() { p.set.Load().injector = nil }

// Front is what stands before all handlers.
func (p *Proxy) Front(next http.Handler) http.Handler { return p.front(next) }

// Routes are precept's own paths.
func (p *Proxy) Routes() []*echo.Route { return p.router().Routes() }

// UnderWay is what all requests together take at present.
func (p *Proxy) UnderWay() (requests, bodies, copies int64) {
	return p.inFlight.requests.Load(), p.inFlight.bodies.Load(), p.inFlight.copies.Load()
}

// Transport is that of the upstreams whose host begins so.
func (p *Proxy) Transport(host string) *http.Transport {
	for key, one := range p.set.Load().transports {
		if strings.HasPrefix(key.host, host) {
			return one
		}
	}
	return nil
}

// Speaks is what a request may claim.
func (p *Proxy) Speaks(r *http.Request) (session.Claim, error) {
	who, err := p.set.Load().authenticate(r, wire.None)
	c := session.Identify(r.Header, r.URL.EscapedPath(), nil)
	who.claims(&c)
	return c, err
}

// Unable answers for a fault of precept's own.
func Unable(w http.ResponseWriter, r *http.Request) { unable(r).write(w) }

// Family is the API that a path belongs to.
func Family(path string, h http.Header) wire.Dialect { return family(path, h) }

// Target is an upstream.
type Target = target

// NewTarget reads an upstream's URL.
func NewTarget(name, raw string) (*Target, error) { return newTarget(name, raw) }

// Series are the counters of the name's first word.
func (m *Metrics) Series(name string) *prometheus.CounterVec {
	return map[string]*prometheus.CounterVec{
		"requests": m.requests, "fail_open": m.failOpen, "sessions": m.sessions.new, "excluded": m.sessions.excluded, "side": m.sessions.side, "uninspected": m.uninspected,
		"unread": m.unread, "tokens": m.upstream.tokens,
	}[name]
}

// Injected counts lessons.
func (m *Metrics) Injected() prometheus.Counter { return m.lessons.injected }

// Resolve maps a client's path onto the upstream.
func (t *Target) Resolve(path, query string, lone bool) *url.URL { return t.resolve(path, query, lone) }

// WarnUnknown tells of a path that the upstream does not know.
func (t *Target) WarnUnknown(log func() *slog.Logger, asked, sent string) {
	t.warnUnknown(log, asked, sent)
}
