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

// offlineStore is a store that this process runs without a server.
type offlineStore struct {
	Store   *store.Store
	backend server.Backend
	stop    func() error // stops the store
}

// errDataDirLocked reports that a server has locked the data directory. The command then asks the server to do the
// work.
var errDataDirLocked = sqlite.ErrLocked

type offlineOptions struct {
	create      bool
	sharesRedis bool // with a store in Redis, run next to a server that uses this data directory
}

// openOffline opens and starts the configured store. It locks the data directory, which holds the SQLite database or,
// for a store in Redis, the outbox. With sharesRedis it takes no lock and uses no outbox.
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
			_ = server.MakeDataDir(cfg.DataDir) // adds a .gitignore below the working directory
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
	options.Hooks.OnUnreplicated = tools.OnUnreplicated
	if !locksDir {
		options.Queue.Path = ""
	}
	if err != nil {
		return nil, errors.Join(err, backend.Close(), lock.Close())
	}
	return startOffline(ctx, backend, options, lock)
}

func isStoreMissing(cfg *configs.Config) bool {
	_, err := os.Stat(cfg.StoreURL())
	return errors.Is(err, fs.ErrNotExist) && !server.IsRedis(cfg.StoreURL())
}

func checkStoreExists(cfg *configs.Config) error {
	if isStoreMissing(cfg) {
		return fmt.Errorf("%w: %s; name the server's data directory with --data-dir", sqlite.ErrMissing, cfg.StoreURL())
	}
	return nil
}

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
