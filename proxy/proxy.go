package proxy

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"log"
	"log/slog"
	"net/http"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/labstack/echo/v4"

	"precept/bandit"
	"precept/configs"
	"precept/detect"
	"precept/inject"
	"precept/lesson"
	"precept/redact"
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

	Bank      Bank       // the lessons that agents write for themselves; nil: /v1/lessons is the upstream's
	Consulted *Consulted // how often each was met
	Letters   Letters    // what waits for the next turn of a session, at whichever replica; nil: there is one
}

// Proxy is the data listener's handler.
type Proxy struct {
	opts       Options
	pool       pool
	stdlog     *log.Logger
	parses     *wire.Memory
	threads    *session.Threader
	signs      session.Signs
	setMu      sync.Mutex                        // one configuration after the other
	keys       fleetKeys                         // under setMu
	transports map[transportKey]*sharedTransport // of the configuration in force; under setMu
	set        atomic.Pointer[settings]
	draining   atomic.Bool
	copies     atomic.Int64 // bytes of replies held for capture
	inFlight   inFlight
	quotes     *session.Quotes
	bookCache  bookCache
	commands   *commandQueue
}

// settings is one configuration, made ready. It is swapped whole on reload; a request keeps the one
// it started with.
type settings struct {
	optOut     *sample.OptOut
	experiment bandit.Config // how lessons are chosen
	cfg        *configs.Config
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
	o.Rand = &randomBuffer{from: bufio.NewReaderSize(o.Rand, 1<<10)}
	p := &Proxy{
		opts: o, keys: fleetKeys{o.Salt, o.Secret, o.Unsure}, stdlog: discardLog(), parses: wire.NewMemory(), threads: session.NewThreader(session.Options{Entropy: o.entropy}),
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
		cfg: c, targets: map[string]*target{}, routes: map[string]*target{}, keys: map[string]*configs.Key{},
		secret: p.keys.secret, nameless: p.keys.unsure && c.Tenancy == "by-credential", hash: c.Hash(),
	}
	transports, err := p.upstreams(s)
	if err != nil {
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
	if err := errors.Join(in.Validate(), in.Bandit.Validate()); err != nil {
		return err
	}
	s.injector, s.experiment = inject.New(in), in.Bandit
	if s.optOut, err = sample.NewOptOut(nil, c.Learning.OptOutAgents, c.Learning.OptOutTenants); err != nil {
		return err
	}
	p.set.Store(s)
	p.swapTransports(transports)
	return nil
}

// upstreams makes the targets of a configuration, with the transports of the one before where it
// can.
func (p *Proxy) upstreams(s *settings) (map[transportKey]*sharedTransport, error) {
	transports := map[transportKey]*sharedTransport{}
	for name, u := range s.cfg.AllUpstreams() {
		t, err := newTarget(name, u)
		if err != nil {
			return nil, err
		}
		s.targets[name] = t
		key := transportKey{t.base.Scheme, t.base.Host, s.cfg.Limits.UpstreamHeaderTimeout}
		if t.transport = transports[key]; t.transport == nil {
			if t.transport = p.transports[key]; t.transport == nil {
				t.transport = newSharedTransport(key.header)
			}
			transports[key] = t.transport
		}
	}
	return transports, nil
}

// swapTransports takes new transports into use, and retires those that are not among them.
func (p *Proxy) swapTransports(transports map[transportKey]*sharedTransport) {
	old := p.transports
	p.transports = transports
	for key, r := range old {
		if transports[key] != r {
			r.retire()
		}
	}
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
	e.RouteNotFound("/*", func(c echo.Context) error { return p.pass(c.Response().Writer.(*clientWriter), c.Request()) }) //nolint:errcheck,forcetypeassert // front made it
	return e
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
			p.fail(refusal(wire.None, http.StatusMethodNotAllowed, "precept is a reverse proxy and opens no tunnels"), w, r)
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
		p.log(w).Error("a request panicked", "panic", redact.PanicKind(v), "stack", string(debug.Stack()))
		if w.code == 0 {
			p.fail(errPanicked, w, r)
			v = nil
		} else {
			p.opts.Metrics.FailedOpen("handler")
			v = http.ErrAbortHandler
		}
	}
	w.end()
	p.opts.Metrics.request(w.dialect, w.code)
	if v != nil {
		panic(v)
	}
}

// errPanicked is what a panic is to the client.
var errPanicked = errors.New("panicked")

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

// Close ends the upstream connections, after the server has stopped.
func (p *Proxy) Close() {
	p.setMu.Lock()
	defer p.setMu.Unlock()
	p.swapTransports(nil)
}

func (p *Proxy) ready(c echo.Context) error {
	how, err := p.Ready()
	if err != nil {
		return c.String(http.StatusServiceUnavailable, err.Error()+"\n")
	}
	return c.String(http.StatusOK, how+"\n")
}

// randomBuffer reads random bytes ahead, because asking the system for each id costs more than the
// id does. It is safe for concurrent use.
type randomBuffer struct {
	mu   sync.Mutex
	from *bufio.Reader
}

// Read implements io.Reader.
func (a *randomBuffer) Read(b []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.from.Read(b)
}

// newID mints an id: a prefix and 12 random bytes.
func (p *Proxy) newID(prefix string) string {
	b := p.opts.entropy()
	return prefix + hex.EncodeToString(b[:12])
}

// entropy is 16 random bytes.
func (o *Options) entropy() (b [16]byte) {
	if _, err := io.ReadFull(o.Rand, b[:]); err != nil {
		// The system's random source does not fail. If it does, the time still tells ids apart.
		sum := sha256.Sum256([]byte(o.Now().String()))
		copy(b[:], sum[:])
	}
	return b
}
