// Package proxy is the data listener. It receives the requests of agents, inserts lessons, and forwards the requests
// with httputil.ReverseProxy.
//
// A request to the Chat, Responses or Messages API has an inspected path. precept reads the body of such a request and
// may change the body. Requests on other paths are only forwarded.
//
// Contract: bytes that precept does not understand are forwarded unchanged. A change of a request is a splice of text.
// Response bytes never change. No fault of precept changes the status, the body or the time of a request. Therefore
// each step of learning runs in runStep. If the step panics, runStep counts and logs the panic, and the request is
// forwarded without the step.
//
// serveTurn in turn.go has all steps of a request in order. Each step is in the file of its name: read.go, the package
// resolve, decide.go, forward.go with tap.go (the reply), record.go and observe.go. lessons.go and commands.go serve
// the lessons that agents write, mailbox.go collects the answers to /lesson commands, feedback.go serves POST
// /v1/feedback, and path.go normalises paths.
//
// Hazard: the transport of net/http may read a request body after RoundTrip has returned. Only payload.release returns
// the pooled buffer of a body to the pool. Every later read of the body gets no bytes.
package proxy

import (
	"context"
	"io"
	"log"
	"sync"
	"sync/atomic"

	"precept/bandit"
	"precept/configs"
	"precept/inject"
	"precept/internal/wire"
	"precept/proxy/resolve"
)

// Proxy is the handler of the data listener. A Proxy holds the state that all requests share.
type Proxy struct {
	opts       Options
	settingsMu sync.Mutex // guards fleet, and changes of set
	fleet      FleetKeys
	settings   atomic.Pointer[settings] // the current configuration
	draining   atomic.Bool
	unlogged   *log.Logger // discards the log of ReverseProxy, whose errors forward.go reports

	pool     pool
	inFlight inFlight
	parses   *wire.ParseCache
	resolver *resolve.Resolver
	lessons  agentLessons
	commands *commandQueue

	deliveries    deliveries          // newest deliveries of webhooks
	unknownKeys   unknownTexts        // keys of the path form that were logged
	unknownLearns unknownTexts        // values of Precept-Learn that were logged
	unsupported   unsupportedRequests // counts requests of an unsupported API
	refusedHooks  refusedHooks        // counts deliveries of webhooks that no configured secret signed
}

// New returns the handler of a data listener. New starts no goroutine.
func New(o Options) (*Proxy, error) {
	p := &Proxy{opts: o, fleet: o.Fleet, unlogged: log.New(io.Discard, "", 0), parses: wire.NewParseCache()}
	p.resolver = resolve.New(o.Store, o.Now, p.opts.entropy)
	p.lessons.opts = &p.opts
	p.commands = newCommandQueue(&p.lessons)
	return p, p.Configure(o.Config)
}

// Configure replaces the configuration for later requests.
func (p *Proxy) Configure(c *configs.Config) error {
	p.settingsMu.Lock()
	defer p.settingsMu.Unlock()
	return p.configure(c)
}

// Rekey replaces the salt and the secret of the fleet for later requests.
func (p *Proxy) Rekey(salt string, secret []byte) error {
	p.settingsMu.Lock()
	defer p.settingsMu.Unlock()
	p.fleet = FleetKeys{Salt: salt, Secret: secret}
	return p.configure(p.settings.Load().cfg)
}

// configure applies a configuration to new requests, and closes the idle connections of transports that the new
// settings do not use. After an error, the old settings stay in effect.
func (p *Proxy) configure(c *configs.Config) error {
	old := p.settings.Load()
	s, err := newSettings(c, p.fleet, old)
	if err != nil {
		return err
	}
	p.settings.Store(s)
	if old != nil {
		for _, t := range old.transports {
			s.closeIdle(t)
		}
	}
	return nil
}

// ExecuteCommands executes the /lesson commands of agents until ctx is done. It then executes the commands that are
// still queued.
func (p *Proxy) ExecuteCommands(ctx context.Context) error { return p.commands.run(ctx) }

// ChooserConfig returns the configuration of the chooser, for the report.
func (p *Proxy) ChooserConfig() bandit.Config { return p.settings.Load().injector.Config().Bandit }

// InjectionConfig returns the configuration that presents lessons.
func (p *Proxy) InjectionConfig() inject.Config { return p.settings.Load().injector.Config() }

// Guardrails returns the outcomes that the report guards.
func (p *Proxy) Guardrails() []string { return p.settings.Load().cfg.Report.Guardrails }

// Close closes the idle connections to the upstreams, after the server has stopped.
func (p *Proxy) Close() {
	for _, t := range p.settings.Load().transports {
		t.CloseIdleConnections()
	}
}
