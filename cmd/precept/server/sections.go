package server

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"precept/bandit/report"
	"precept/configs"
	"precept/inject/bank"
	"precept/inject/rules"
	"precept/internal/label"
	"precept/learn"
	"precept/proxy"
	"precept/store/redis"
)

// RegistryStorage stores the registry, the list of measured sections in rules files (CLAUDE.md, AGENTS.md). The
// registry is a file in the lesson directory, or a value in Redis next to the lessons.
type RegistryStorage struct {
	path      string
	redisBank *redis.Bank // nil if the registry is a file
	// unused holds the paths of registry files from an earlier configuration. They have no effect.
	unused []string
}

// OpenRegistry opens the registry's storage, and returns a function that closes the storage.
func (t *Tools) OpenRegistry(cfg *configs.Config) (*RegistryStorage, func(), error) {
	redisBank, err := t.OpenRedisBank(cfg)
	if err != nil {
		return nil, nil, err
	}
	return newRegistryStorage(cfg, redisBank), func() {
		if redisBank != nil {
			_ = redisBank.Close()
		}
	}, nil
}

// newRegistryStorage returns storage in Redis, or in a file if redisBank is nil.
func newRegistryStorage(cfg *configs.Config, redisBank *redis.Bank) *RegistryStorage {
	s := &RegistryStorage{path: rules.Path(cfg.Lessons), redisBank: redisBank}
	if redisBank != nil {
		s.unused = []string{rules.Path(cfg.DataDir), rules.Path(configs.Default().Lessons)}
	}
	return s
}

// ReadRegistry returns the registry.
func (t *Tools) ReadRegistry(ctx context.Context, cfg *configs.Config) (*rules.Registry, error) {
	s, closeStorage, err := t.OpenRegistry(cfg)
	if err != nil {
		return nil, err
	}
	defer closeStorage()
	if s.redisBank == nil {
		return rules.Read(s.path)
	}
	ctx, cancel := context.WithTimeout(ctx, BankTimeout)
	defer cancel()
	raw, err := s.redisBank.Sections(ctx)
	if err != nil {
		return nil, err
	}
	return rules.Parse("the registry in Redis", raw)
}

// Update replaces the registered sections. It calls change again if another program changed the sections.
func (s *RegistryStorage) Update(ctx context.Context, change func(list []rules.RegisteredSection) ([]rules.RegisteredSection, error)) error {
	if s.redisBank == nil {
		return rules.Update(s.path, change)
	}
	ctx, cancel := context.WithTimeout(ctx, BankTimeout)
	defer cancel()
	for {
		raw, err := s.redisBank.Sections(ctx)
		if err != nil {
			return err
		}
		r, err := rules.Parse("the registry in Redis", raw)
		if err != nil {
			return err
		}
		changed, err := r.EncodeChanged(change)
		if err != nil || changed == nil {
			return err
		}
		if err := s.redisBank.ReplaceSections(ctx, raw, changed); !errors.Is(err, bank.ErrChanged) {
			return err
		}
	}
}

// Now returns Redis' time, because the replicas' clocks differ. If the registry is a file, Now returns local.
func (s *RegistryStorage) Now(ctx context.Context, local time.Time) (time.Time, error) {
	if s.redisBank == nil {
		return local, nil
	}
	ctx, cancel := context.WithTimeout(ctx, BankTimeout)
	defer cancel()
	return s.redisBank.Now(ctx)
}

const (
	registryPollInterval = time.Second              // pause between checks for a changed registry
	registryDelay        = 3 * registryPollInterval // time for all replicas to read a change in Redis
	maxAdvancePause      = time.Minute              // maximum pause between advanceMeasurements calls
	advancePauseFactor   = 100                      // a pause lasts this many times as long as the call before it
)

// sections measures the registered sections.
type sections struct {
	log         *slog.Logger
	now         func() time.Time
	storage     *RegistryStorage
	maxMeasured func() int // maximum number of measured sections
	failures    *failures
	learner     *learn.Learner
	proxy       *proxy.Proxy // set after the proxy is created
	registry    atomic.Pointer[rules.Registry]

	fileInfo fs.FileInfo // file at the last read; nil without a file
	text     []byte      // registry in Redis at the last read; nil before
}

// open reads the registry. After an error, no section is measured.
func (s *sections) open(ctx context.Context) {
	for _, path := range s.storage.unused {
		if _, err := os.Stat(path); err == nil {
			s.log.Warn("a file with registered sections has no effect, because the lessons are in Redis; register the sections again with `precept rules measure`, and remove the file", "file", path)
		}
	}
	s.registry.Store(&rules.Registry{})
	s.reload(ctx, func(read, _ *rules.Registry) *rules.Registry { return read })
}

// reload reads a changed registry, and applies the registry that adjust returns. If the registry cannot be read, the
// previous one stays in effect.
func (s *sections) reload(ctx context.Context, adjust func(read, before *rules.Registry) *rules.Registry) {
	readChanged := s.readFile
	if s.storage.redisBank != nil {
		readChanged = s.readRedis
	}
	read, err := readChanged(ctx)
	if err != nil && ctx.Err() == nil {
		s.failures.report(label.StepRules, err)
	}
	if err == nil && read != nil {
		s.registry.Store(adjust(read, s.registry.Load()))
	}
}

// readFile returns the registry in the file, or nil if the file has not changed.
func (s *sections) readFile(context.Context) (*rules.Registry, error) {
	info, err := os.Stat(s.storage.path)
	if errors.Is(err, fs.ErrNotExist) && s.fileInfo == nil {
		return nil, nil
	}
	if err == nil && s.fileInfo != nil && info.ModTime().Equal(s.fileInfo.ModTime()) && info.Size() == s.fileInfo.Size() && os.SameFile(info, s.fileInfo) {
		return nil, nil
	}
	read, failed := rules.Read(s.storage.path)
	if failed != nil {
		return nil, failed
	}
	s.fileInfo = info
	if err != nil { // the file was removed
		s.fileInfo = nil
	}
	return read, nil
}

// readRedis returns the registry in Redis, or nil if it has not changed. Other replicas need up to registryDelay to
// read a change, so the change takes effect only then.
func (s *sections) readRedis(ctx context.Context) (*rules.Registry, error) {
	ctx, cancel := context.WithTimeout(ctx, redisTimeout)
	defer cancel()
	text, err := s.storage.redisBank.Sections(ctx)
	switch {
	case err != nil:
		return nil, err
	case bytes.Equal(text, s.text):
		return nil, nil
	case text == nil:
		return nil, errors.New("Redis has lost the registered sections; this server still uses the last known sections; register them again with `precept rules measure`, or restart the server to stop measuring")
	}
	read, err := rules.Parse("the registry in Redis", text)
	if err != nil {
		return nil, err
	}
	s.text = text
	return read.Delay(registryDelay), nil
}

func (s *sections) run(ctx context.Context) error {
	ticker := time.NewTicker(registryPollInterval)
	defer ticker.Stop()
	var lastAdvance time.Time
	var pause time.Duration
	setStarts := func(read, before *rules.Registry) *rules.Registry { return read.SetStarts(before, s.now()) }
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		s.reload(ctx, setStarts)
		if startedAt := s.now(); startedAt.Sub(lastAdvance) >= pause {
			if err := s.advanceMeasurements(ctx); err != nil {
				s.failures.report(label.StepRules, err)
			}
			s.reload(ctx, setStarts)
			lastAdvance = s.now()
			pause = min(advancePauseFactor*lastAdvance.Sub(startedAt), maxAdvancePause)
		}
	}
}

// advanceMeasurements ends measurements with a verdict, and starts the next ones in the queue.
func (s *sections) advanceMeasurements(ctx context.Context) error {
	list := slices.Clone(s.registry.Load().Sections)
	if !slices.ContainsFunc(list, func(r rules.RegisteredSection) bool { return r.State == rules.Measuring || r.State == rules.Queued }) {
		return nil
	}
	// Use only one tenant's report: a verdict from a tenant with a different rules file would end the measurement for
	// all.
	rep, err := s.learner.Report(ctx, learn.ReportQuery{Tenant: cmp.Or(s.learner.OnlyTenant(), "default"), SkipOpenCount: true, Rules: s.registry.Load(), Config: s.proxy.ChooserConfig(), Inject: s.proxy.InjectionConfig()})
	if err != nil {
		return err
	}
	verdicts := map[string]string{}
	for i := range rep.Lessons {
		if r := &rep.Lessons[i]; endsMeasurement(r) {
			verdicts[r.Arm] = string(r.Verdict)
		}
	}
	verdict := func(r *rules.RegisteredSection) string { return verdicts[string(r.Arm())] }
	if !rules.Advance(list, s.maxMeasured(), s.now(), verdict) {
		return nil
	}
	now, err := s.storage.Now(ctx, s.now())
	if err != nil {
		return err
	}
	return s.storage.Update(ctx, func(list []rules.RegisteredSection) ([]rules.RegisteredSection, error) {
		before := slices.Clone(list)
		rules.Advance(list, s.maxMeasured(), now, verdict)
		for i := range list {
			if list[i].State != before[i].State {
				s.log.Info("the state of a section's measurement has changed", "section", list[i].Slug(), "state", string(list[i].State), "verdict", list[i].Verdict)
			}
		}
		return list, nil
	})
}

// endsMeasurement reports whether a report row has a final verdict. A planned trial (a fixed number of sessions) has
// one only after the evaluation at the end.
func endsMeasurement(r *report.Row) bool {
	if r.Trial != "" {
		return r.Trial == "ended"
	}
	switch r.Verdict {
	case report.Invalid, report.ProvenHelps, report.ProvenHarms, report.TrialHelps, report.TrialHarms, report.Helps, report.Harms, report.NoEffect:
		return true
	case report.LikelyHelps, report.LikelyHarms, report.Benched, report.Unproven:
	}
	return false
}
