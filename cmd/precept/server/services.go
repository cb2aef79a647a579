package server

import (
	"cmp"
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"precept/admin"
	"precept/bandit/feedback"
	"precept/bandit/report"
	"precept/configs"
	"precept/distill"
	"precept/inject/backtest"
	"precept/inject/bank"
	"precept/inject/lesson"
	"precept/inject/rules"
	"precept/internal/label"
	"precept/internal/sample"
	"precept/internal/session"
	"precept/learn"
	"precept/proxy"
	"precept/store"
)

const (
	surveyTimeout       = 2 * time.Second // maximum time for a survey, for the /breakdown page
	maxSurveySessions   = 100_000
	maxScanDays         = 90 // maximum session age in a scan, in days
	backtestTimeout     = 5 * time.Second
	maxBacktestSessions = 2000
)

// services provides data for the admin pages.
type services struct {
	tools           Tools
	failures        *failures
	backend         Backend
	durable         CommandStore // nil if the backend is in memory
	reader          StoreReader  // backend without opted-out content; nil if in memory
	store           *store.Store
	archive         *store.Archive
	learner         *learn.Learner
	lessons         *library
	sections        *sections
	likeness        *likenessWorker
	distiller       *Distiller // nil without distill.enabled
	proxy           *proxy.Proxy
	nearestCache    nearestCache
	openings        learn.OpeningIndex
	learningEnabled bool   // learning.enabled at the start
	memoryReason    string // why the store is in memory; "" if it is durable
}

// Report implements admin.Reporter.
func (s *services) Report(ctx context.Context, q admin.ReportQuery) (report.Report, error) {
	r, err := s.learner.Report(ctx, learn.ReportQuery{
		Tenant: q.Tenant, Window: q.Window, Provisional: q.Provisional, WhatIf: q.WhatIf,
		Explain: q.Explain, EffectHistory: q.Bands, Book: s.lessons.book.Load(), Config: s.proxy.ChooserConfig(),
		Rules: s.sections.registry.Load(), Inject: s.proxy.InjectionConfig(), Guardrails: s.proxy.Guardrails(),
	})
	if err != nil {
		return r, err
	}
	if err := Annotate(ctx, &r, s.durable, q.Tenant); err != nil { // the report is valid without opinions
		s.failures.report(label.StepOpinions, err)
	}
	return r, nil
}

// Rules implements admin.RulesReader.
func (s *services) Rules() *rules.Registry { return s.sections.registry.Load() }

// Annotate adds judges' opinions about a tenant's lessons to a report. A judge is a model that rates sessions. If notes
// is nil, Annotate does nothing.
func Annotate(ctx context.Context, r *report.Report, notes distill.NoteReader, tenant string) error {
	if notes == nil {
		return nil
	}
	opinions, err := distill.ReadOpinions(ctx, notes, tenant)
	if err != nil {
		return err
	}
	r.AddOpinions(opinions)
	return nil
}

// Rate implements admin.Rater.
func (s *services) Rate(ctx context.Context, tenant string, f feedback.Post) (store.Posted, error) {
	var keyErr error
	f = f.WithReceipt(s.tools.Now(), func() string {
		id, err := s.tools.newKey()
		keyErr = err
		return "fb_" + id
	})
	if keyErr != nil {
		return store.Posted{}, keyErr
	}
	return s.store.Rate(ctx, tenant, f)
}

// Forget implements admin.Forgetter.
func (s *services) Forget(ctx context.Context, tenant, session string) (int, error) {
	if session == "" {
		return s.store.ForgetTenant(ctx, tenant)
	}
	return s.store.ForgetSession(ctx, tenant, session)
}

// Import implements admin.Importer.
func (s *services) Import(ctx context.Context, tenant, agent string, r io.Reader, at time.Time) (learn.ImportResult, error) {
	if s.memoryReason != "" {
		return learn.ImportResult{}, store.ErrNullBackend
	}
	importer := &learn.Importer{
		Now: s.tools.Now, LearningEnabled: s.learningEnabled && s.likeness.config().Learning.Enabled, Sessions: s.backend, Openings: &s.openings,
		Write: s.store.Import, RedactImported: s.store.RedactImported,
	}
	return importer.ImportAll(ctx, tenant, agent, r, at, func() {})
}

// Export implements admin.Exporter.
func (s *services) Export(ctx context.Context, w io.Writer, e admin.Export) error {
	if s.reader == nil {
		return store.ErrNullBackend
	}
	filter := e.Filter
	job := &ExportJob{StoreReader: s.reader, Filter: &filter, Agent: e.Agent, Session: e.Session, Out: w}
	return job.Write(ctx, e.Format)
}

// cachedReader reads exchanges through the store's cache.
type cachedReader struct {
	UnfilteredReader
	store *store.Store
}

// Exchanges implements StoreReader.
func (e cachedReader) Exchanges(ctx context.Context, tenant string, id session.ID) ([]sample.Exchange, error) {
	return e.store.Exchanges(ctx, tenant, id)
}

// Book implements admin.Library.
func (s *services) Book() *lesson.Book { return s.lessons.book.Load() }

// Block implements admin.Library.
func (s *services) Block(tenant string, l *lesson.Lesson) string {
	return s.proxy.InjectionConfig().Block(l, s.lessons.book.Load().Text(l), s.learner.Beliefs(tenant))
}

// Archived implements admin.Library.
func (s *services) Archived(ctx context.Context, slug string) (*lesson.Lesson, error) {
	ctx, cancel := context.WithTimeout(ctx, redisTimeout)
	defer cancel()
	list, _, err := s.lessons.bank.Archived(ctx)
	if err != nil {
		return nil, err
	}
	if i := slices.IndexFunc(list, func(l *lesson.Lesson) bool { return l.Slug == slug }); i >= 0 {
		return list[i], nil
	}
	return nil, admin.ErrNoLesson
}

// Findings implements admin.Library.
func (s *services) Findings(l *lesson.Lesson) []lesson.Finding {
	c, book := lesson.Checker{Secrets: PrivateKinds, Now: s.tools.Now()}, s.lessons.book.Load()
	return append(c.CheckLesson(l, book), c.CheckNotes(l)...)
}

// Log implements admin.Library.
func (s *services) Log(ctx context.Context, n int) ([]lesson.Event, error) {
	ctx, cancel := context.WithTimeout(ctx, redisTimeout)
	defer cancel()
	return s.lessons.bank.Log(ctx, n)
}

// Act implements admin.LessonChanger.
func (s *services) Act(
	ctx context.Context, slug string, seen lesson.SeenVersion, a lesson.Action, plan lesson.TrialPlan, by string,
) (*lesson.Lesson, error) {
	if strings.ContainsAny(slug, "/\\") {
		return nil, admin.ErrNoLesson
	}
	ctx, cancel := context.WithTimeout(ctx, BankTimeout)
	defer cancel()
	r, err := s.lessons.bank.Act(ctx, slug, bank.Decision{Action: a, Plan: plan, By: by, Seen: seen, Sessions: s.rewardedCounts(slug)})
	if errors.Is(err, bank.ErrNoLesson) {
		err = admin.ErrNoLesson
	}
	return r.Lesson, err
}

// rewardedCounts returns the numbers of rewarded sessions in which a lesson was injected and withheld, or nil if the
// lesson is unknown or archived.
func (s *services) rewardedCounts(slug string) *[2]int64 {
	book := s.lessons.book.Load()
	l, ok := book.Get(slug)
	if !ok {
		return nil
	}
	beliefs := s.learner.Beliefs(cmp.Or(l.Scope.Tenant, "default"))
	r := beliefs.TrialCounters().Stats(s.proxy.InjectionConfig().Present(l, book.Text(l), beliefs).Arm).Rewards
	return &[2]int64{int64(r.M1), int64(r.M0)}
}

// errStopScan ends a scan after enough sessions. It is not a failure.
var errStopScan = errors.New("enough sessions were read")

// Survey implements admin.Surveyor. It reads the newest sessions first, until it reaches surveyTimeout or
// maxSurveySessions.
func (s *services) Survey(ctx context.Context, tenant string) (*report.Survey, error) {
	now := s.tools.Now()
	if s.durable == nil {
		return nil, errors.New("no session is stored, because precept runs from memory; restart precept with a writable data directory")
	}
	survey := report.NewSurvey(now)
	survey.Complete = true
	err := newestFirst(now, func(since, until time.Time) error {
		survey.Since = since
		return s.durable.EachSession(ctx, tenant, since, until, func(r session.Row, a session.SettledState) error {
			if !a.Rewarded || a.Version == 0 {
				return nil
			}
			assignment, err := readAssignment(r, a)
			if err != nil {
				return err
			}
			survey.Add(assignment, a.Reward)
			survey.AddExample(assignment, r.ID.String(), r.Started)
			if survey.Sessions >= maxSurveySessions || s.tools.Now().Sub(now) > surveyTimeout {
				return errStopScan
			}
			return nil
		})
	})
	if errors.Is(err, errStopScan) {
		survey.Complete, err = false, nil
	}
	if err != nil {
		return nil, err
	}
	return survey, nil
}

// ScanRules implements admin.RulesReader.
func (s *services) ScanRules(ctx context.Context, tenant string) (*rules.Scan, error) {
	if s.reader == nil {
		return nil, errors.New("no session is stored, because precept runs from memory; restart precept with a writable data directory")
	}
	return ScanRules(ctx, s.reader, tenant, s.tools.Now())
}

// Nearest implements admin.Surveyor. It returns the lessons that nearly matched in a session, and why they did not.
func (s *services) Nearest(ctx context.Context, tenant, name string, matched []string) ([]backtest.Reason, error) {
	list, err := s.archive.VisibleExchanges(ctx, tenant, name)
	if err != nil {
		return nil, err
	}
	book := s.lessons.book.Load()
	key := nearKey{tenant, name, book.Hash(), strings.Join(matched, " "), len(list)}
	return s.nearestCache.get(key, func() ([]backtest.Reason, error) {
		timeoutCtx, cancel := context.WithTimeout(ctx, nearestTimeout)
		defer cancel()
		return backtest.Nearest(timeoutCtx, book, s.proxy.InjectionConfig().Tags, tenant, list, matched), ctx.Err()
	})
}

const (
	nearestTimeout   = 500 * time.Millisecond
	maxCachedReasons = 64
)

// nearestCache caches services.Nearest results, because the dashboard reloads an open session's page.
type nearestCache struct {
	mu      sync.Mutex
	reasons map[nearKey][]backtest.Reason
}

// nearKey changes with a new exchange, a changed book (the lessons in effect) or a new match.
type nearKey struct {
	tenant, session, book, matched string
	exchanges                      int
}

// get returns the cached result, or else calls compute.
func (n *nearestCache) get(key nearKey, compute func() ([]backtest.Reason, error)) ([]backtest.Reason, error) {
	n.mu.Lock()
	list, ok := n.reasons[key]
	n.mu.Unlock()
	if ok {
		return list, nil
	}
	list, err := compute()
	if err != nil {
		return nil, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.reasons == nil || len(n.reasons) >= maxCachedReasons {
		n.reasons = map[nearKey][]backtest.Reason{}
	}
	n.reasons[key] = list
	return list, nil
}

// Backtest implements admin.Surveyor. It matches l against the newest captured sessions.
func (s *services) Backtest(ctx context.Context, tenant string, l *lesson.Lesson) (backtest.Result, error) {
	if s.reader == nil {
		return backtest.Result{}, errors.New("no session is stored, because precept runs from memory; restart precept with a writable data directory")
	}
	run, cfg := backtest.New([]*lesson.Lesson{l}, s.proxy.InjectionConfig().Tags), s.likeness.config()
	if cfg.Match.Like != configs.LikeOff {
		traffic, err := s.likeness.recentTraffic(ctx)
		if err != nil {
			return backtest.Result{}, err
		}
		run.EnableLikeness(NewLikenessConfig(cfg, s.lessons.book.Load(), traffic))
	}
	now := s.tools.Now()
	err := newestFirst(now, func(since, until time.Time) error {
		return s.reader.EachSession(ctx, tenant, since, until, func(r session.Row, a session.SettledState) error {
			captured, err := CapturedSession(ctx, s.reader, r, a)
			if err != nil || captured == nil {
				return err
			}
			run.Add(captured)
			if run.Sessions() >= maxBacktestSessions || s.tools.Now().Sub(now) > backtestTimeout {
				return errStopScan
			}
			return nil
		})
	})
	if err != nil && !errors.Is(err, errStopScan) {
		return backtest.Result{}, err
	}
	return run.Results()[0], nil
}

// NewLikenessConfig returns the options for a backtest that also matches words that resemble a lesson.
func NewLikenessConfig(cfg *configs.Config, book *lesson.Book, t *lesson.Traffic) backtest.LikenessConfig {
	return backtest.LikenessConfig{OtherLessons: book.Lessons(), Traffic: t, Rate: cfg.Match.LikeRate, Inject: cfg.Match.Like == configs.LikeOn}
}

// newestFirst calls walk for the last day, and then for earlier periods of doubled length, up to maxScanDays ago.
func newestFirst(now time.Time, walk func(since, until time.Time) error) error {
	const day = 24 * time.Hour
	until, oldest := now.Add(time.Minute), now.Add(-maxScanDays*day)
	for length := day; until.After(oldest); length *= 2 {
		since := until.Add(-length)
		if since.Before(oldest) {
			since = oldest
		}
		if err := walk(since, until); err != nil {
			return err
		}
		until = since
	}
	return nil
}

// CapturedSession returns a session and the exchanges in it, for a backtest, or nil if no exchanges are stored.
func CapturedSession(ctx context.Context, reader StoreReader, r session.Row, a session.SettledState) (*backtest.Session, error) {
	exchanges, err := reader.Exchanges(ctx, r.Tenant, r.ID)
	if err != nil || len(exchanges) == 0 {
		return nil, err
	}
	slices.SortStableFunc(exchanges, func(x, y sample.Exchange) int { return cmp.Or(cmp.Compare(x.Turn, y.Turn), x.At.Compare(y.At)) })
	return &backtest.Session{
		Tenant: r.Tenant, Name: exchanges[0].SessionName, Exchanges: exchanges, Rewarded: a.Rewarded, Reward: a.Reward,
	}, nil
}
