package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"precept/inject/lesson"
	"precept/inject/meaning"
	"precept/internal/redact"
	"precept/internal/sample"
	"precept/internal/session"
	"precept/learn"
	"precept/proxy"
	"precept/proxy/trace"
	"precept/store"
	"precept/store/sqlite"
)

// setup creates the server parts and starts nothing. Each step registers a cleanup with onStop and goroutines with
// addWorker.
//
// setup is one long function on purpose. Nearly every step needs values from earlier steps, which smaller functions
// would have to share in a wide struct.
//
//nolint:funlen,gocognit // see above
func (s *Server) setup(ctx context.Context, dataListener, adminListener net.Listener) error {
	tools, cfg, log := s.options.Tools, s.cfg, s.log

	// Every later step uses the metrics and the failure log.
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	metrics := proxy.NewMetrics(registry)
	failures := &failures{log: log, metrics: metrics, logLimit: newLimiter(tools.Now)}
	tools.OnDamaged = DamageReport(func(ref session.Ref, err error) {
		log.Warn(
			"a session has a damaged exchange; pages and exports leave out the session's content; delete the session with `precept forget`",
			"tenant", ref.Tenant, "session", ref.ID, "error", err,
		)
	})

	tools.OnUnreplicated = func(err error) {
		log.Warn("no Redis replica has the last change; if Redis fails over now, check whether the change is lost", "error", err)
	}

	// Lock the data directory against a second precept. Agents do not need the disk, so precept also starts if the
	// directory is not writable.
	if filepath.IsLocal(cfg.DataDir) {
		_ = MakeDataDir(cfg.DataDir) // adds a .gitignore below the working directory; sqlite.Lock reports a failure
	}
	lock, lockErr := sqlite.Lock(cfg.DataDir)
	switch {
	case lockErr == nil:
		s.onStop("data directory", lock.Close)
		restrictData(cfg.DataDir, log)
	case !errors.Is(lockErr, sqlite.ErrReadOnly):
		return lockErr
	}

	// fleetBank is nil if the lessons are files.
	fleetBank, err := tools.OpenRedisBank(cfg)
	if err != nil {
		return err
	}
	if fleetBank != nil {
		s.onStop("lessons in Redis", fleetBank.Close)
	}

	// Open the backend: SQLite, Redis or, if the data directory is not writable, memory. Closing the store also
	// closes the backend. If setup fails before the store is open, the cleanup closes the backend.
	opened, err := openBackend(ctx, tools, cfg, lockErr, failures)
	if err != nil {
		return err
	}
	backend := opened.backend
	closeStore := backend.Close
	s.onStop("store", func() error { return closeStore() })

	// All replicas share the salt for random assignments and the secret for tenant names.
	keys, err := openKeys(ctx, tools, cfg, opened.durable, log)
	if err != nil {
		return err
	}

	// The store holds the sessions in memory and the outbox in front of the backend.
	storeOptions, err := tools.StoreOptions(cfg, backend)
	if err != nil {
		return err
	}
	hooks := &storeOptions.Hooks
	hooks.OnFailure, hooks.OnPanic, hooks.OnRecovery = failures.report, failures.reportPanic, failures.storeRecovered
	hooks.OnDamage, hooks.OnUnreplicated = tools.OnDamaged, tools.OnUnreplicated
	hooks.OnOutboxRecovery, hooks.OnErasure = failures.outboxRecovered, s.clearAdminCaches
	storeOptions.Content.Secret, storeOptions.BackendAbsent = []byte(keys.pair.Secret), opened.isUnavailable
	if size := int64(cfg.Limits.CleanTextsBytes); size > 0 {
		clean, err := redact.NewCleanTexts(size)
		if err != nil {
			return err
		}
		s.onStop("clean text cache", func() error {
			clean.Close()
			return nil
		})
		RegisterCache(registry, "clean_texts", clean)
		storeOptions.Content.CleanTexts = clean
	}
	if size := int64(cfg.Limits.ExchangesBytes); size > 0 {
		exchanges, err := store.NewExchangeCache(size, storeOptions.Fleet != nil)
		if err != nil {
			return err
		}
		s.onStop("exchange cache", func() error {
			exchanges.Close()
			return nil
		})
		RegisterCache(registry, "exchanges", exchanges)
		storeOptions.Exchanges = exchanges
	}
	var embeddings *meaning.Matcher // nil: no embeddings
	if cfg.Match.Embeddings.Upstream != "" {
		storeOptions.Hooks.OnRecorded = func(x *sample.Exchange) { embeddings.Offer(x) }
	}
	st, err := store.Open(ctx, storeOptions)
	if err != nil {
		return fmt.Errorf("open the store: %w", err)
	}
	closeStore = st.Close
	var evidence StoreReader // without opted-out content; nil if the backend is in memory
	if opened.durable != nil {
		evidence = filterOptedOut(cachedReader{opened.durable, st}, st.OptOut, tools.OnDamaged)
	}
	RegisterBuild(registry)
	s.reload.succeededAt.Store(tools.Now().UnixNano())
	RegisterReload(registry, &s.reload)
	RegisterStore(registry, st)
	s.addWorker("recorder", st.Run)

	// The learner stops after the recorder, so that it also learns from the last exchanges.
	learnOptions := tools.LearnOptions(cfg, backend)
	learnOptions.Memory, learnOptions.Deliverer, learnOptions.Touches, learnOptions.Exchanges = st, st, st, st
	learnOptions.Guard, learnOptions.OnFailure = st.Guard(), failures.report
	learner, err := learn.Open(ctx, learnOptions)
	if err != nil {
		return fmt.Errorf("load the learned data: %w", err)
	}
	RegisterLearning(registry, &learner.Metrics)
	s.addWorker("learner", func(ctx context.Context) error { return learner.Run(ctx, st.Done()) })
	s.addWorker("fleet follower", func(ctx context.Context) error { return learner.Follow(ctx, learn.FollowInterval) })

	// While the lessons cannot be read, precept forwards requests unchanged.
	lessons := newLibrary(tools, cfg, fleetBank, !s.options.DisableFileEvents, failures)
	s.addWorker("lesson watcher", lessons.open(ctx))

	// Measure the registered sections in rules files (CLAUDE.md, AGENTS.md).
	sectionsWorker := &sections{log: log, now: tools.Now, storage: newRegistryStorage(cfg, fleetBank), maxMeasured: func() int { return s.effective.Load().Rules.AtOnce }, failures: failures, learner: learner}
	sectionsWorker.open(ctx)
	s.addWorker("rules file sections", sectionsWorker.run)

	// Delete old exchanges that precept export --follow has copied.
	deleter := &exchangeDeleter{backend: backend, config: s.effective.Load, now: tools.Now, log: log}
	s.addWorker("old exchanges", deleter.run)

	// Compile the lessons for matching by likeness, that is, by similar words.
	likeWorker := &likenessWorker{lessons: lessons, reader: evidence, config: s.effective.Load}
	s.addWorker("likeness", likeWorker.run)

	// Compute embeddings of lessons and user words, if an API is configured.
	var matches func(session.ID) []lesson.Resemblance
	if cfg.Match.Embeddings.Upstream != "" {
		if embeddings, err = newMeaning(cfg, likeWorker, failures); err != nil {
			return err
		}
		s.onStop("embeddings", func() error {
			embeddings.Close()
			return nil
		})
		s.addWorker("embeddings", embeddings.Run)
		matches = embeddings.Matches
	}

	if cfg.Ledger.File != "" {
		s.addWorker("ledger follower", ledgerWorker(cfg, lessons))
	}

	var tracer *trace.Tracer
	if cfg.Otel.Endpoint != "" {
		if tracer, err = newTracer(cfg, failures); err != nil {
			return err
		}
		RegisterSpans(registry, tracer)
		s.addWorker("tracer", tracer.Run)
	}

	// Count how often each lesson matched. If the backend is in memory, the counts are not saved either.
	countsFile := filepath.Join(cfg.DataDir, "consulted.json")
	if opened.memoryReason != "" {
		countsFile = ""
	}
	fleetCounts := sharedBackend[proxy.ConsultationTally](backend)
	if fleetCounts == nil && fleetBank != nil {
		fleetCounts = fleetBank
	}
	consulted, err := proxy.NewConsultationCounter(countsFile, fleetCounts, tools.Now)
	if err != nil {
		log.Warn("the counts of how often agents met each lesson cannot be read; they restart at zero", "error", err)
	}
	s.addWorker("consulted-lesson counts", consulted.Run)

	s.proxy, err = proxy.New(proxy.Options{
		Config: cfg, Store: st, Tally: &st.Metrics, Chooser: learner.Beliefs, Book: lessons.book.Load, Bank: lessons.bank, Consultations: consulted, Meaning: matches,
		Rules: sectionsWorker.registry.Load, Answers: sharedBackend[proxy.AnswerStore](backend), Tracer: tracer, Metrics: metrics, Log: log, Now: tools.Now, Rand: tools.Random,
		Fleet: proxy.FleetKeys{Salt: keys.pair.Salt, Secret: []byte(keys.pair.Secret), Unconfirmed: !keys.isConfirmed},
	})
	if err != nil {
		return err
	}
	sectionsWorker.proxy = s.proxy
	s.onStop("proxy", func() error {
		s.proxy.Close()
		return nil
	})
	s.addWorker("lesson commands", s.proxy.ExecuteCommands)
	if keys.isFleet {
		s.addWorker("fleet keys", keys.follow(s.proxy, log))
		s.addWorker("eviction policy", warnEviction(func(ctx context.Context) string { return EvictionPolicy(ctx, opened.backend) }, log))
		s.addWorker("clock", warnClock(func(ctx context.Context) time.Duration { return tools.ClockDifference(ctx, opened.backend) }, log))
	}

	// Show successes and failures in the lesson directory's index.
	lessons.setCountsFunc(learner, s.proxy)
	s.addWorker("lesson history", lessons.historyWorker(learner, s.proxy))

	// Create the distiller, and the gate that ends the distiller's trials.
	var distiller *Distiller
	if opened.durable != nil && cfg.Distill.Enabled {
		distiller, err = tools.NewDistiller(cfg, cachedSource{opened.durable, st}, st.OptOut, lessons.storage) //nolint:contextcheck // the check of a lesson's evidence has no context; its look-up in the store has a time limit
		if err != nil {
			return err
		}
		gate := &trialGate{log: log, lessons: lessons, learner: learner, proxy: s.proxy}
		s.addWorker("distiller", distillerWorker(cfg, distiller, gate, failures))
	}

	// Create the services that answer the admin server's pages.
	s.services = &services{
		tools: tools, failures: failures, backend: backend, durable: opened.durable, reader: evidence, store: st, archive: st.Archive(rewardDefinition(cfg)),
		learner: learner, lessons: lessons, sections: sectionsWorker, likeness: likeWorker, distiller: distiller, proxy: s.proxy, memoryReason: opened.memoryReason, learningEnabled: cfg.Learning.Enabled,
	}
	return s.openAdmin(registry, dataListener, adminListener)
}
