package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"precept/cmd/precept/server"
	"precept/configs"
	"precept/internal/label"
	"precept/store"
	"precept/store/sqlite"
)

// offlineStore is a store that this process runs without a server, for commands that write.
type offlineStore struct {
	Store   *store.Store
	backend server.Backend
	stop    func() error // stops the store, and returns the errors of its steps
}

// errDataDirLocked reports that a server has locked the data directory. A command that gets this error asks the server
// to do the work.
var errDataDirLocked = sqlite.ErrLocked

// offlineOptions describes how a command uses an offline store.
type offlineOptions struct {
	create      bool // create the store if it is missing
	sharesRedis bool // the command may run while a server with this data directory uses the same store in Redis
}

// openOffline opens and starts the configured store. For SQLite, openOffline locks the data directory. For Redis, the
// lock protects only the outbox in the directory. If sharesRedis is set, openOffline takes no lock and uses no outbox.
func openOffline(
	ctx context.Context, tools server.Tools, cfg *configs.Config, use offlineOptions,
) (*offlineStore, error) {
	var lock io.Closer = io.NopCloser(nil)
	locksDir := !server.IsRedis(cfg.StoreURL()) || !use.sharesRedis && isDirectory(cfg.DataDir)
	if err := checkStoreExists(cfg); err != nil && !use.create {
		return nil, err
	}
	if locksDir {
		var err error
		if use.create && filepath.IsLocal(cfg.DataDir) {
			_ = server.MakeDataDir(cfg.DataDir) // adds a .gitignore below the working directory; the lock reports a failure
		}
		if lock, err = sqlite.Lock(cfg.DataDir); err != nil {
			return nil, err
		}
	}
	backend, err := tools.OpenStore(ctx, cfg, sqlite.Options{})
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	options, err := tools.StoreOptions(cfg, backend)
	if !locksDir {
		options.Queue.Path = ""
	}
	if err != nil {
		return nil, errors.Join(err, backend.Close(), lock.Close())
	}
	return startOffline(ctx, backend, options, lock)
}

// isStoreMissing reports whether the configured store does not exist yet.
func isStoreMissing(cfg *configs.Config) bool {
	_, err := os.Stat(cfg.StoreURL())
	return errors.Is(err, fs.ErrNotExist) && !server.IsRedis(cfg.StoreURL())
}

// checkStoreExists returns an error if the configured store does not exist yet.
func checkStoreExists(cfg *configs.Config) error {
	if isStoreMissing(cfg) {
		return fmt.Errorf("%w: %s; name the right --data-dir", sqlite.ErrMissing, cfg.StoreURL())
	}
	return nil
}

// startOffline runs a store until stop is called.
func startOffline(
	ctx context.Context, backend server.Backend, options store.Options, lock io.Closer,
) (*offlineStore, error) {
	var mu sync.Mutex
	var stepErrs error
	options.Retention = 0 // only a server deletes by age
	options.Hooks.OnFailure = func(step label.Step, err error) {
		mu.Lock()
		defer mu.Unlock()
		stepErrs = errors.Join(stepErrs, fmt.Errorf("%s: %w", step, err))
	}
	options.Hooks.OnPanic = func(step label.Step, value any) { options.Hooks.OnFailure(step, fmt.Errorf("panic: %v", value)) }
	s, err := store.Open(ctx, options)
	if err != nil {
		return nil, errors.Join(err, backend.Close(), lock.Close())
	}
	runCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan error, 1)
	go func() { ended <- s.Run(runCtx) }()
	return &offlineStore{Store: s, backend: backend, stop: func() error {
		cancel()
		err := errors.Join(<-ended, s.Close(), lock.Close())
		mu.Lock()
		defer mu.Unlock()
		return errors.Join(err, stepErrs)
	}}, nil
}
