package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"precept/cmd/precept/server"
	"precept/configs"
	"precept/internal/label"
	"precept/store"
	"precept/store/sqlite"
)

// offline is a store at work in this process, without a server: what a verb does with it goes the
// same way as a server's.
type offline struct {
	*store.Store
	backend server.Backend
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
func openOffline(
	ctx context.Context, tools server.Tools, cfg *configs.Config, use offlineUse,
) (*offline, error) {
	var lock io.Closer = io.NopCloser(nil)
	claimed := !server.IsRedis(cfg.StoreURL()) || !use.beside && isDirectory(cfg.DataDir)
	if err := missingStore(cfg); err != nil && !use.create {
		return nil, err
	}
	if claimed {
		var err error
		if lock, err = sqlite.Lock(cfg.DataDir); err != nil {
			return nil, err
		}
	}
	be, err := tools.OpenStore(ctx, cfg, sqlite.Options{})
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	options, err := tools.StoreOptions(cfg, be)
	if !claimed {
		options.SpoolDir = ""
	}
	if err != nil {
		return nil, errors.Join(err, be.Close(), lock.Close())
	}
	return startOffline(ctx, be, options, lock)
}

// storeless says that nothing was ever kept here.
func storeless(cfg *configs.Config) bool {
	_, err := os.Stat(cfg.StoreURL())
	return err != nil && !server.IsRedis(cfg.StoreURL())
}

// missingStore is the error of a verb that needs what was kept, where nothing ever was.
func missingStore(cfg *configs.Config) error {
	if storeless(cfg) {
		return fmt.Errorf("%w: %s; name the right --data-dir", sqlite.ErrMissing, cfg.StoreURL())
	}
	return nil
}

// startOffline runs a store until it is stopped.
func startOffline(
	ctx context.Context, be server.Backend, options store.Options, lock io.Closer,
) (*offline, error) {
	var mu sync.Mutex
	var failed error
	options.Retention = 0 // what is too old is the server's business
	options.Failed = func(step label.Step, err error) {
		mu.Lock()
		defer mu.Unlock()
		failed = errors.Join(failed, fmt.Errorf("%s: %w", step, err))
	}
	options.Panicked = func(step label.Step, value any) { options.Failed(step, fmt.Errorf("panic: %v", value)) }
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
