package redis

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"precept/inject/bank"
	"precept/inject/lesson"
	"precept/inject/rules"
	"precept/internal/session"
)

// Bank holds a fleet's lessons: LESSON.md texts by name, in one set for all replicas. Redis notifies subscribed
// replicas when a lesson changes; the rest find the change at the next poll.
type Bank struct{ store *Store }

// OpenBank returns a bank, and does not call Redis.
func OpenBank(o Options) (*Bank, error) {
	s, err := Open(o)
	if err != nil {
		return nil, err
	}
	return &Bank{s}, nil
}

// Close closes the bank.
func (b *Bank) Close() error { return b.store.Close() }

// Texts returns all texts, and the set's version (number of changes); "" means no lesson was ever stored.
func (b *Bank) Texts(ctx context.Context) (texts map[string][]byte, version string, err error) {
	err = b.store.do(ctx, "lessons", func(c client) error {
		// One transaction reads both, so that version and texts match.
		pipe := c.TxPipeline()
		all, v := pipe.HGetAll(ctx, b.store.commonKey("lessons")), pipe.Get(ctx, b.store.commonKey("lessons-version"))
		if err := readPipeline(ctx, pipe); err != nil {
			return err
		}
		texts, version = make(map[string][]byte, len(all.Val())), v.Val()
		for name, text := range all.Val() {
			texts[name] = []byte(text)
		}
		return nil
	})
	return texts, version, err
}

// Version returns the set's version.
func (b *Bank) Version(ctx context.Context) (string, error) {
	return doValue(ctx, b.store, "lessons", func(c client) (string, error) { return c.Get(ctx, b.store.commonKey("lessons-version")).Result() })
}

func checkLesson(name string, text []byte) error {
	switch {
	case !bank.IsName(name):
		return fmt.Errorf("redis: push lessons: %w: %q is not a lesson file name; the name must end in .md, and no part may start with a dot or an underscore", session.ErrInvalid, name)
	case len(text) > lesson.MaxFileSize:
		return fmt.Errorf("redis: push lessons: %w: %s has %d bytes, more than %d", session.ErrInvalid, name, len(text), lesson.MaxFileSize)
	}
	return nil
}

// runLessonsScript runs lessons.lua. The result is the new version, "noted" if the call only appends to the audit log,
// or "changed" if the lessons have changed since. It calls Options.OnUnreplicated if a failover could lose the change.
func (b *Bank) runLessonsScript(ctx context.Context, args []any) (string, error) {
	reply, err := doValue(ctx, b.store, "push lessons", func(c client) (string, error) {
		return b.store.script(ctx, c, "lessons", location{}, args...).Text()
	})
	if err == nil && reply != "changed" && b.store.options.OnUnreplicated != nil {
		if err := b.store.AwaitReplicas(ctx); err != nil {
			b.store.options.OnUnreplicated(err)
		}
	}
	return reply, err
}

func (b *Bank) channel() string { return b.store.commonKey("lessons") }

const (
	// pollEvery is the time between two Watcher polls. If the message about a change is lost, the next poll finds the
	// change.
	pollEvery           = 2 * time.Second
	healthCheckInterval = 5 * time.Second
)

// Watcher loads the bank's lessons, as lesson.Watcher does for a directory.
type Watcher struct {
	Poll time.Duration // time between two polls; 0 means two seconds
	// OnPanic, if set, is called after a panic in a poll. The active lessons stay active.
	OnPanic func(value any)

	bank            *Bank
	texts           *lesson.Texts
	onBook          func(*lesson.Book, []lesson.Problem)
	version         string
	hasRead         bool
	reportedProblem string // problem that was reported and still exists; "" means none
}

// Watch returns a watcher that calls onBook, in Run's goroutine, with each new book and the problems. While the bank is
// unreachable, or after data loss, the active book stays.
func (b *Bank) Watch(parsed *lesson.ParseCache, onBook func(*lesson.Book, []lesson.Problem), secrets ...lesson.SecretFinder) *Watcher {
	return &Watcher{Poll: pollEvery, bank: b, texts: lesson.NewTexts(b.Name(), secrets...).ShareCache(parsed), onBook: onBook}
}

// Run loads the lessons and calls onBook after every change, until ctx is done.
func (w *Watcher) Run(ctx context.Context) error {
	if w.Poll <= 0 {
		w.Poll = pollEvery
	}
	ticker := time.NewTicker(w.Poll)
	defer ticker.Stop()
	var changes <-chan *goredis.Message
	var sub *goredis.PubSub
	defer func() {
		if sub != nil {
			_ = sub.Close()
		}
	}()
	for {
		// If a lesson changed before the subscription began, the next poll finds the change.
		if reached := w.reloadSafely(ctx); reached && sub == nil {
			sub = w.bank.store.client.Subscribe(ctx, w.bank.channel())
			changes = sub.Channel(goredis.WithChannelHealthCheckInterval(healthCheckInterval))
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		case <-changes:
		}
	}
}

// reloadSafely calls reload and recovers from panics. After a panic, the same texts are not read again.
func (w *Watcher) reloadSafely(ctx context.Context) (reached bool) {
	defer func() {
		if v := recover(); v != nil && w.OnPanic != nil {
			w.OnPanic(v)
		}
	}()
	return w.reload(ctx)
}

func (w *Watcher) reload(ctx context.Context) bool {
	version, err := w.bank.Version(ctx)
	var texts map[string][]byte
	if err == nil && (!w.hasRead || version != w.version) {
		texts, version, err = w.bank.Texts(ctx)
	}
	switch {
	case ctx.Err() != nil:
	case err != nil:
		w.reportProblem(err.Error())
	case version == "" && w.version != "":
		w.reportProblem("Redis has lost the lessons; the lessons in memory stay in effect; push the lessons again with `precept lessons push`")
	case texts != nil:
		w.hasRead, w.version = true, version
		book, problems, changed := w.texts.Load(texts)
		if changed || w.reportedProblem != "" {
			w.reportedProblem = ""
			w.onBook(book, problems)
		}
	case w.reportedProblem != "": // Redis answers again, and the texts are unchanged
		w.reportedProblem = ""
		w.onBook(w.texts.Current())
	}
	return err == nil
}

func (w *Watcher) reportProblem(problem string) {
	if problem == w.reportedProblem {
		return
	}
	w.reportedProblem = problem
	book, problems := w.texts.Current()
	w.onBook(book, append(slices.Clip(problems), lesson.Problem{
		Path: "redis", StorageUnreadable: true, PreviousActive: true, Errors: lesson.ValidationErrors{{Code: lesson.CodeInternal, Message: problem}},
	}))
}

// Name returns "redis", and not the address, which can contain a password.
func (b *Bank) Name() string { return "redis" }

// Read implements bank.Storage.
func (b *Bank) Read(ctx context.Context) (bank.Contents, error) {
	texts, version, err := b.Texts(ctx)
	for name := range texts {
		if !bank.IsName(name) { // such as the lesson index
			delete(texts, name)
		}
	}
	return bank.Contents{Texts: texts, Version: version}, err
}

// Commit implements bank.Storage. One script compares the old texts and writes the new ones.
func (b *Bank) Commit(ctx context.Context, c bank.Change) error {
	args := []any{b.channel(), "at", c.Version}
	var writes []any
	for _, e := range c.Edits {
		if err := checkLesson(e.Name, e.New); err != nil {
			return err
		}
		if e.Old == nil {
			args = append(args, "not", e.Name)
		} else {
			args = append(args, "was", e.Name, string(e.Old))
		}
		if e.New == nil {
			writes = append(writes, "del", e.Name)
		} else {
			writes = append(writes, "set", e.Name, string(e.New))
		}
	}
	if c.Index != nil {
		old, err := b.index(ctx)
		if err != nil {
			return err
		}
		if index := string(c.Index([]byte(old))); index != old {
			writes = append(writes, "set", lesson.IndexFile, index)
		}
	}
	for i := range c.Log {
		line, err := json.Marshal(&c.Log[i])
		if err != nil {
			return fmt.Errorf("audit log: %w", err)
		}
		writes = append(writes, "log", string(line))
	}
	reply, err := b.runLessonsScript(ctx, append(args, writes...))
	if err == nil && reply == "changed" {
		err = bank.ErrChanged
	}
	return err
}

func (b *Bank) index(ctx context.Context) (index string, err error) {
	text, _, err := b.store.readField(ctx, "lessons", location{}, "lessons", lesson.IndexFile)
	return string(text), err
}

// Tail implements bank.Storage.
func (b *Bank) Tail(ctx context.Context, n int) (events []lesson.Event, err error) {
	lines, err := doValue(ctx, b.store, "lessons", func(c client) ([]string, error) {
		return c.LRange(ctx, b.store.commonKey("lessons-log"), int64(-n), -1).Result()
	})
	for _, line := range lines {
		var e lesson.Event
		if json.Unmarshal([]byte(line), &e) == nil {
			events = append(events, e)
		}
	}
	return events, err
}

// Sections returns the registered rules file sections; nil means that no section was ever registered.
func (b *Bank) Sections(ctx context.Context) ([]byte, error) {
	text, ok, err := b.store.readField(ctx, "sections", location{}, "lessons", rules.RegistryName)
	if err != nil || !ok {
		return nil, err
	}
	return text, nil
}

// Now returns the Redis server's time.
func (b *Bank) Now(ctx context.Context) (time.Time, error) {
	return b.store.Now(ctx)
}

// ReplaceSections replaces the registered sections, or returns bank.ErrChanged if they differ from old.
func (b *Bank) ReplaceSections(ctx context.Context, old, changed []byte) error {
	args := []any{b.channel(), "not", rules.RegistryName}
	if old != nil {
		args = []any{b.channel(), "was", rules.RegistryName, string(old)}
	}
	reply, err := b.runLessonsScript(ctx, append(args, "set", rules.RegistryName, string(changed)))
	if err == nil && reply == "changed" {
		err = bank.ErrChanged
	}
	return err
}
