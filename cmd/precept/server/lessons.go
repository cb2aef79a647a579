package server

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"math"
	"os"
	"sync/atomic"
	"time"

	"precept/configs"
	"precept/inject/bank"
	"precept/inject/lesson"
	"precept/internal/label"
	"precept/learn"
	"precept/proxy"
	"precept/store/redis"
)

// indexLimit bounds the time for writing the index.
const indexLimit = 10 * time.Second

// library holds the active lessons, and the bank through which lessons change.
type library struct {
	log      *slog.Logger
	failures *failures
	now      func() time.Time
	source   string // the key lessons of the configuration
	events   bool   // the kernel reports changes of the lesson directory

	book     atomic.Pointer[lesson.Book]
	problems atomic.Int64 // lesson files without effect

	redis  *redis.Bank // nil: the lessons are files in a directory
	place  bank.Place
	writer *bank.Bank
	counts func(slug string) lesson.Counts // set by countWith
}

func newLibrary(tools Tools, cfg *configs.Config, fleet *redis.Bank, events bool, f *failures) *library {
	l := &library{log: f.log, failures: f, now: tools.Now, source: cfg.Lessons, events: events, redis: fleet, place: bank.Directory(cfg.Lessons)}
	l.counts = func(string) lesson.Counts { return lesson.Counts{} }
	if fleet != nil {
		l.place = fleet
	}
	l.writer = tools.Writer(l.place, func(o *bank.Options) {
		o.Counts = func(slug string) lesson.Counts { return l.counts(slug) }
	})
	return l
}

// open loads the lessons and returns the worker that watches them.
func (l *library) open(ctx context.Context) func(context.Context) error {
	if l.redis != nil {
		ctx, cancel := context.WithTimeout(ctx, reachLimit)
		defer cancel()
		l.load(l.writer.List(ctx))
		watcher := l.redis.Watch(l.use, Keys)
		watcher.Panicked = func(v any) { l.failures.panicked(label.StepLessons, v) }
		return watcher.Run
	}
	watcher := lesson.NewWatcher(l.source, func(b *lesson.Book, problems []lesson.Problem) { //nolint:contextcheck // a watcher's call has no context; the time is bounded
		l.use(b, problems)
		l.reindex()
	}, Keys)
	watcher.Events = l.events
	watcher.Polling = func(why error) {
		l.log.Warn("changes of the lesson directory are not reported; the directory is read every second", "lessons", l.source, "error", why)
	}
	watcher.Panicked = func(v any) { l.failures.panicked(label.StepLessons, v) }
	l.load(watcher.Load())
	if _, err := os.Stat(l.source); errors.Is(err, fs.ErrNotExist) {
		l.log.Warn("the lesson directory does not exist; its lessons take effect when it appears", "lessons", l.source)
	}
	return watcher.Run
}

// load puts the first book into force, or an empty book when the lessons cannot be read.
func (l *library) load(b *lesson.Book, problems []lesson.Problem, err error) {
	if err != nil {
		l.log.Warn("lessons cannot be read; nothing is injected until they can", "lessons", l.source, "error", err)
		b = lesson.NewBook(nil)
	}
	l.use(b, problems)
}

// use makes a book effective and logs the lesson files without effect.
func (l *library) use(b *lesson.Book, problems []lesson.Problem) {
	old := l.book.Swap(b)
	l.problems.Store(int64(len(problems)))
	for i := range problems {
		l.log.Warn("a lesson file has no effect", "fault", problems[i].Error(), "kept", problems[i].Kept)
	}
	if old == nil || old.Hash() != b.Hash() {
		l.log.Info("lessons loaded", "active", countActive(b, l.now()), "book", b.Hash())
	}
}

// countActive counts the lessons of a book that may be injected. Candidates, archived lessons and
// replaced lessons do not count.
func countActive(b *lesson.Book, now time.Time) (n int) {
	for _, l := range b.Lessons() {
		if state, _ := b.StateAt(l.Slug, now); state.Fires() {
			n++
		}
	}
	return n
}

// reindex writes the index of the lesson directory after a person changed the lessons by hand. A
// directory that cannot be written works without an index.
func (l *library) reindex() {
	ctx, cancel := context.WithTimeout(context.Background(), indexLimit)
	defer cancel()
	if err := l.writer.Reindex(ctx); err != nil {
		l.log.Debug("the index of the lessons could not be written", "error", err)
	}
}

// countWith sets the counts in the index: the successes and failures of the sessions that had the
// present text of a lesson, in the lesson's tenant or the default tenant.
func (l *library) countWith(learner *learn.Learner, p *proxy.Proxy) {
	l.counts = func(slug string) lesson.Counts {
		one, ok := l.book.Load().Get(slug)
		if !ok {
			return lesson.Counts{}
		}
		text, beliefs := one.Text(), learner.Beliefs(cmp.Or(one.Scope.Tenant, "default"))
		good, bad := beliefs.RawCounts(p.Presentation().Present(one, &text, beliefs).Arm)
		return lesson.Counts{Success: int(math.Round(good)), Failure: int(math.Round(bad))}
	}
}
