package server

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"precept/bandit/feedback"
	"precept/configs"
	"precept/internal/sample"
	"precept/internal/session"
	"precept/learn"
	"precept/store"
	"precept/store/redis"
	"precept/store/sqlite"
)

// Evidence is a store, read beside whoever writes it.
type Evidence interface {
	Walker
	losses
	Exchanges(ctx context.Context, tenant string, id session.ID) ([]sample.Exchange, error)
	Feedback(ctx context.Context, tenant string, id session.ID) ([]feedback.Entry, error)
}

// Walker goes through what is kept, oldest first.
type Walker interface {
	EachSample(ctx context.Context, tenant string, since, until time.Time, fn func(session.StoredSample) error) error
	EachSession(ctx context.Context, tenant string, since, until time.Time, fn func(session.Row, session.Applied) error) error
}

// losses tells what became of what was stored.
type losses interface {
	Stats(ctx context.Context) (map[string]int64, error)
	DeadLetters(ctx context.Context, limit int) (list []session.DeadLetter, total int, err error)
	Unsampled(ctx context.Context) (int64, error)
}

// IsRedis says whether a store's address is one of Redis.
func IsRedis(url string) bool { return strings.HasPrefix(url, "redis") && strings.Contains(url, "://") }

// Backend is what stands behind a precept: for what is kept, and for what is learned from it.
type Backend interface {
	store.Backend
	learn.Backend
}

// Stored is the store that is configured, opened for a verb. Who opens it closes it.
type Stored interface {
	Evidence
	Backend
	DistillStore
}

// OpenStored opens the configured store for reading.
func (w *Tools) OpenStored(ctx context.Context, cfg *configs.Config) (Stored, error) {
	return w.OpenStore(ctx, cfg, sqlite.Options{ReadOnly: true})
}

// OpenStore opens the configured store. The options are of one of this machine's own; path, clock
// and limits are the configuration's.
func (w *Tools) OpenStore(
	ctx context.Context, cfg *configs.Config, o sqlite.Options,
) (Stored, error) {
	if IsRedis(cfg.StoreURL()) {
		return w.reachRedis(ctx, cfg)
	}
	o.Path, o.Now, o.MaxFeedback = cfg.StoreURL(), w.Now, cfg.Limits.Feedback
	db, err := sqlite.Open(ctx, o)
	if err != nil {
		return nil, err
	}
	return db, nil
}

// reachRedis opens the configured Redis for a verb, which cannot do without it.
func (w *Tools) reachRedis(ctx context.Context, cfg *configs.Config) (Stored, error) {
	db, err := redis.Open(redis.Options{URL: cfg.StoreURL(), Now: w.Now, MaxFeedback: cfg.Limits.Feedback})
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
