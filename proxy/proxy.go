package proxy

import (
	"io"
	"log"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"precept/bandit"
	"precept/configs"
	"precept/detect"
	"precept/inject"
	"precept/lesson"
	"precept/sample"
	"precept/session"
	"precept/store"
	"precept/trace"
	"precept/wire"
)

// Options are what the data face is made of.
type Options struct {
	Config  *configs.Config
	Store   *store.Store
	Beliefs func(tenant string) *bandit.Chooser // what the chooser believes; it asks nobody
	Book    func() *lesson.Book
	Now     func() time.Time
	Rand    io.Reader // of ids; safe for concurrent use
	Salt    string    // of the coins, where the configuration names none
	Secret  []byte    // of tenant names under by-credential
	Unsure  bool      // Salt and Secret are not the fleet's: nothing may rest on them until Rekey brings those
	Log     *slog.Logger
	Metrics *Metrics
	Tracer  *trace.Tracer // nil: no traces

	Bank      Bank         // the lessons that agents write for themselves; nil: /v1/lessons is the upstream's
	Consulted *Consulted   // how often each was met
	Pending   PendingTexts // what waits for the next turn of a session, at whichever replica; nil: there is one
}

// Proxy is the data listener's handler.
type Proxy struct {
	opts      Options
	pool      pool
	stdlog    *log.Logger
	parses    *wire.Memory
	threads   *session.Threader
	signs     session.Signs
	setMu     sync.Mutex // one configuration after the other
	keys      fleetKeys  // under setMu
	set       atomic.Pointer[settings]
	draining  atomic.Bool
	copies    atomic.Int64 // bytes of replies held for capture
	inFlight  inFlight
	quotes    *session.Quotes
	bookCache bookCache
	commands  *commandQueue
}

// settings is one configuration, made ready. It is swapped whole on reload; a request keeps the one
// it started with.
type settings struct {
	optOut     *sample.OptOut
	experiment bandit.Config // how lessons are chosen
	cfg        *configs.Config
	transports map[transportKey]*http.Transport
	targets    map[string]*target
	routes     map[string]*target // by dialect name and "other"
	injector   *inject.Injector
	keys       map[string]*configs.Key
	secret     []byte
	excluded   bool   // new sessions are no part of the experiment: their coins would fall otherwise on another replica
	nameless   bool   // whose a request is cannot be told: it is passed on, and nothing of it is looked at
	hash       string // of the configuration, for exchanges
}

// fleetKeys are what all replicas on one store must share.
type fleetKeys struct {
	salt   string
	secret []byte
	unsure bool
}

// New makes the data face. It starts nothing.
func New(o Options) (*Proxy, error) {
	p := &Proxy{
		opts: o, keys: fleetKeys{o.Salt, o.Secret, o.Unsure}, stdlog: log.New(io.Discard, "", 0), parses: wire.NewMemory(), threads: session.NewThreader(o.entropy),
		signs:    session.Signs{Side: detect.Side, Tooled: detect.WorksWithTools},
		commands: newCommandQueue(), quotes: session.NewQuotes(),
	}
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
	p.keys = fleetKeys{salt: salt, secret: secret}
	return p.configure(p.set.Load().cfg)
}

func (p *Proxy) configure(c *configs.Config) error {
	s := &settings{
		cfg: c, transports: map[transportKey]*http.Transport{}, targets: map[string]*target{}, routes: map[string]*target{}, keys: map[string]*configs.Key{},
		secret: p.keys.secret, nameless: p.keys.unsure && c.Tenancy == "by-credential", hash: c.Hash(),
	}
	if err := p.upstreams(s); err != nil {
		return err
	}
	for what, name := range c.Route() {
		s.routes[what] = s.targets[name]
	}
	for i := range c.Keys {
		s.keys[c.Keys[i].KeySHA256] = &c.Keys[i]
	}
	salt := c.Bandit.Salt.Reveal()
	if salt == "" {
		salt, s.excluded = p.keys.salt, p.keys.unsure
	}
	in := Injection(c, salt)
	if err := in.Validate(); err != nil {
		return err
	}
	s.injector, s.experiment = inject.New(in), in.Bandit
	var err error
	if s.optOut, err = sample.NewOptOut(nil, c.Learning.OptOutAgents, c.Learning.OptOutTenants); err != nil {
		return err
	}
	if old := p.set.Swap(s); old != nil {
		for _, t := range old.transports {
			p.leave(t)
		}
	}
	return nil
}

// transportKey says which upstreams share their connections: those on one host, under one limit.
type transportKey struct {
	scheme, host string
	header       time.Duration // limits.upstream_header_timeout, which a transport holds for all of its requests
}

// upstreams makes the targets of a configuration, with the transports of the one before where it
// can.
func (p *Proxy) upstreams(s *settings) error {
	old := p.set.Load()
	for name, u := range s.cfg.AllUpstreams() {
		t, err := newTarget(name, u)
		if err != nil {
			return err
		}
		s.targets[name] = t
		key := transportKey{t.base.Scheme, t.base.Host, s.cfg.Limits.UpstreamHeaderTimeout}
		if s.transports[key] == nil && old != nil {
			s.transports[key] = old.transports[key]
		}
		if s.transports[key] == nil {
			s.transports[key] = newTransport(key.header)
		}
		t.transport = s.transports[key]
	}
	return nil
}

// leave is done when a request is over, and when another configuration has come into force: a
// transport that this one does not need keeps no idle connection. What is still on one is followed
// by this; a connection that is just being given back goes when it has been idle for its time.
func (p *Proxy) leave(t *http.Transport) {
	for _, needed := range p.set.Load().transports {
		if t == needed {
			return
		}
	}
	t.CloseIdleConnections()
}

// Injection is what a configuration says of choosing and presenting lessons.
func Injection(c *configs.Config, salt string) inject.Config {
	return inject.Config{
		Writ:  c.Writ.Enabled && c.Writ.Advertise,
		Style: inject.Style(c.Inject.Style), Placement: inject.Placement(c.Inject.Placement), BudgetBytes: int(c.Inject.BudgetBytes), NoLoops: !c.Detect.Loops,
		Tags: lesson.NewTagger(c.Tags), System: c.Match.SystemAgents(),
		Bandit: bandit.Config{
			K: c.Inject.K, Epsilon: c.Bandit.Epsilon, Holdout: bandit.Holdout(c.Bandit.Holdout), Control: c.Bandit.Control,
			Objective: bandit.Objective(c.Bandit.Objective), Salt: salt, TokenCost: c.Bandit.TokenCost,
		},
	}
}

// Experiment is what the report has to know of how lessons are chosen.
func (p *Proxy) Experiment() bandit.Config { return p.set.Load().experiment }

// Presentation is how lessons are presented at present.
func (p *Proxy) Presentation() inject.Config { return p.set.Load().injector.Config() }

// Close ends the upstream connections, after the server has stopped.
func (p *Proxy) Close() {
	for _, t := range p.set.Load().transports {
		t.CloseIdleConnections()
	}
}
