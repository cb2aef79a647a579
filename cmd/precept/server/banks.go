package server

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"

	"precept/configs"
	"precept/inject/bank"
	"precept/inject/lesson"
	"precept/internal/label"
	"precept/internal/redact"
	"precept/store/redis"
)

// BankLimit bounds a verb that talks to a bank.
const BankLimit = 10 * reachLimit

// bankURL is the address of the fleet's lessons, "" when they lie in a directory. redis:// alone is
// the Redis of store.url, so that its password stands in one place.
func bankURL(cfg *configs.Config) (string, error) {
	switch {
	case !IsRedis(cfg.Lessons):
		return "", nil
	case cfg.Lessons != "redis://":
		return cfg.Lessons, nil
	case IsRedis(cfg.StoreURL()):
		return cfg.StoreURL(), nil
	}
	return "", errors.New(
		"lessons: redis:// means the Redis of store.url, and that is a file; write redis://host:6379/0",
	)
}

// OpenBank opens the fleet's lessons; nil when they lie in a directory.
func (w *Tools) OpenBank(cfg *configs.Config) (*redis.Bank, error) {
	url, err := bankURL(cfg)
	if url == "" || err != nil {
		return nil, err
	}
	b, err := redis.OpenBank(redis.Options{URL: url, Now: w.Now})
	if err != nil {
		return nil, fmt.Errorf("lessons: %w", err)
	}
	return b, nil
}

// OpenWriter opens the configured lessons for writing. See Writer.
func (w *Tools) OpenWriter(cfg *configs.Config, change ...func(*bank.Options)) (b *bank.Bank, closeBank func(), err error) {
	place, closeBank, err := w.OpenPlace(cfg)
	if err != nil {
		return nil, nil, err
	}
	return w.Writer(place, change...), closeBank, nil
}

// Writer is the rules for a place, with the hooks that the checks have everywhere, and with what
// this writer has of its own.
func (w *Tools) Writer(place bank.Place, change ...func(*bank.Options)) *bank.Bank {
	o := bank.Options{Place: place, Now: w.Now, Keys: Keys, Checks: lesson.Checks{Secrets: Secrets}}
	for _, c := range change {
		c(&o)
	}
	return bank.New(o)
}

// openLessons takes the configured lessons into force and makes what watches them. A bank that is
// away is no reason not to start: the lessons come when it does.
func (p *parts) openLessons(ctx context.Context, cfg *configs.Config) error {
	var err error
	if p.bank, err = p.OpenBank(cfg); err != nil {
		return err
	}
	if p.bank != nil {
		p.place = p.bank
		p.watchBank(ctx)
	} else {
		p.place = bank.Directory(cfg.Lessons)
		p.watchDirectory(cfg) //nolint:contextcheck // a watcher's news has no context; it is bounded by itself
	}
	p.writer = p.Writer(p.place, func(o *bank.Options) { o.Counts = p.counts })
	return nil
}

// watchDirectory takes the lessons of a directory into force, now and whenever it has changed.
func (p *parts) watchDirectory(cfg *configs.Config) {
	watcher := lesson.NewWatcher(cfg.Lessons, func(b *lesson.Book, problems []lesson.Problem) {
		p.lessons(b, problems)
		p.reindex()
	}, Keys)
	watcher.Panicked = func(v any) { p.panicked(label.StepLessons, v) }
	p.lessonsOf(watcher.Load())
	if _, err := os.Stat(cfg.Lessons); errors.Is(err, fs.ErrNotExist) {
		p.log.Warn(
			"there is no such directory of lessons; they come into force when it appears",
			"lessons", cfg.Lessons,
		)
	}
	p.owners = append(p.owners, watcher.Run)
}

// watchBank does so with the lessons of a fleet.
func (p *parts) watchBank(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, reachLimit)
	defer cancel()
	p.lessonsOf(p.Writer(p.bank).List(ctx))
	watcher := p.bank.Watch(p.lessons, Keys)
	watcher.Panicked = func(v any) { p.panicked(label.StepLessons, v) }
	p.owners = append(p.owners, watcher.Run)
}

// lessonsOf takes the first reading into force, or none where it failed.
func (p *parts) lessonsOf(b *lesson.Book, problems []lesson.Problem, err error) {
	if err != nil {
		p.log.Warn(
			"lessons cannot be read; nothing is injected until they can", "lessons", p.cfg.Lessons,
			"error", err,
		)
		b = lesson.NewBook(nil)
	}
	p.lessons(b, problems)
}

// Keys names the kinds of secrets in a text, without what is only personal: whom to ask may be what
// a person's lesson is about.
func Keys(text string) []string {
	r := redact.New(false)
	r.Text(text)
	return slices.Sorted(maps.Keys(r.Counts()))
}

// Secrets names the kinds of secrets and personal data in a text, by the redactor that samples pass
// through.
func Secrets(text string) []string {
	r := redact.New(true)
	r.Text(text)
	return slices.Sorted(maps.Keys(r.Counts()))
}
