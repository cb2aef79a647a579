// Package proxy is the data listener: it receives agents' requests, inserts lessons, and forwards the requests with
// httputil.ReverseProxy.
//
// precept reads and can change requests to the Chat, Responses and Messages APIs (the inspected paths). All other
// requests are only forwarded.
//
// Contract: a request changes only by insertions and deletions in the body, and response bytes never change. A fault in
// precept does not change the status, body or duration of a response. Therefore each learning step runs in runStep,
// which recovers from a panic.
//
// serveTurn in turn.go calls a request's steps in order: read.go, package resolve, decide.go, forward.go (with tap.go
// for the reply), record.go, and observe.go.
//
// Hazard: net/http's transport can read a request body after RoundTrip has returned. Therefore a buffer goes back to
// the pool only in payload.release, which first detaches the buffer from the body's readers.
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

// Proxy is the data listener's handler, with the state shared by all requests.
type Proxy struct {
	opts       Options
	settingsMu sync.Mutex // guards fleet, and changes to settings
	fleet      FleetKeys
	settings   atomic.Pointer[settings]
	draining   atomic.Bool
	discardLog *log.Logger // discards ReverseProxy's log, because forward.go reports the same errors

	pool       pool
	inFlight   inFlight
	parseCache *wire.ParseCache
	resolver   *resolve.Resolver
	lessons    agentLessons
	commands   *commandQueue

	deliveries         deliveries   // newest webhook deliveries
	unknownKeys        unknownTexts // unknown keys after /p/ in a base URL, already logged
	unknownLearnValues unknownTexts // unknown Precept-Learn values, already logged
	unsupported        unsupportedRequests
	refusedHooks       refusedHooks // webhooks not signed by any configured secret
}

// New returns a data listener's handler. New starts no goroutine.
func New(o Options) (*Proxy, error) {
	p := &Proxy{opts: o, fleet: o.Fleet, discardLog: log.New(io.Discard, "", 0), parseCache: wire.NewParseCache()}
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

// Rekey replaces the fleet's salt and secret for later requests.
func (p *Proxy) Rekey(salt string, secret []byte) error {
	p.settingsMu.Lock()
	defer p.settingsMu.Unlock()
	p.fleet = FleetKeys{Salt: salt, Secret: secret}
	return p.configure(p.settings.Load().cfg)
}

// configure applies a configuration, and closes idle connections in unused transports. After an error, the old settings
// stay in effect.
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

// ExecuteCommands executes agents' /lesson commands until ctx is done, and then executes the commands still in the
// queue.
func (p *Proxy) ExecuteCommands(ctx context.Context) error { return p.commands.run(ctx) }

// ChooserConfig returns the chooser's configuration for the report.
func (p *Proxy) ChooserConfig() bandit.Config { return p.settings.Load().injector.Config().Bandit }

// InjectionConfig returns the configuration for presenting lessons.
func (p *Proxy) InjectionConfig() inject.Config { return p.settings.Load().injector.Config() }

// Guardrails returns the outcomes that the report checks for harm (report.guardrails).
func (p *Proxy) Guardrails() []string { return p.settings.Load().cfg.Report.Guardrails }

// Close closes idle upstream connections. Call Close after the server has stopped.
func (p *Proxy) Close() {
	for _, t := range p.settings.Load().transports {
		t.CloseIdleConnections()
	}
}
