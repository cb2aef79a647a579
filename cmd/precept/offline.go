package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"

	"precept/configs"
	"precept/store"
	"precept/store/sqlite"
)

// offline is the store of a data directory in which no server runs, at work in this process: what a verb does with it goes
// the same way as a server's.
type offline struct {
	*store.Store
	stop func() error // ends it, with the first failure of a step
}

// errServed says that a server has the data directory: it must be asked, or stopped.
var errServed = sqlite.ErrLocked

// openOffline claims the data directory and starts its store. It makes none where there is none, unless create.
func (w *world) openOffline(ctx context.Context, cfg *configs.Config, create bool) (*offline, error) {
	path := cfg.StoreURL()
	if strings.HasPrefix(path, "redis") {
		return nil, errors.New("the store is in Redis, where this verb works through a running server only: start one, or name a file with --store-url")
	}
	if _, err := os.Stat(path); err != nil && !create {
		return nil, fmt.Errorf("%w: %s; name the right --data-dir", sqlite.ErrMissing, path)
	}
	lock, err := sqlite.Lock(cfg.DataDir)
	if err != nil {
		return nil, err
	}
	db, err := sqlite.Open(ctx, sqlite.Options{Path: path, Now: w.now})
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	var mu sync.Mutex
	var failed error
	options, err := w.storeOptions(cfg, db)
	options.Failed = func(step string, err error) {
		mu.Lock()
		defer mu.Unlock()
		failed = errors.Join(failed, fmt.Errorf("%s: %w", step, err))
	}
	options.Panicked = func(step string, value any) { options.Failed(step, fmt.Errorf("panic: %v", value)) }
	var s *store.Store
	if err == nil {
		s, err = store.Open(ctx, options)
	}
	if err != nil {
		return nil, errors.Join(err, db.Close(), lock.Close())
	}
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan error, 1)
	go func() { ended <- s.Run(running) }()
	return &offline{Store: s, stop: func() error {
		cancel()
		err := errors.Join(<-ended, s.Close(), lock.Close())
		mu.Lock()
		defer mu.Unlock()
		return errors.Join(err, failed)
	}}, nil
}
