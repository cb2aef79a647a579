package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"precept/configs"
	"precept/feedback"
	"precept/sample"
	"precept/session"
	"precept/store"
	"precept/store/redis"
	"precept/store/sqlite"
	"precept/trial"
)

// evidence is a store, read beside whoever writes it.
type evidence interface {
	walker
	bench
	Close() error
}

// walker goes through what is kept, oldest first.
type walker interface {
	EachExchange(ctx context.Context, tenant string, since, until time.Time, fn func(sample.Exchange) error) error
	EachSample(ctx context.Context, tenant string, since, until time.Time, fn func(session.StoredSample) error) error
	EachSession(ctx context.Context, tenant string, since, until time.Time, fn func(session.Row, session.Applied) error) error
}

// bench looks single things up.
type bench interface {
	Exchanges(ctx context.Context, tenant string, id session.ID) ([]sample.Exchange, error)
	Feedback(ctx context.Context, tenant string, id session.ID) ([]feedback.Entry, error)
	Counters(ctx context.Context, tenant string) ([]trial.Delta, error)
	Meta(ctx context.Context, key string) (value []byte, ok bool, err error)
	losses
}

// losses tells what became of what was stored.
type losses interface {
	Stats(ctx context.Context) (map[string]int64, error)
	Aside(ctx context.Context, limit int) (list []session.Aside, total int, err error)
	Unsampled(ctx context.Context) (int64, error)
}

// isRedis says whether a store's address is one of Redis.
func isRedis(url string) bool { return strings.HasPrefix(url, "redis") && strings.Contains(url, "://") }

// stored is a store that a verb reads.
type stored interface {
	evidence
	store.Backend
}

// openStored opens the configured store for reading.
func (w *world) openStored(ctx context.Context, cfg *configs.Config) (stored, error) {
	if !isRedis(cfg.StoreURL()) {
		db, err := sqlite.Open(ctx, sqlite.Options{Path: cfg.StoreURL(), ReadOnly: true, Now: w.now})
		if err != nil {
			return nil, err
		}
		return db, nil
	}
	return w.reachRedis(ctx, cfg)
}

// reachRedis opens the configured Redis for a verb, which cannot do without it.
func (w *world) reachRedis(ctx context.Context, cfg *configs.Config) (*redis.Store, error) {
	db, err := redis.Open(redis.Options{URL: cfg.StoreURL(), Now: w.now, Log: func(string) {}})
	if err != nil {
		return nil, fmt.Errorf("store.url: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, reachLimit)
	defer cancel()
	if err := db.Ping(ctx); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return db, nil
}

// openEvidence opens the configured store for reading.
func (w *world) openEvidence(ctx context.Context, cfg *configs.Config) (evidence, error) {
	return w.openStored(ctx, cfg)
}

// closeEvidence ends reading; nothing was written that could be lost.
func closeEvidence(e evidence) { _ = e.Close() }

// balance draws up the account of the data directory, and adds what the store counts where it can
// be read. That it cannot is the answer, where there is an account.
func (w *world) balance(ctx context.Context, cfg *configs.Config) (diagnosis, error) {
	d := diagnosis{}
	var err error
	if d.Books, err = store.ReadBooks(spoolDir(cfg), isLocked(cfg.DataDir)); err != nil {
		return d, err
	}
	e, err := w.openEvidence(ctx, cfg)
	if err == nil {
		defer closeEvidence(e)
		if d.Store, err = e.Stats(ctx); err == nil {
			err = d.losses(ctx, e)
		}
	}
	if err != nil && d.Admitted > 0 {
		d.Trouble, err = err.Error(), nil
	}
	return d, err
}

// spoolDir is where the spool lies.
func spoolDir(cfg *configs.Config) string { return filepath.Join(cfg.DataDir, "spool") }

// isLocked says whether a precept runs on the data directory.
func isLocked(dataDir string) bool {
	if _, err := os.Stat(dataDir); err != nil {
		return false
	}
	lock, err := sqlite.Lock(dataDir)
	if err != nil {
		return !errors.Is(err, sqlite.ErrReadOnly)
	}
	_ = lock.Close() // it was taken for a moment only
	return false
}
