package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"precept/configs"
	"precept/inject/bank"
	"precept/inject/lesson"
	"precept/internal/label"
	"precept/internal/sample"
	"precept/internal/session"
	"precept/learn"
	"precept/proxy"
	"precept/proxy/trace"
	"precept/store"
	"precept/store/redis"
	"precept/store/sqlite"
)

// parts is a precept that has been put together and not been started.
type parts struct {
	*Tools
	cfg      *configs.Config // of the start
	log      *slog.Logger
	registry *prometheus.Registry
	metrics  *proxy.Metrics
	tracer   *trace.Tracer // nil: no traces
	store    *store.Store
	archive  *store.Archive
	learner  *learn.Learner
	backend  Backend // what stands behind both
	proxy    *proxy.Proxy
	book     atomic.Pointer[lesson.Book]
	problems atomic.Int64
	lock     io.Closer
	spool    string // where what waits for the store is written down, "" without
	notice   string // why precept runs from memory, "" when it does not
	absent   bool   // the store could not be used at the start
	quiet    *limiter
	owners   []func(context.Context) error // the goroutines: each runs until its context ends, and writes down what it holds
	bank     *redis.Bank                   // the fleet's lessons; nil when they lie in a directory
	place    bank.Place                    // where the lessons lie
	writer   *bank.Bank                    // by which they are changed
}

// wireUp puts a precept together and starts nothing.
func (w *Tools) wireUp(ctx context.Context, cfg *configs.Config, log *slog.Logger) (*parts, error) {
	p := &parts{
		Tools: w, cfg: cfg, log: log, registry: prometheus.NewRegistry(), quiet: newLimiter(w.Now),
	}
	p.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(
		collectors.ProcessCollectorOpts{},
	))
	p.metrics = proxy.NewMetrics(p.registry)
	backend, err := p.open(ctx, cfg)
	if err != nil {
		return nil, err
	}
	p.backend = backend
	if err := fenced(func() error { return p.build(ctx, cfg, backend) }); err != nil {
		return nil, errors.Join(err, backend.Close(), p.closeBank(), p.unlock())
	}
	p.owners = append(p.owners, p.proxy.ExecuteCommands, p.store.Run)
	if p.tracer != nil {
		p.owners = append(p.owners, p.tracer.Run)
	}
	return p, nil
}

// open claims the data directory and opens the store in it. A directory that cannot be written, on
// a full disk or one that fails, leaves precept running from memory: agents must not suffer from
// it.
func (p *parts) open(ctx context.Context, cfg *configs.Config) (Backend, error) {
	lock, err := sqlite.Lock(cfg.DataDir)
	if errors.Is(err, sqlite.ErrReadOnly) && IsRedis(cfg.StoreURL()) {
		p.log.Warn(
			"the data directory cannot be written; the store is elsewhere, and precept goes on",
			"error", err,
		)
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
	if IsRedis(cfg.StoreURL()) {
		db, err := p.openRedis(ctx, cfg)
		if err != nil {
			return nil, errors.Join(err, p.unlock())
		}
		return db, nil
	}
	db, err := sqlite.Open(ctx, sqlite.Options{
		Path: cfg.StoreURL(), Now: p.Now, Exclusive: true, MaxFeedback: cfg.Limits.Feedback,
	})
	if errors.Is(err, sqlite.ErrReadOnly) || errors.Is(err, session.ErrDiskFull) ||
		errors.Is(err, sqlite.ErrDisk) {
		p.fromMemory(err)
		return store.Volatile{}, nil
	}
	if err != nil {
		return nil, errors.Join(err, p.unlock())
	}
	if notice := db.Notice(); notice != "" {
		p.log.Error("the store was damaged", "notice", notice)
	}
	if from, to := db.Upgraded(); from < to {
		p.log.Info("the store was upgraded: an older release does not open it any more", "from_schema", from, "to_schema", to)
	}
	return db, nil
}

func (p *parts) fromMemory(err error) {
	p.notice, p.absent = err.Error(), true
	p.log.Error(
		"precept runs from memory: nothing is kept and nothing is learned until it is started with a data directory that can be written",
		"error", err,
	)
	p.metrics.FailedOpen(label.StepStore)
}

// build makes the store, the lessons in force and the data face.
func (p *parts) build(ctx context.Context, cfg *configs.Config, backend Backend) error {
	keys, known, err := p.keys(ctx, cfg, backend)
	if err != nil {
		return err
	}
	options, err := p.StoreOptions(cfg, backend)
	if err != nil {
		return err
	}
	options.Failed, options.Panicked, options.Secret = p.failed, p.panicked, []byte(keys.Secret)
	options.Absent = p.absent
	p.spool = options.SpoolDir
	p.store, err = store.Open(ctx, options)
	if err != nil {
		return fmt.Errorf("open the store: %w", err)
	}
	p.archive = p.store.Archive(rewardDefinition(cfg))
	WatchStore(p.registry, p.store)
	if err := p.learn(ctx, cfg); err != nil {
		return err
	}
	if err := p.openLessons(ctx, cfg); err != nil {
		return err
	}
	if cfg.Ledger.File != "" {
		p.owners = append(p.owners, p.followLedger(cfg))
	}
	if st, ok := backend.(DistillStore); ok && cfg.Distill.Enabled {
		if err := p.distils(cfg, st); err != nil { //nolint:contextcheck // a check has no context; the look-up is bounded
			return err
		}
	}
	if err := p.traces(cfg); err != nil {
		return err
	}
	p.proxy, err = proxy.New(proxy.Options{
		Bank: p.writer, Consulted: p.consulted(cfg, backend), Pending: shared[proxy.PendingTexts](backend), Tracer: p.tracer,
		Config: cfg, Store: p.store, Beliefs: p.learner.Beliefs, Book: p.book.Load, Now: p.Now,
		Rand: p.Random,
		Salt: keys.Salt, Secret: []byte(keys.Secret), Unsure: !known, Log: p.log,
		Metrics: p.metrics,
	})
	return err
}

// learn makes what learns from what the store keeps. It stops after the recorder: what came last is
// learned as well.
func (p *parts) learn(ctx context.Context, cfg *configs.Config) (err error) {
	o := p.LearnOptions(cfg, p.backend)
	o.Memory, o.Recorder, o.Touches, o.Guard, o.Failed = p.store, p.store, p.store, p.store.Guard(), p.failed
	if p.learner, err = learn.Open(ctx, o); err != nil {
		return fmt.Errorf("load what was learned: %w", err)
	}
	WatchLearning(p.registry, &p.learner.Tally)
	p.owners = append(p.owners,
		func(ctx context.Context) error { return p.learner.Follow(ctx, learn.FollowEvery) },
		func(ctx context.Context) error { return p.learner.Run(ctx, p.store.Drained()) })
	return nil
}

// configure takes over what a running service can.
func (p *parts) configure(cfg *configs.Config) error {
	optOut, err := sample.NewOptOut(
		cfg.Learning.OptOutPatterns, cfg.Learning.OptOutAgents, cfg.Learning.OptOutTenants,
	)
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

// close ends what start-up opened, after the owners have returned.
func (p *parts) close() error {
	p.proxy.Close()
	return errors.Join(p.store.Close(), p.closeBank(), p.unlock())
}

func (p *parts) closeBank() error {
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
