// Package proxy is the data listener: it takes the requests of agents, inserts lessons, and forwards
// everything with httputil.ReverseProxy.
//
// Contract: bytes that precept does not understand pass unchanged. A change of a request is one
// splice of text. Response bytes never change. No fault of precept changes the status, the body or
// the time of a request: each step of learning runs under a guard that counts a panic or an error,
// and the request is forwarded as it came.
//
// serveTurn in turn.go tells a request from top to bottom. Its steps are in the files of their name:
// read.go, the package resolve, decide.go, forward.go with tap.go (the reply), record.go and
// observe.go. Beside the turn: lessons.go and commands.go serve the lessons that agents write for
// themselves, mailbox.go has the answers to /lesson commands, feedback.go is POST /v1/feedback.
//
// Hazard: the transport of net/http may read a request body after RoundTrip has returned. The pooled
// buffer of a body is given back only through payload.release, which first makes every later read
// fail.
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

// Proxy is the handler of the data listener. A Proxy holds what all requests share.
type Proxy struct {
	opts     Options
	setMu    sync.Mutex // one configuration after the other
	fleet    FleetKeys  // under setMu
	set      atomic.Pointer[settings]
	draining atomic.Bool
	unlogged *log.Logger // of ReverseProxy, whose errors forward.go reports

	pool     pool
	inFlight inFlight
	parses   *wire.Memory
	resolver *resolve.Resolver
	lessons  agentLessons
	commands *commandQueue
}

// New returns a data listener. New starts no goroutine.
func New(o Options) (*Proxy, error) {
	p := &Proxy{opts: o, fleet: o.Fleet, unlogged: log.New(io.Discard, "", 0), parses: wire.NewMemory()}
	p.resolver = resolve.New(o.Store, o.Now, p.opts.entropy)
	p.lessons.opts = &p.opts
	p.commands = newCommandQueue(&p.lessons)
	return p, p.Configure(o.Config)
}

// Configure puts a configuration into effect for the requests that come from now on.
func (p *Proxy) Configure(c *configs.Config) error {
	p.setMu.Lock()
	defer p.setMu.Unlock()
	return p.configure(c)
}

// Rekey puts the salt and the secret of the fleet into effect for the requests that come from now on.
func (p *Proxy) Rekey(salt string, secret []byte) error {
	p.setMu.Lock()
	defer p.setMu.Unlock()
	p.fleet = FleetKeys{Salt: salt, Secret: secret}
	return p.configure(p.set.Load().cfg)
}

func (p *Proxy) configure(c *configs.Config) error {
	old := p.set.Load()
	s, err := newSettings(c, p.fleet, old)
	if err != nil {
		return err
	}
	p.set.Store(s)
	if old != nil {
		for _, t := range old.transports {
			s.leave(t)
		}
	}
	return nil
}

// ExecuteCommands executes the /lesson commands of agents until ctx is done, and then the queued ones.
func (p *Proxy) ExecuteCommands(ctx context.Context) error { return p.commands.run(ctx) }

// Experiment returns what the report needs to know of how lessons are chosen.
func (p *Proxy) Experiment() bandit.Config { return p.set.Load().injector.Config().Bandit }

// Presentation returns how lessons are presented.
func (p *Proxy) Presentation() inject.Config { return p.set.Load().injector.Config() }

// Close closes the idle connections to the upstreams, after the server has stopped.
func (p *Proxy) Close() {
	for _, t := range p.set.Load().transports {
		t.CloseIdleConnections()
	}
}
