package main

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"precept/admin"
	"precept/configs"
	"precept/lesson"
	"precept/proxy"
	"precept/report"
	"precept/sample"
	"precept/store"
	"precept/store/redis"
	"precept/store/sqlite"
	"precept/trace"
)

// parts is what a service is put together from.
type parts struct {
	*world
	log      *slog.Logger
	registry *prometheus.Registry
	metrics  *proxy.Metrics
	tracer   *trace.Tracer // nil: no traces
	store    *store.Store
	backend  store.Backend // what stands behind it
	proxy    *proxy.Proxy
	book     atomic.Pointer[lesson.Book]
	problems atomic.Int64
	lock     io.Closer
	spool    string // where what waits for the store is written down, "" without
	notice   string // why precept runs from memory, "" when it does not
	quiet    *limiter
	follow   []func(context.Context) error // owners beside the recorder
	bank     *redis.Bank                   // the fleet's lessons; nil when they lie in a directory

	closeAgents func() // the bank that agents write to
}

// wireUp puts a service together and starts nothing.
func (s *server) wireUp(ctx context.Context, cfg *configs.Config, log *slog.Logger) (*service, error) {
	p := &parts{world: s.world, log: log, registry: prometheus.NewRegistry(), quiet: newLimiter(s.now)}
	p.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	p.metrics = proxy.NewMetrics(p.registry)
	backend, err := p.open(ctx, cfg)
	if err != nil {
		return nil, err
	}
	p.backend = backend
	if err := p.build(ctx, cfg, backend); err != nil {
		return nil, errors.Join(err, backend.Close(), p.closeBank(), p.unlock())
	}
	p.follow = append(p.follow, p.proxy.Write)
	if p.tracer != nil {
		p.follow = append(p.follow, p.tracer.Run)
	}
	return &service{
		data:    p.proxy.Handler(), //nolint:contextcheck // each request brings its own
		owners:  append(p.follow, p.store.Run),
		reload:  p.configure,
		forget:  p,
		keep:    keeper{p.world, cfg},
		library: newLibrary(p, cfg),
		drain:   p.proxy.Drain,
		ready:   p.proxy.Ready,
		close:   p.close,
		report:  p,
		archive: p.store,
		rate:    p,
		export:  p,
		vitals:  &vitals{parts: p},
		figures: p.figures,
		metrics: promhttp.HandlerFor(p.registry, promhttp.HandlerOpts{EnableOpenMetrics: true}), // which alone holds exemplars
	}, nil
}

// open claims the data directory and opens the store in it. A directory that cannot be written
// leaves precept running from memory: agents must not suffer from it.
func (p *parts) open(ctx context.Context, cfg *configs.Config) (store.Backend, error) {
	lock, err := sqlite.Lock(cfg.DataDir)
	if errors.Is(err, sqlite.ErrReadOnly) && isRedis(cfg.StoreURL()) {
		p.log.Warn("the data directory cannot be written; the store is elsewhere, and precept goes on", "error", err)
		return p.openRedis(ctx, cfg)
	}
	if errors.Is(err, sqlite.ErrReadOnly) {
		p.fromMemory(err)
		return store.Volatile{}, nil
	}
	if err != nil {
		return nil, err
	}
	p.lock = lock
	if isRedis(cfg.StoreURL()) {
		db, err := p.openRedis(ctx, cfg)
		if err != nil {
			return nil, errors.Join(err, p.unlock())
		}
		return db, nil
	}
	db, err := sqlite.Open(ctx, sqlite.Options{Path: cfg.StoreURL(), Now: p.now, Exclusive: true})
	if errors.Is(err, sqlite.ErrReadOnly) {
		p.fromMemory(err)
		return store.Volatile{}, nil
	}
	if err != nil {
		return nil, errors.Join(err, p.unlock())
	}
	if notice := db.Notice(); notice != "" {
		p.log.Error("the store was damaged", "notice", notice)
	}
	return db, nil
}

func (p *parts) fromMemory(err error) {
	p.notice = err.Error()
	p.log.Error("precept runs from memory: nothing is kept and nothing is learned until the data directory can be written", "error", err)
	p.metrics.FailedOpen("store")
}

// build makes the store, the lessons in force and the data face.
func (p *parts) build(ctx context.Context, cfg *configs.Config, backend store.Backend) error {
	keys, known, err := p.keys(ctx, cfg, backend)
	if err != nil {
		return err
	}
	options, err := p.storeOptions(cfg, backend)
	if err != nil {
		return err
	}
	options.Failed, options.Panicked, options.Secret = p.failed, p.panicked, []byte(keys.Secret)
	p.spool = options.SpoolDir
	p.store, err = store.Open(ctx, options)
	if err != nil {
		return fmt.Errorf("load what was learned: %w", err)
	}
	p.follow = append(p.follow, func(ctx context.Context) error { return p.store.Follow(ctx, store.FollowEvery) })
	proxy.WatchStore(p.registry, p.store)
	if err := p.openLessons(ctx, cfg); err != nil {
		return err
	}
	if cfg.Ledger.File != "" {
		p.follow = append(p.follow, p.followLedger(cfg))
	}
	if st, ok := backend.(distillStore); ok && cfg.Distill.Enabled {
		if err := p.distils(cfg, st); err != nil { //nolint:contextcheck // a check has no context; the look-up is bounded
			return err
		}
	}
	if err := p.traces(cfg); err != nil {
		return err
	}
	agents, consulted, err := p.agentLessons(cfg)
	if err != nil {
		return err
	}
	p.proxy, err = proxy.New(proxy.Options{
		Bank: agents, Consulted: consulted, Tracer: p.tracer,
		Config: cfg, Store: p.store, Book: p.book.Load, Now: p.now, Rand: p.random,
		Salt: keys.Salt, Secret: []byte(keys.Secret), Unsure: !known, Log: p.log, Metrics: p.metrics,
	})
	return err
}

// storeOptions are those of every verb that writes the store, but for whom to tell of failures.
func (w *world) storeOptions(cfg *configs.Config, backend store.Backend) (store.Options, error) {
	optOut, err := sample.NewOptOut(cfg.Learning.OptOutPatterns, cfg.Learning.OptOutAgents, cfg.Learning.OptOutTenants)
	return store.Options{
		Now: w.now, Backend: backend, Fleet: fleetOf(backend), CloseAfter: cfg.Reward.CloseAfter, Tiers: tiers(cfg.Reward.Tiers),
		Lookup: cfg.Limits.LookupTimeout, Sessions: cfg.Limits.Sessions, HoldBytes: int64(cfg.Limits.CaptureTotalBytes), SpoolDir: spoolOf(cfg, backend), SpoolBytes: int64(cfg.Limits.SpoolBytes),
		DeliverEvery: deliverEvery(cfg), Learn: cfg.Learning.Enabled, Personal: cfg.Learning.AnonymizePII,
		OptOut: optOut, Retention: cfg.Learning.Retention, Sentiment: cfg.Reward.Sentiment,
	}, err
}

// configure takes over what a running service can.
func (p *parts) configure(cfg *configs.Config) error {
	optOut, err := sample.NewOptOut(cfg.Learning.OptOutPatterns, cfg.Learning.OptOutAgents, cfg.Learning.OptOutTenants)
	if err != nil {
		return err
	}
	if err := p.proxy.Configure(cfg); err != nil {
		return err
	}
	p.store.SetRetention(cfg.Learning.Retention)
	p.store.SetOptOut(optOut)
	p.store.SetPersonal(cfg.Learning.AnonymizePII)
	return nil
}

// Forget implements admin.Forgetter.
func (p *parts) Forget(ctx context.Context, tenant, session string) (int, error) {
	if session == "" {
		return p.store.ForgetTenant(ctx, tenant)
	}
	return p.store.ForgetSession(ctx, tenant, session)
}

// spoolOf is where what waits for the store is written down: nowhere, when nothing can be written
// or kept.
func spoolOf(cfg *configs.Config, backend store.Backend) string {
	if _, volatile := backend.(store.Volatile); volatile || !cfg.Learning.Enabled {
		return ""
	}
	return spoolDir(cfg)
}

// deliverEvery is how long new turns may wait in the spool. A database of our own likes them in
// larger pieces; replicas that share a Redis want to see at once what another one did.
func deliverEvery(cfg *configs.Config) time.Duration {
	if isRedis(cfg.StoreURL()) {
		return 0
	}
	return min(time.Second, max(cfg.Reward.CloseAfter/10, 100*time.Millisecond))
}

// keys are random values that are made once and kept with the store, so that restarts and replicas
// share them. known is false while a fleet's cannot be learned.
func (p *parts) keys(ctx context.Context, cfg *configs.Config, backend store.Backend) (keys fleetKeys, known bool, err error) {
	if shared, ok := backend.(sharedStore); ok && isRedis(cfg.StoreURL()) {
		f, err := p.agree(ctx, cfg, shared)
		if err != nil {
			return keys, false, err
		}
		p.follow = append(p.follow, f.follow(p))
		return f.keys, f.known, nil
	}
	if keys.Salt, err = p.secret(ctx, backend, "salt"); err == nil {
		keys.Secret, err = p.secret(ctx, backend, "tenant-secret")
	}
	return keys, true, err
}

// freshKey makes a random value.
func (p *parts) freshKey() (string, error) {
	var b [16]byte
	if _, err := io.ReadFull(p.random, b[:]); err != nil {
		return "", fmt.Errorf("make a key: %w", err)
	}
	return hex.EncodeToString(b[:]), nil
}

// secret is a random value that is kept in the store.
func (p *parts) secret(ctx context.Context, backend store.Backend, name string) (string, error) {
	fresh, err := p.freshKey()
	if err != nil {
		return "", err
	}
	keeper, ok := backend.(interface {
		InitMeta(ctx context.Context, key string, value []byte) ([]byte, error)
	})
	if !ok {
		return fresh, nil
	}
	kept, err := keeper.InitMeta(ctx, name, []byte(fresh))
	if err != nil {
		return "", fmt.Errorf("keep the %s: %w", name, err)
	}
	return string(kept), nil
}

// tiers turns the configuration's words into feedback's numbers.
func tiers(words []string) []int {
	var out []int
	for _, w := range words {
		switch w {
		case "user":
			out = append(out, 1)
		case "verifier":
			out = append(out, 2)
		case "implicit":
			out = append(out, 3)
		}
	}
	return out
}

// lessons takes a book into force, and tells what is wrong in the bank.
func (p *parts) lessons(b *lesson.Book, problems []lesson.Problem) {
	old := p.book.Swap(b)
	p.problems.Store(int64(len(problems)))
	for i := range problems {
		p.log.Warn("a lesson file is not in force", "fault", problems[i].Error(), "kept", problems[i].Kept)
	}
	if old == nil || old.Hash() != b.Hash() {
		p.log.Info("lessons in force", "count", len(b.Lessons()), "book", b.Hash())
	}
}

// failed tells of a step that went wrong beside the requests, a line for each step every ten
// seconds at most.
func (p *parts) failed(step string, err error) {
	p.metrics.FailedOpen(step)
	if away(err) {
		if p.quiet.allowEvery("store", time.Minute) {
			p.log.Warn("the store is not available; what it should have waits", "step", step, "error", err)
		}
		return
	}
	if p.quiet.allow(step) {
		p.log.Warn("a step failed; requests go on without it", "step", step, "error", err)
	}
}

// panicked tells of a step that panicked, and of nothing that it was taken at but the request's id.
func (p *parts) panicked(step string, value any) {
	p.metrics.FailedOpen(step)
	if !p.quiet.allow(step) {
		return
	}
	log := p.log
	if at, ok := value.(store.AtRequest); ok {
		log, value = log.With("request", at.Request), at.Value
	}
	log.Error("a step panicked; requests go on without it", "step", step, "panic", proxy.PanicKind(value))
}

// Report implements admin.Reporter.
func (p *parts) Report(ctx context.Context, q admin.Query) (report.Report, error) {
	r, err := p.store.Report(ctx, store.ReportQuery{
		Tenant: q.Tenant, Window: q.Window, Provisional: q.Provisional, WhatIf: q.WhatIf, Explain: q.Explain, Bands: q.Bands, Book: p.book.Load(), Config: p.proxy.Experiment(), Inject: p.proxy.Presentation(),
	})
	if err != nil {
		return r, err
	}
	if err := annotate(ctx, &r, p.backend, q.Tenant); err != nil { // what was measured is told without them
		p.failed("opinions", err)
	}
	return r, nil
}

// figures is the health of the service, for the dashboard.
func (p *parts) figures(context.Context) []admin.Figure {
	t := &p.store.Tally
	out := append(p.lessonFigures(), []admin.Figure{
		{Name: "Sessions in memory", Value: strconv.Itoa(p.store.Sessions())},
		{Name: "Exchanges stored since start", Value: strconv.FormatInt(t.Exchanges.Load(), 10)},
		{Name: "Exchanges waiting", Value: strconv.FormatInt(t.Pending.Load(), 10)},
		{Name: "Sessions closed since start", Value: strconv.FormatInt(t.Closed.Load(), 10)},
	}...)
	if p.notice != "" {
		out = append(out, admin.Figure{Name: "Store", Value: "none: " + p.notice, Bad: true})
	} else if !p.store.Healthy() {
		out = append(out, admin.Figure{Name: "Store", Value: "the last write failed and is being repeated", Bad: true})
	}
	return out
}

func (p *parts) lessonFigures() []admin.Figure {
	return []admin.Figure{
		{Name: "Lessons in force", Value: strconv.Itoa(len(p.book.Load().Lessons()))},
		{Name: "Lesson files with faults", Value: strconv.FormatInt(p.problems.Load(), 10), Bad: p.problems.Load() > 0},
	}
}

// close ends what start-up opened, after the owners have returned.
func (p *parts) close() error {
	p.proxy.Close()
	return errors.Join(p.store.Close(), p.closeBank(), p.unlock())
}

func (p *parts) closeBank() error {
	if p.closeAgents != nil {
		p.closeAgents()
	}
	if p.bank == nil {
		return nil
	}
	return p.bank.Close()
}

func (p *parts) unlock() error {
	if p.lock == nil {
		return nil
	}
	return p.lock.Close()
}

// limiter lets one line a step through every ten seconds.
type limiter struct {
	now  func() time.Time
	mu   sync.Mutex
	last map[string]time.Time
}

func newLimiter(now func() time.Time) *limiter {
	return &limiter{now: now, last: map[string]time.Time{}}
}

func (l *limiter) allow(step string) bool { return l.allowEvery(step, 10*time.Second) }

// mute counts a line as told that was told by other means.
func (l *limiter) mute(step string) { l.allow(step) }

func (l *limiter) allowEvery(step string, every time.Duration) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	if now.Sub(l.last[step]) < every {
		return false
	}
	l.last[step] = now
	return true
}
