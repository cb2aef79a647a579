package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"precept/app"
	"precept/configs"
	"precept/store"
	"precept/store/sqlite"
)

// offline is a store at work in this process, without a server: what a verb does with it goes the
// same way as a server's.
type offline struct {
	*store.Store
	backend app.Backend
	stop    func() error // ends it, with the first failure of a step
}

// errServed says that a server has the data directory: it must be asked, or stopped.
var errServed = sqlite.ErrLocked

// offlineUse says what a verb does with an offline store.
type offlineUse struct {
	create bool // make the store where there is none
	beside bool // nothing of it meets a running server of a store that several share
}

// openOffline opens the configured store, and starts it. A store of this machine's own wants the
// data directory for itself; one in Redis is shared anyway, and then it is the spool beside it that
// must be nobody else's.
func (w *world) openOffline(
	ctx context.Context, cfg *configs.Config, use offlineUse,
) (*offline, error) {
	var be app.Backend
	var lock io.Closer
	var err error
	claimed := !app.IsRedis(cfg.StoreURL()) || !use.beside && isDirectory(cfg.DataDir)
	if path := cfg.StoreURL(); !app.IsRedis(path) && !use.create && !exists(path) {
		return nil, fmt.Errorf("%w: %s; name the right --data-dir", sqlite.ErrMissing, path)
	}
	if claimed {
		if lock, err = sqlite.Lock(cfg.DataDir); err != nil {
			return nil, err
		}
	} else {
		lock = io.NopCloser(nil)
	}
	if app.IsRedis(cfg.StoreURL()) {
		be, err = w.ReachRedis(ctx, cfg)
	} else {
		be, err = sqlite.Open(ctx, sqlite.Options{
			Path: cfg.StoreURL(), Now: w.Now, MaxFeedback: cfg.Limits.Feedback,
		})
	}
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	options, err := w.StoreOptions(cfg, be)
	if !claimed {
		options.SpoolDir = ""
	}
	if err != nil {
		return nil, errors.Join(err, be.Close(), lock.Close())
	}
	return startOffline(ctx, be, options, lock)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// startOffline runs a store until it is stopped.
func startOffline(
	ctx context.Context, be app.Backend, options store.Options, lock io.Closer,
) (*offline, error) {
	var mu sync.Mutex
	var failed error
	options.Aside = true
	options.Failed = func(step string, err error) {
		mu.Lock()
		defer mu.Unlock()
		failed = errors.Join(failed, fmt.Errorf("%s: %w", step, err))
	}
	options.Panicked = func(step string, value any) { options.Failed(step, fmt.Errorf("panic: %v", value)) }
	s, err := store.Open(ctx, options)
	if err != nil {
		return nil, errors.Join(err, be.Close(), lock.Close())
	}
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan error, 1)
	go func() { ended <- s.Run(running) }()
	return &offline{Store: s, backend: be, stop: func() error {
		cancel()
		err := errors.Join(<-ended, s.Close(), lock.Close())
		mu.Lock()
		defer mu.Unlock()
		return errors.Join(err, failed)
	}}, nil
}
