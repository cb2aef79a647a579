package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"

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

// setup builds the program and starts nothing. Each step registers its stop on the onStop stack and
// its goroutines as workers; serve starts the workers.
//
// setup is one straight line, as the setup of Prometheus' Alertmanager is. Nearly every step needs
// values of earlier steps (metrics, failures, backend, store, learner, lessons, proxy). Splitting
// setup would move these values into fields of a wide struct that every helper shares, and the order
// of the steps would be harder to see: here, Go's scoping of variables enforces the order.
//
//nolint:funlen,gocognit // see above
func (s *Server) setup(ctx context.Context, data, adminListener net.Listener) error {
	tools, cfg, log := s.options.Tools, s.cfg, s.log

	// Metrics and the log of failures come first: every later step uses them.
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	metrics := proxy.NewMetrics(registry)
	failures := &failures{log: log, metrics: metrics, logLimit: newLimiter(tools.Now)}
	tools.Damaged = DamageReport(func(of session.Ref, err error) {
		log.Warn(
			"a session has a damaged exchange; pages and exports leave out its content; delete the session with precept forget",
			"tenant", of.Tenant, "session", of.ID, "error", err,
		)
	})

	// Lock the data directory, so that no second precept writes into the directory. precept also
	// starts with a directory that cannot be written, for example on a full disk, because the
	// requests of agents do not need the disk.
	if filepath.IsLocal(cfg.DataDir) {
		_ = MakeDataDir(cfg.DataDir) // adds a .gitignore below the working directory; the lock reports a failure
	}
	lock, unwritable := sqlite.Lock(cfg.DataDir)
	switch {
	case unwritable == nil:
		s.onStop("data directory", lock.Close)
		restrictData(cfg.DataDir, log)
	case !errors.Is(unwritable, sqlite.ErrReadOnly):
		return unwritable
	}

	// Make the client of the lessons in Redis; nil when the lessons are files in a directory.
	fleetBank, err := tools.OpenBank(cfg)
	if err != nil {
		return err
	}
	if fleetBank != nil {
		s.onStop("lessons in Redis", fleetBank.Close)
	}

	// Open the backend: SQLite, Redis, or memory when the data directory cannot be written. The store
	// that is made below closes the backend; until then, a failed setup closes the backend itself.
	opened, err := openBackend(ctx, tools, cfg, unwritable, failures)
	if err != nil {
		return err
	}
	backend := opened.backend
	closeStore := backend.Close
	s.onStop("store", func() error { return closeStore() })

	// Read the salt of the coins and the secret of tenant names, or make them. Replicas share both.
	keys, err := openKeys(ctx, tools, cfg, backend, log)
	if err != nil {
		return err
	}

	// Open the store: the queue on disk in front of the backend, and the sessions in memory.
	storeOptions, err := tools.StoreOptions(cfg, backend)
	if err != nil {
		return err
	}
	hooks := &storeOptions.Hooks
	hooks.Failed, hooks.Panicked, hooks.Recovered = failures.failed, failures.panicked, failures.storeRecovered
	hooks.Damaged = tools.Damaged
	hooks.OutboxRecovered, hooks.Erased = failures.outboxRecovered, s.erased
	storeOptions.Content.Secret, storeOptions.Absent = []byte(keys.pair.Secret), opened.absent
	if size := int64(cfg.Limits.CleanTextsBytes); size > 0 {
		clean, err := redact.NewCleanTexts(size)
		if err != nil {
			return err
		}
		s.onStop("cache of clean texts", func() error {
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
		s.onStop("cache of exchanges", func() error {
			exchanges.Close()
			return nil
		})
		RegisterCache(registry, "exchanges", exchanges)
		storeOptions.Exchanges = exchanges
	}
	var embeddings *meaning.Matcher // set below; nil means no embeddings
	if cfg.Match.Embeddings.Upstream != "" {
		storeOptions.Hooks.Kept = func(x *sample.Exchange) { embeddings.Offer(x) }
	}
	st, err := store.Open(ctx, storeOptions)
	if err != nil {
		return fmt.Errorf("open the store: %w", err)
	}
	closeStore = st.Close
	RegisterBuild(registry)
	s.reload.succeeded.Store(tools.Now().UnixNano())
	RegisterReload(registry, &s.reload)
	RegisterStore(registry, st)
	s.work("recorder", st.Run)

	// Make the learner. The learner stops after the recorder, so that the last exchanges count.
	learnOptions := tools.LearnOptions(cfg, backend)
	learnOptions.Memory, learnOptions.Deliverer, learnOptions.Touches, learnOptions.Exchanges = st, st, st, st
	learnOptions.Guard, learnOptions.Failed = st.Guard(), failures.failed
	learner, err := learn.Open(ctx, learnOptions)
	if err != nil {
		return fmt.Errorf("load what was learned: %w", err)
	}
	RegisterLearning(registry, &learner.Tally)
	s.work("learner", func(ctx context.Context) error { return learner.Run(ctx, st.Done()) })
	s.work("fleet follower", func(ctx context.Context) error { return learner.Follow(ctx, learn.FollowEvery) })

	// Load the lessons and watch them for changes. Without readable lessons precept forwards requests
	// unchanged, and loads the lessons as soon as they can be read.
	lessons := newLibrary(tools, cfg, fleetBank, !s.options.PollOnly, failures)
	s.work("lesson watcher", lessons.open(ctx))

	// Read the registered sections: sections of rules files (CLAUDE.md, AGENTS.md) whose effect is
	// measured. The worker ends and starts the measurements.
	registered := &sections{log: log, now: tools.Now, place: newSections(cfg, fleetBank), atOnce: func() int { return s.effective.Load().Rules.AtOnce }, failures: failures, learner: learner}
	registered.open(ctx)
	s.work("sections of rules files", registered.run)

	// Delete old exchanges whose samples are in the lake, the files of precept export --follow.
	old := &cooling{backend: backend, config: s.effective.Load, now: tools.Now, log: log}
	s.work("old exchanges", old.run)

	// Compile the lessons for matching by likeness: a lesson can also match words that resemble the
	// lesson. The captured sessions give the thresholds.
	similar := &likeness{lessons: lessons, backend: backend, config: s.effective.Load}
	s.work("likeness", similar.run)

	// Embed lessons and user words, where the configuration names an API of embeddings.
	var matches func(session.ID) []lesson.Resemblance
	if cfg.Match.Embeddings.Upstream != "" {
		if embeddings, err = newMeaning(cfg, similar, failures); err != nil {
			return err
		}
		s.onStop("embeddings", func() error {
			embeddings.Close()
			return nil
		})
		s.work("embeddings", embeddings.Run)
		matches = embeddings.Matches
	}

	// Follow the ledger file: its entries become proposals of lessons.
	if cfg.Ledger.File != "" {
		s.work("ledger follower", ledgerWorker(cfg, lessons))
	}

	// Make the tracer, where the configuration names a collector of spans.
	var tracer *trace.Tracer
	if cfg.Otel.Endpoint != "" {
		if tracer, err = newTracer(cfg, failures); err != nil {
			return err
		}
		RegisterSpans(registry, tracer)
		s.work("tracer", tracer.Run)
	}

	// Open the counts of consulted lessons, which are lessons that matched. opened.notice is set when
	// the backend is in memory; then the counts are in memory as well.
	countsFile := filepath.Join(cfg.DataDir, "consulted.json")
	if opened.notice != "" {
		countsFile = ""
	}
	fleetCounts := shared[proxy.Tally](backend)
	if fleetCounts == nil && fleetBank != nil {
		fleetCounts = fleetBank
	}
	consulted, err := proxy.NewConsulted(countsFile, fleetCounts, tools.Now)
	if err != nil {
		log.Warn("the counts of consulted lessons cannot be read; they restart at zero", "error", err)
	}
	s.work("counts of consulted lessons", consulted.Run)

	// Make the proxy, the handler of the data listener.
	s.proxy, err = proxy.New(proxy.Options{
		Config: cfg, Store: st, Tally: &st.Tally, Beliefs: learner.Beliefs, Book: lessons.book.Load, Bank: lessons.writer, Consulted: consulted, Meaning: matches,
		Rules: registered.list.Load, Pending: shared[proxy.PendingTexts](backend), Tracer: tracer, Metrics: metrics, Log: log, Now: tools.Now, Rand: tools.Random,
		Fleet: proxy.FleetKeys{Salt: keys.pair.Salt, Secret: []byte(keys.pair.Secret), Unsure: !keys.known},
	})
	if err != nil {
		return err
	}
	registered.proxy = s.proxy
	s.onStop("proxy", func() error {
		s.proxy.Close()
		return nil
	})
	s.work("lesson commands", s.proxy.ExecuteCommands)
	if keys.fleet {
		s.work("keys of the fleet", keys.follow(s.proxy, log))
	}

	// Count the successes of each lesson for the index in the lesson directory.
	lessons.countWith(learner, s.proxy)
	s.work("history of the lessons", lessons.keepHistory(learner, s.proxy))

	// Make the distiller and the gate that ends the trials of proposals.
	if notes, ok := backend.(DistillStore); ok && cfg.Distill.Enabled {
		distiller, err := tools.NewDistiller(cfg, cachedSource{notes, st}, st.OptOut, lessons.place) //nolint:contextcheck // the check of a lesson's evidence has no context; its look-up in the store has a time limit
		if err != nil {
			return err
		}
		gate := &trialGate{log: log, lessons: lessons, learner: learner, proxy: s.proxy}
		s.work("distiller", distillerWorker(cfg, distiller, gate, failures))
	}

	// Make the services behind the admin pages, and the admin server, the handler of the admin
	// listener.
	s.services = &services{
		tools: tools, failures: failures, backend: backend, store: st, archive: st.Archive(rewardDefinition(cfg)),
		learner: learner, lessons: lessons, sections: registered, similar: similar, proxy: s.proxy, memoryReason: opened.notice, learns: cfg.Learning.Enabled,
	}
	return s.openAdmin(registry, data, adminListener)
}
