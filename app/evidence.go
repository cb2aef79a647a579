package app

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
	"precept/learn"
	"precept/sample"
	"precept/session"
	"precept/store"
	"precept/store/redis"
	"precept/store/sqlite"
	"precept/trial"
)

// Evidence is a store, read beside whoever writes it.
type Evidence interface {
	Walker
	bench
	Close() error
}

// Walker goes through what is kept, oldest first.
type Walker interface {
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

// IsRedis says whether a store's address is one of Redis.
func IsRedis(url string) bool { return strings.HasPrefix(url, "redis") && strings.Contains(url, "://") }

// storedEvidence is a store that a verb reads.
type storedEvidence interface {
	Evidence
	Backend
}

// Backend is what stands behind a precept: for what is kept, and for what is learned from it.
type Backend interface {
	store.Backend
	learn.Backend
}

// OpenStored opens the configured store for reading.
func (w *Tools) OpenStored(ctx context.Context, cfg *configs.Config) (storedEvidence, error) {
	if !IsRedis(cfg.StoreURL()) {
		db, err := sqlite.Open(ctx, sqlite.Options{Path: cfg.StoreURL(), ReadOnly: true, Now: w.Now})
		if err != nil {
			return nil, err
		}
		return db, nil
	}
	return w.ReachRedis(ctx, cfg)
}

// ReachRedis opens the configured Redis for a verb, which cannot do without it.
func (w *Tools) ReachRedis(ctx context.Context, cfg *configs.Config) (*redis.Store, error) {
	db, err := redis.Open(redis.Options{URL: cfg.StoreURL(), Now: w.Now, MaxFeedback: cfg.Limits.Feedback, Log: func(string) {}})
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

// CloseEvidence ends reading; nothing was written that could be lost.
func CloseEvidence(e Evidence) { _ = e.Close() }

// SpoolDir is where the spool lies.
func SpoolDir(cfg *configs.Config) string { return filepath.Join(cfg.DataDir, "spool") }

// IsLocked says whether a precept runs on the data directory.
func IsLocked(dataDir string) bool {
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
