package server

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	"precept/bandit/report"
	"precept/configs"
	"precept/inject/rules"
	"precept/internal/label"
	"precept/learn"
	"precept/proxy"
)

// RulesPath returns the path of the registered sections: in the folder of the lessons, or in the data
// directory if Redis holds the lessons.
func RulesPath(cfg *configs.Config) string {
	if IsRedis(cfg.Lessons) {
		return rules.Path(cfg.DataDir)
	}
	return rules.Path(cfg.Lessons)
}

// Times of the worker of the sections.
const (
	sectionsLook  = time.Second // a changed registry is noticed
	sectionsJudge = time.Minute // maximum time between two judgements; a judgement reads the verdicts and starts the next sections
	sectionsRest  = 100         // a judgement is repeated after this multiple of its duration, at most after sectionsJudge
)

// sections holds the registered sections of rules files, and ends and starts their measurements.
type sections struct {
	log      *slog.Logger
	now      func() time.Time
	path     string
	atOnce   func() int
	failures *failures
	learner  *learn.Learner
	proxy    *proxy.Proxy // set after the proxy is made
	list     atomic.Pointer[rules.Registry]

	stamp fs.FileInfo // of the file that list was read from; nil: no file
}

// open reads the registry. An unreadable registry measures nothing.
func (s *sections) open() {
	s.list.Store(&rules.Registry{})
	s.reload(func(read, _ *rules.Registry) *rules.Registry { return read })
}

// reload reads the registry again if the file has changed. A file that cannot be read leaves the old
// sections in effect.
func (s *sections) reload(since func(read, before *rules.Registry) *rules.Registry) {
	info, err := os.Stat(s.path)
	if errors.Is(err, fs.ErrNotExist) && s.stamp == nil {
		return
	}
	if err == nil && s.stamp != nil && info.ModTime().Equal(s.stamp.ModTime()) && info.Size() == s.stamp.Size() && os.SameFile(info, s.stamp) {
		return
	}
	read, failed := rules.Read(s.path)
	if failed != nil {
		s.failures.failed(label.StepRules, failed)
		return
	}
	if s.stamp = info; err != nil {
		s.stamp = nil
	}
	s.list.Store(since(read, s.list.Load()))
}

// run follows the registry until the context ends.
func (s *sections) run(ctx context.Context) error {
	look := time.NewTicker(sectionsLook)
	defer look.Stop()
	var judged time.Time
	var rest time.Duration
	since := func(read, before *rules.Registry) *rules.Registry { return read.Since(before, s.now()) }
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-look.C:
		}
		s.reload(since)
		if begun := s.now(); begun.Sub(judged) >= rest {
			if err := s.judge(ctx); err != nil {
				s.failures.failed(label.StepRules, err)
			}
			s.reload(since)
			judged = s.now()
			rest = min(sectionsRest*judged.Sub(begun), sectionsJudge)
		}
	}
}

// judge ends the measurement of sections with a verdict, and starts the next ones.
func (s *sections) judge(ctx context.Context) error {
	list := slices.Clone(s.list.Load().Sections)
	if !slices.ContainsFunc(list, func(r rules.Registered) bool { return r.State == rules.Measuring || r.State == rules.Queued }) {
		return nil
	}
	// The verdicts of the only tenant, or of the default tenant, end the measurements. Another tenant may have another
	// rules file, and its verdict would end the measurement for all tenants.
	rep, err := s.learner.Report(ctx, learn.ReportQuery{Tenant: cmp.Or(s.learner.OnlyTenant(), "default"), Closed: true, Rules: s.list.Load(), Config: s.proxy.Experiment(), Inject: s.proxy.Presentation()})
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
	return rules.Update(s.path, func(list []rules.Registered) ([]rules.Registered, error) {
		before := slices.Clone(list)
		rules.Advance(list, s.atOnce(), s.now(), verdict)
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

// LearnedSections returns the registered sections of a configuration, for a verb that reads the store.
func LearnedSections(cfg *configs.Config) (*rules.Registry, error) {
	return rules.Read(filepath.Clean(RulesPath(cfg)))
}
