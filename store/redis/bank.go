package redis

import (
	"context"
	"fmt"
	"slices"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"precept/inject/bank"
	"precept/inject/lesson"
	"precept/internal/session"
)

// Bank holds the lessons of a fleet: LESSON.md texts by name, one set for all replicas. A change is
// told at once to those who listen, and found by the others when they look.
type Bank struct{ s *Store }

// OpenBank makes a bank. It does not ask Redis for anything.
func OpenBank(o Options) (*Bank, error) {
	s, err := Open(o)
	if err != nil {
		return nil, err
	}
	return &Bank{s}, nil
}

// Close ends the bank.
func (b *Bank) Close() error { return b.s.Close() }

// Texts reads all lessons, with the version of the set: how often it was changed, "" when nobody
// ever put a lesson there.
func (b *Bank) Texts(ctx context.Context) (texts map[string][]byte, version string, err error) {
	err = b.s.do(ctx, "lessons", func(c client) error {
		// One transaction, so that the version is the texts' own.
		pipe := c.TxPipeline()
		all, v := pipe.HGetAll(ctx, b.s.shared("lessons")), pipe.Get(ctx, b.s.shared("lessons-version"))
		if err := each(ctx, pipe); err != nil {
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

// Version is the version of the set, as Texts tells it, without the texts.
func (b *Bank) Version(ctx context.Context) (string, error) {
	return ask(ctx, b.s, "lessons", func(c client) (string, error) { return c.Get(ctx, b.s.shared("lessons-version")).Result() })
}

// lessonFits refuses what no replica would take.
func lessonFits(name string, text []byte) error {
	switch {
	case !bank.IsName(name):
		return fmt.Errorf("redis: push lessons: %w: %q is no name of a lesson; it ends in .md, and no part of it starts with a dot or an underscore", session.ErrInvalid, name)
	case len(text) > lesson.MaxFile:
		return fmt.Errorf("redis: push lessons: %w: %s has %d bytes, more than %d", session.ErrInvalid, name, len(text), lesson.MaxFile)
	}
	return nil
}

// change runs the script and gives its answer: the new version, "noted", or "changed".
func (b *Bank) change(ctx context.Context, args []any) (string, error) {
	return ask(ctx, b.s, "push lessons", func(c client) (string, error) {
		return b.s.script(ctx, c, "lessons", b.s.shared(""), args...).Text()
	})
}

func (b *Bank) channel() string { return b.s.shared("lessons") }

// The times of a Watcher: a change is in force within a second where it is heard of, else at the
// next look.
const (
	lookEvery   = 2 * time.Second
	listenAgain = 5 * time.Second
)

// Watcher keeps the lessons of a bank in force, like lesson.Watcher those of a directory. Run
// starts everything, and has stopped it when it returns.
type Watcher struct {
	Poll time.Duration // how often the bank is looked at; 0: two seconds
	// Panicked is told of a panic in a look; nil: nobody. What was in force stays, and the watcher
	// goes on.
	Panicked func(value any)

	bank    *Bank
	texts   *lesson.Texts
	onBook  func(*lesson.Book, []lesson.Problem)
	version string
	read    bool   // the texts were read at least once
	fault   string // what onBook heard last of the bank itself, "" for nothing
}

// Watch makes a watcher that calls onBook, from Run's goroutine, with every new book and everything
// that is wrong with the texts. A bank that cannot be reached, or has lost its data, leaves the
// book in force.
func (b *Bank) Watch(onBook func(*lesson.Book, []lesson.Problem), secrets ...lesson.Secrets) *Watcher {
	return &Watcher{Poll: lookEvery, bank: b, texts: lesson.NewTexts("redis", secrets...), onBook: onBook}
}

// Run loads the lessons, calls back, and keeps doing so on every change until ctx is done.
func (w *Watcher) Run(ctx context.Context) error {
	if w.Poll <= 0 {
		w.Poll = lookEvery
	}
	ticker := time.NewTicker(w.Poll)
	defer ticker.Stop()
	var heard <-chan *goredis.Message
	var sub *goredis.PubSub
	defer func() {
		if sub != nil {
			_ = sub.Close()
		}
	}()
	for {
		// What changes before somebody listens is found at the next look.
		if reached := w.guarded(ctx); reached && sub == nil {
			sub = w.bank.s.client.Subscribe(ctx, w.bank.channel())
			heard = sub.Channel(goredis.WithChannelHealthCheckInterval(listenAgain))
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		case <-heard:
		}
	}
}

// guarded looks, and keeps a panic from ending the program. A set of texts that makes the look
// panic is not read again.
func (w *Watcher) guarded(ctx context.Context) (reached bool) {
	defer func() {
		if v := recover(); v != nil && w.Panicked != nil {
			w.Panicked(v)
		}
	}()
	return w.look(ctx)
}

// look reads the bank when it has changed, and says whether it could be asked.
func (w *Watcher) look(ctx context.Context) bool {
	version, err := w.bank.Version(ctx)
	var texts map[string][]byte
	if err == nil && (!w.read || version != w.version) {
		texts, version, err = w.bank.Texts(ctx)
	}
	switch {
	case ctx.Err() != nil:
	case err != nil:
		w.report(err.Error())
	case version == "" && w.version != "":
		w.report("Redis has lost the lessons; those in force stay, push them again")
	case texts != nil:
		w.read, w.version = true, version
		book, problems, changed := w.texts.Load(texts)
		if changed || w.fault != "" {
			w.fault = ""
			w.onBook(book, problems)
		}
	case w.fault != "": // Redis can be asked again, and the texts are the same
		w.fault = ""
		w.onBook(w.texts.Current())
	}
	return err == nil
}

// report calls back with the book in force and what is wrong with the bank, once.
func (w *Watcher) report(fault string) {
	if fault == w.fault {
		return
	}
	w.fault = fault
	book, problems := w.texts.Current()
	w.onBook(book, append(slices.Clip(problems), lesson.Problem{
		Path: "redis", Kept: true, Faults: lesson.Faults{{Code: lesson.CodeInternal, Message: fault}},
	}))
}
