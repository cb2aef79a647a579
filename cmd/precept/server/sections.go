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

// Sections is the storage of the registry, the list of the registered sections. A registered section is a section of a
// rules file (CLAUDE.md, AGENTS.md) whose effect is measured. The registry is a file in the folder of the lessons, or
// in the Redis of the lessons.
type Sections struct {
	path  string
	fleet *redis.Bank // the Redis of the lessons; nil means the registry is the file path
	// unused are the paths at which an earlier configuration may have left a registry file. The file has no effect,
	// because the registry is in Redis; open logs a warning. Empty if the registry is a file.
	unused []string
}

// OpenSections opens the storage of the registered sections. The returned function closes the storage.
func (t *Tools) OpenSections(cfg *configs.Config) (*Sections, func(), error) {
	fleet, err := t.OpenBank(cfg)
	if err != nil {
		return nil, nil, err
	}
	return newSections(cfg, fleet), func() {
		if fleet != nil {
			_ = fleet.Close()
		}
	}, nil
}

func newSections(cfg *configs.Config, fleet *redis.Bank) *Sections {
	s := &Sections{path: rules.Path(cfg.Lessons), fleet: fleet}
	if fleet != nil {
		s.unused = []string{rules.Path(cfg.DataDir), rules.Path(configs.Default().Lessons)}
	}
	return s
}

// LearnedSections returns the registry of a configuration, for a command that reads the measurements in the store.
func (t *Tools) LearnedSections(ctx context.Context, cfg *configs.Config) (*rules.Registry, error) {
	p, closePlace, err := t.OpenSections(cfg)
	if err != nil {
		return nil, err
	}
	defer closePlace()
	if p.fleet == nil {
		return rules.Read(p.path)
	}
	ctx, cancel := context.WithTimeout(ctx, BankLimit)
	defer cancel()
	raw, err := p.fleet.Sections(ctx)
	if err != nil {
		return nil, err
	}
	return rules.Parse("the registry in Redis", raw)
}

// Update changes the registered sections. change gets the entries and returns the new entries. change is
// called again if another program changed the sections at the same time.
func (p *Sections) Update(ctx context.Context, change func(list []rules.Registered) ([]rules.Registered, error)) error {
	if p.fleet == nil {
		return rules.Update(p.path, change)
	}
	ctx, cancel := context.WithTimeout(ctx, BankLimit)
	defer cancel()
	for {
		raw, err := p.fleet.Sections(ctx)
		if err != nil {
			return err
		}
		r, err := rules.Parse("the registry in Redis", raw)
		if err != nil {
			return err
		}
		changed, err := r.Change(change)
		if err != nil || changed == nil {
			return err
		}
		if err := p.fleet.ReplaceSections(ctx, raw, changed); !errors.Is(err, bank.ErrChanged) {
			return err
		}
	}
}

// Now returns the time at which a measurement begins or ends. For sections in Redis, the time is the time of Redis,
// because the clocks of machines differ. Otherwise the time is the local time.
func (p *Sections) Now(ctx context.Context, local time.Time) (time.Time, error) {
	if p.fleet == nil {
		return local, nil
	}
	ctx, cancel := context.WithTimeout(ctx, BankLimit)
	defer cancel()
	return p.fleet.Now(ctx)
}

// Times of the worker of the sections.
const (
	sectionsPoll  = time.Second      // interval between two checks for a changed registry
	sectionsKnown = 3 * sectionsPoll // time after which all replicas on one Redis know a registered section
	sectionsJudge = time.Minute      // maximum time between two judgements; a judgement reads the verdicts and starts the next sections
	sectionsRest  = 100              // the pause after a judgement is this multiple of its duration, at most sectionsJudge
)

// sections holds the registered sections of rules files, and ends and starts their measurements.
type sections struct {
	log      *slog.Logger
	now      func() time.Time
	place    *Sections
	atOnce   func() int // maximum number of sections that are measured at the same time
	failures *failures
	learner  *learn.Learner
	proxy    *proxy.Proxy // set after the proxy is made
	list     atomic.Pointer[rules.Registry]

	stamp fs.FileInfo // file info of the file that list was read from; nil means no file
	text  []byte      // text of the registry in Redis from which list was read; nil if none
}

// open reads the registry. With an unreadable registry, no section is measured.
func (s *sections) open(ctx context.Context) {
	for _, path := range s.place.unused {
		if _, err := os.Stat(path); err == nil {
			s.log.Warn("a file of registered sections has no effect, because the lessons are in Redis; register its sections again with precept rules measure, and remove the file", "file", path)
		}
	}
	s.list.Store(&rules.Registry{})
	s.reload(ctx, func(read, _ *rules.Registry) *rules.Registry { return read })
}

// reload reads the registry again if the registry has changed. adjust returns the registry that takes effect, given the
// registry that was read and the registry before. If the registry cannot be read, the old sections stay in effect.
func (s *sections) reload(ctx context.Context, adjust func(read, before *rules.Registry) *rules.Registry) {
	readChanged := s.readFile
	if s.place.fleet != nil {
		readChanged = s.readFleet
	}
	read, err := readChanged(ctx)
	if err != nil && ctx.Err() == nil {
		s.failures.failed(label.StepRules, err)
	}
	if err == nil && read != nil {
		s.list.Store(adjust(read, s.list.Load()))
	}
}

// readFile reads a changed file; nil means the file has not changed.
func (s *sections) readFile(context.Context) (*rules.Registry, error) {
	info, err := os.Stat(s.place.path)
	if errors.Is(err, fs.ErrNotExist) && s.stamp == nil {
		return nil, nil
	}
	if err == nil && s.stamp != nil && info.ModTime().Equal(s.stamp.ModTime()) && info.Size() == s.stamp.Size() && os.SameFile(info, s.stamp) {
		return nil, nil
	}
	read, failed := rules.Read(s.place.path)
	if failed != nil {
		return nil, failed
	}
	s.stamp = info
	if err != nil { // the file was removed
		s.stamp = nil
	}
	return read, nil
}

// readFleet reads a changed registry in Redis; nil means the registry has not changed.
func (s *sections) readFleet(ctx context.Context) (*rules.Registry, error) {
	ctx, cancel := context.WithTimeout(ctx, reachLimit)
	defer cancel()
	text, err := s.place.fleet.Sections(ctx)
	switch {
	case err != nil:
		return nil, err
	case bytes.Equal(text, s.text):
		return nil, nil
	case text == nil:
		return nil, errors.New("Redis has lost the registered sections; the sections of this process stay in effect; register the sections again with precept rules measure, or write {} as the list to measure nothing")
	}
	read, err := rules.Parse("the registry in Redis", text)
	if err != nil {
		return nil, err
	}
	s.text = text
	return read.Delay(sectionsKnown), nil
}

// run reads the changes of the registry and judges the measurements, until the context ends.
func (s *sections) run(ctx context.Context) error {
	ticker := time.NewTicker(sectionsPoll)
	defer ticker.Stop()
	var judged time.Time
	var pause time.Duration
	since := func(read, before *rules.Registry) *rules.Registry { return read.Since(before, s.now()) }
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		s.reload(ctx, since)
		if begun := s.now(); begun.Sub(judged) >= pause {
			if err := s.judge(ctx); err != nil {
				s.failures.failed(label.StepRules, err)
			}
			s.reload(ctx, since)
			judged = s.now()
			pause = min(sectionsRest*judged.Sub(begun), sectionsJudge)
		}
	}
}

// judge ends the measurement of sections with a verdict, and starts the measurement of the next sections.
func (s *sections) judge(ctx context.Context) error {
	list := slices.Clone(s.list.Load().Sections)
	if !slices.ContainsFunc(list, func(r rules.Registered) bool { return r.State == rules.Measuring || r.State == rules.Queued }) {
		return nil
	}
	// The verdicts of the only tenant, or of the default tenant, end the measurements. Another tenant may have another
	// rules file, and its verdict would end the measurement for all tenants.
	rep, err := s.learner.Report(ctx, learn.ReportQuery{Tenant: cmp.Or(s.learner.OnlyTenant(), "default"), NoOpenCount: true, Rules: s.list.Load(), Config: s.proxy.Experiment(), Inject: s.proxy.Presentation()})
	if err != nil {
		return err
	}
	verdicts := map[string]string{}
	for i := range rep.Lessons {
		if r := &rep.Lessons[i]; isFinal(r) {
			verdicts[r.Arm] = string(r.Verdict)
		}
	}
	verdict := func(r *rules.Registered) string { return verdicts[string(r.Arm())] }
	if !rules.Advance(list, s.atOnce(), s.now(), verdict) {
		return nil
	}
	now, err := s.place.Now(ctx, s.now())
	if err != nil {
		return err
	}
	return s.place.Update(ctx, func(list []rules.Registered) ([]rules.Registered, error) {
		before := slices.Clone(list)
		rules.Advance(list, s.atOnce(), now, verdict)
		for i := range list {
			if list[i].State != before[i].State {
				s.log.Info("the measurement of a section has changed", "section", list[i].Slug(), "state", string(list[i].State), "verdict", list[i].Verdict)
			}
		}
		return list, nil
	})
}

// isFinal reports whether the verdict of a row ends the measurement of its section. A planned trial ends
// with its evaluation.
func isFinal(r *report.Row) bool {
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
