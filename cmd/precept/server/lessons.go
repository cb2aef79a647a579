package server

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"precept/bandit/trial"
	"precept/configs"
	"precept/inject/bank"
	"precept/inject/lesson"
	"precept/internal/label"
	"precept/learn"
	"precept/proxy"
	"precept/store/redis"
)

const (
	indexTimeout    = 10 * time.Second // maximum time to write _index.md
	historyTimeout  = time.Minute      // maximum time for one historyWorker pass
	historyInterval = 10 * time.Second // pause between passes, unless a lesson file changes
)

// library holds the lessons in effect (the book), which come from a directory or from Redis.
type library struct {
	log        *slog.Logger
	failures   *failures
	now        func() time.Time
	source     string // value of the lessons key
	location   string // see LessonsLocation
	fileEvents bool   // watch the directory with kernel events

	book        atomic.Pointer[lesson.Book]
	problems    atomic.Int64                     // number of faulty files
	faultyFiles atomic.Pointer[[]lesson.Problem] // faulty files; they have no effect
	readError   atomicString                     // error and remedy while the lessons cannot be read

	redis   *redis.Bank // nil if the lessons are files
	storage bank.Storage
	bank    *bank.Bank // checks and writes the lessons in storage
	parsed  *lesson.ParseCache
	counts  func(slug string) lesson.Counts // a lesson's successes and failures, for the index; set by setCountsFunc

	edited  chan struct{} // receives a value after a change in the directory; capacity 1
	history history
}

// history is historyWorker's state. A caution is a lesson that the model sees as a warning, because sessions with it
// have lower rewards than sessions without it.
type history struct {
	lastDirectory *lesson.Book      // lessons in the directory at the last pass
	lastBook      *lesson.Book      // lessons in effect at the last pass
	unfinished    bool              // the last pass did not record all edits
	cautions      map[string]string // content hashes of the cautions in the audit log, by slug; nil until the log is read
}

func newLibrary(tools Tools, cfg *configs.Config, redisBank *redis.Bank, events bool, f *failures) *library {
	l := &library{log: f.log, failures: f, now: tools.Now, source: cfg.Lessons, location: LessonsLocation(cfg), fileEvents: events, redis: redisBank, storage: bank.Directory(filepath.Clean(cfg.Lessons)), parsed: lesson.NewParseCache()}
	l.edited = make(chan struct{}, 1)
	l.counts = func(string) lesson.Counts { return lesson.Counts{} }
	if redisBank != nil {
		l.storage = redisBank
	}
	l.bank = tools.NewBank(l.storage, withLessonLimit(cfg), func(o *bank.Options) {
		o.Counts = func(slug string) lesson.Counts { return l.counts(slug) }
		o.ParseCache = l.parsed
	})
	return l
}

// open loads the lessons, and returns the worker that reloads them.
func (l *library) open(ctx context.Context) func(context.Context) error {
	if l.redis != nil {
		ctx, cancel := context.WithTimeout(ctx, redisTimeout)
		defer cancel()
		l.loadFirst(l.bank.List(ctx))
		watcher := l.redis.Watch(l.parsed, l.activate, SecretKinds)
		watcher.OnPanic = func(v any) { l.failures.reportPanic(label.StepLessons, v) }
		return watcher.Run
	}
	watcher := lesson.NewWatcher(l.source, func(b *lesson.Book, problems []lesson.Problem) { //nolint:contextcheck // the callback of a watcher has no context; indexTimeout bounds its time
		l.activate(b, problems)
		l.warnIfMissing()
		l.reindex()
		select {
		case l.edited <- struct{}{}:
		default:
		}
	}, SecretKinds)
	watcher.ShareCache(l.parsed)
	watcher.Events = l.fileEvents
	watcher.OnPolling = func(cause error) {
		l.log.Warn("the system does not report changes in the lesson directory; precept reads the directory every second instead", "lessons", l.source, "error", cause)
	}
	watcher.OnPanic = func(v any) { l.failures.reportPanic(label.StepLessons, v) }
	l.loadFirst(watcher.Load())
	l.warnIfMissing()
	return watcher.Run
}

func (l *library) warnIfMissing() {
	if _, err := os.Stat(l.source); errors.Is(err, fs.ErrNotExist) {
		l.log.Warn("the lesson directory does not exist; create the directory (`precept init --starter` writes starter lessons), or correct the lessons key", "lessons", l.source)
	}
}

func (l *library) loadFirst(b *lesson.Book, problems []lesson.Problem, err error) {
	if err != nil {
		b = lesson.NewBook(nil)
		problems = append(problems, lesson.Problem{Path: l.location, StorageUnreadable: true, Errors: lesson.ValidationErrors{{Code: lesson.CodeInternal, Message: err.Error()}}})
	}
	l.activate(b, problems)
}

func (l *library) activate(b *lesson.Book, problems []lesson.Problem) {
	b.Prepare()
	old := l.book.Swap(b)
	var files []lesson.Problem
	unread := ""
	for i := range problems {
		if p := &problems[i]; p.StorageUnreadable {
			unread = p.Errors.Error()
		} else {
			files = append(files, *p)
		}
	}
	l.logReadability(unread, b)
	l.problems.Store(int64(len(files)))
	l.faultyFiles.Store(&files)
	for i := range files {
		l.log.Warn("a lesson file has faults and is not used", "fault", files[i].Error(), "kept", files[i].PreviousActive)
	}
	if old == nil || old.Hash() != b.Hash() {
		l.log.Info("lessons loaded", "active", countActive(b, l.now()), "book", b.Hash())
	}
}

// logReadability writes a log line if the error text has changed. text is "" if the lessons were read.
func (l *library) logReadability(text string, b *lesson.Book) {
	before := l.readError.get()
	l.readError.set(text)
	switch {
	case text == before:
	case text == "":
		l.log.Info("the lessons can be read again", "lessons", l.location)
	case b.Len() == 0:
		l.log.Warn("the lessons cannot be read; no lesson is injected until they can be read again", "lessons", l.location, "error", text, "remedy", l.remedy())
	default:
		l.log.Warn("the lessons cannot be read; the lessons in memory stay in effect", "lessons", l.location, "error", text, "remedy", l.remedy())
	}
}

func (l *library) remedy() string {
	if l.redis == nil {
		return "make the directory readable, or correct the lessons key"
	}
	return redisRemedy(l.source)
}

// redisRemedy returns the remedy for the case that the Redis named by the lessons key cannot be read.
func redisRemedy(source string) string {
	if source == "redis://" {
		return "start Redis, or correct store.url"
	}
	return "start Redis, or correct the lessons key"
}

// countActive counts the active lessons.
func countActive(b *lesson.Book, now time.Time) (n int) {
	for _, l := range b.Lessons() {
		if state, _ := b.StateAt(l.Slug, now); state.IsActive() {
			n++
		}
	}
	return n
}

// reindex writes the lesson index. A failure is logged at debug level, because the directory may be read-only.
func (l *library) reindex() {
	ctx, cancel := context.WithTimeout(context.Background(), indexTimeout)
	defer cancel()
	if err := l.bank.Reindex(ctx); err != nil {
		l.log.Debug("the lesson index could not be written", "error", err)
	}
}

// historyWorker records in the audit log when a person edits a lesson file, and when a lesson becomes or stops being a
// caution. The bank logs all other changes.
func (l *library) historyWorker(learner *learn.Learner, p *proxy.Proxy) func(context.Context) error {
	return func(ctx context.Context) error {
		tick := time.NewTicker(historyInterval)
		defer tick.Stop()
		for {
			pass, cancel := context.WithTimeout(ctx, historyTimeout)
			err := errors.Join(l.recordEdits(pass), l.recordCautions(pass, learner, p))
			cancel()
			if err != nil {
				l.log.Debug("the lessons' audit log could not be written", "error", err)
			}
			select {
			case <-ctx.Done():
				return nil
			case <-l.edited:
			case <-tick.C:
			}
		}
	}
}

func (l *library) recordEdits(ctx context.Context) error {
	book := l.book.Load()
	if l.redis != nil || book == l.history.lastBook && !l.history.unfinished {
		return nil
	}
	origin := func(ctx context.Context, path string, text []byte) bank.Origin {
		return bank.FileOrigin(ctx, path, text, l.now().UTC())
	}
	before, postponed, err := l.bank.RecordEdits(ctx, l.history.lastDirectory, origin)
	if err != nil {
		return err
	}
	l.history.lastDirectory, l.history.lastBook, l.history.unfinished = before, book, postponed > 0
	return nil
}

func (l *library) recordCautions(ctx context.Context, learner *learn.Learner, p *proxy.Proxy) error {
	if l.history.cautions == nil {
		logged, err := l.bank.LoggedCautions(ctx)
		if err != nil {
			return err
		}
		l.history.cautions = logged
	}
	book, presentation := l.book.Load(), p.InjectionConfig()
	var changes []bank.CautionChange
	for _, current := range book.Lessons() {
		if !current.State.IsActive() || current.State == lesson.Caution || current.Outcome == "failure" {
			continue
		}
		beliefs := learner.Beliefs(cmp.Or(current.Scope.Tenant, "default"))
		shown := presentation.Present(current, book.Text(current), beliefs)
		if shown.Caution == (l.history.cautions[current.Slug] == current.ContentHash) {
			continue // the audit log says so already
		}
		// An arm is a lesson in one presentation. The sessions in which the lesson was shown as advice decide whether
		// it is a caution.
		advice := trial.Arm(strings.TrimSuffix(string(shown.Arm), ".caution"))
		if better, worse := beliefs.CautionEvidence(advice); !shown.Caution && !presentation.NoCautions && better+worse == 0 {
			continue // the counts are not loaded yet
		}
		r := beliefs.TrialCounters().Stats(advice).Rewards
		t := bank.CautionChange{Slug: current.Slug, Hash: current.ContentHash, Caution: shown.Caution, SessionsWith: int64(r.M1), SessionsWithout: int64(r.M0)}
		if r.M1 > 0 {
			t.MeanWith = r.Y1 / r.M1
		}
		if r.M0 > 0 {
			t.MeanWithout = r.Y0 / r.M0
		}
		changes = append(changes, t)
	}
	if len(changes) == 0 {
		return nil
	}
	l.history.cautions = nil // the next pass reads the changed log
	return l.bank.RecordCautionChanges(ctx, changes)
}

// setCountsFunc sets the function that returns the counts for the index: the successes and failures with the current
// text, in the lesson's tenant or else the default tenant.
func (l *library) setCountsFunc(learner *learn.Learner, p *proxy.Proxy) {
	l.counts = func(slug string) lesson.Counts {
		current, ok := l.book.Load().Get(slug)
		if !ok {
			return lesson.Counts{}
		}
		text, beliefs := current.Text(), learner.Beliefs(cmp.Or(current.Scope.Tenant, "default"))
		good, bad := beliefs.RawCounts(p.InjectionConfig().Present(current, &text, beliefs).Arm)
		return lesson.Counts{Success: int(math.Round(good)), Failure: int(math.Round(bad))}
	}
}
