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

// Proxy is the data listener's handler. What all of its requests share is here; each takes what its
// parts need along.
type Proxy struct {
	opts     Options
	setMu    sync.Mutex // one configuration after the other
	fleet    fleetKeys  // under setMu
	set      atomic.Pointer[settings]
	draining atomic.Bool
	unlogged *log.Logger // ReverseProxy's: what it has to say is told elsewhere

	pool     pool
	inFlight inFlight
	parses   *wire.Memory
	resolver *resolve.Resolver
	lessons  agentLessons
	commands *commandQueue
}

// New makes the data face. It starts nothing.
func New(o Options) (*Proxy, error) {
	p := &Proxy{
		opts: o, fleet: fleetKeys{o.Salt, o.Secret, o.Unsure}, unlogged: log.New(io.Discard, "", 0), parses: wire.NewMemory(),
	}
	p.resolver = resolve.New(o.Store, o.Now, p.opts.entropy)
	p.lessons.opts = &p.opts
	p.commands = newCommandQueue(&p.lessons)
	return p, p.Configure(o.Config)
}

// Configure takes a new configuration into force for the requests that come from now on.
func (p *Proxy) Configure(c *configs.Config) error {
	p.setMu.Lock()
	defer p.setMu.Unlock()
	return p.configure(c)
}

// Rekey takes the fleet's salt and secret into force, for the requests that come from now on.
func (p *Proxy) Rekey(salt string, secret []byte) error {
	p.setMu.Lock()
	defer p.setMu.Unlock()
	p.fleet = fleetKeys{salt: salt, secret: secret}
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

// ExecuteCommands executes the commands of agents until ctx is done, and then those still queued.
func (p *Proxy) ExecuteCommands(ctx context.Context) error { return p.commands.run(ctx) }

// Experiment is what the report has to know of how lessons are chosen.
func (p *Proxy) Experiment() bandit.Config { return p.set.Load().injector.Config().Bandit }

// Presentation is how lessons are presented at present.
func (p *Proxy) Presentation() inject.Config { return p.set.Load().injector.Config() }

// Close ends the upstream connections, after the server has stopped.
func (p *Proxy) Close() {
	for _, t := range p.set.Load().transports {
		t.CloseIdleConnections()
	}
}
