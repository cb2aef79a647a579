package server

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"precept/admin"
	"precept/bandit/feedback"
	"precept/cmd/precept/lake"
	"precept/configs"
	"precept/internal/label"
	"precept/internal/sample"
	"precept/internal/session"
	"precept/learn"
	"precept/store"
	"precept/store/redis"
	"precept/store/sqlite"
)

// Backend is the database behind the store and the learner.
type Backend interface {
	store.Backend
	learn.Backend
	admin.Notes
}

// StoreReader reads the stored sessions, exchanges and samples.
type StoreReader interface {
	Walker
	rowCounter
	Exchanges(ctx context.Context, tenant string, id session.ID) ([]sample.Exchange, error)
	Feedback(ctx context.Context, tenant string, id session.ID) ([]feedback.Entry, error)
}

// UnfilteredReader is a StoreReader that also returns opted-out content, and individual session rows.
type UnfilteredReader interface {
	StoreReader
	Session(ctx context.Context, tenant string, id session.ID) (session.Row, bool, error)
}

// Walker visits the stored samples and sessions, oldest first.
type Walker interface {
	EachSample(ctx context.Context, tenant string, since, until time.Time, fn func(session.StoredSample) error) error
	EachSession(ctx context.Context, tenant string, since, until time.Time, fn func(session.Row, session.SettledState) error) error
}

// rowCounter counts a store's rows. A dead letter is a session or exchange that learning skips after a panic.
// CountUnsampled counts exchanges without a sample.
type rowCounter interface {
	Stats(ctx context.Context) (map[string]int64, error)
	DeadLetters(ctx context.Context, limit int) (list []session.DeadLetter, total int, err error)
	CountUnsampled(ctx context.Context) (int64, error)
}

// CommandStore is a store that a command opens and closes.
type CommandStore interface {
	StoreReader
	Backend
	DistillStore
	lake.Source
	metaStore
	Meta(ctx context.Context, key string) ([]byte, bool, error)
}

// IsRedis reports whether url is a Redis store's address.
func IsRedis(url string) bool { return strings.HasPrefix(url, "redis") && strings.Contains(url, "://") }

// FilteredStore is a store for reading, without opted-out content.
type FilteredStore struct {
	StoreReader
	openSessionFinder
	io.Closer
}

// openSessionFinder finds sessions that are not closed yet.
type openSessionFinder interface {
	DueSessions(ctx context.Context, before time.Time, after session.Row, limit int) ([]session.Row, error)
}

// OpenFiltered opens the configured store for reading.
func (t *Tools) OpenFiltered(ctx context.Context, cfg *configs.Config) (FilteredStore, error) {
	optOut, err := NewOptOut(cfg)
	if err != nil {
		return FilteredStore{}, err
	}
	st, err := t.OpenUnfiltered(ctx, cfg)
	if err != nil {
		return FilteredStore{}, err
	}
	return FilteredStore{filterOptedOut(st, func() *sample.OptOut { return optOut }, t.OnDamaged), st, st}, nil
}

// OpenUnfiltered opens the configured store for reading, with opted-out content, which callers must not show.
func (t *Tools) OpenUnfiltered(ctx context.Context, cfg *configs.Config) (CommandStore, error) {
	return t.OpenStore(ctx, cfg, sqlite.Options{ReadOnly: true})
}

// OpenStore opens the configured store for a command. Redis ignores o. For SQLite, OpenStore replaces Path, Now and
// MaxFeedback in o.
func (t *Tools) OpenStore(ctx context.Context, cfg *configs.Config, o sqlite.Options) (CommandStore, error) {
	if IsRedis(cfg.StoreURL()) {
		return t.openRedisStore(ctx, cfg)
	}
	o.Path, o.Now, o.MaxFeedback = cfg.StoreURL(), t.Now, cfg.Limits.Feedback
	db, err := sqlite.Open(ctx, o)
	if err != nil {
		return nil, err
	}
	return db, nil
}

// StoreID returns a store's id, a hash of the salt for random assignments. If the store has no salt yet, StoreID writes
// a new one.
func (t *Tools) StoreID(ctx context.Context, cfg *configs.Config, db CommandStore) (string, error) {
	salt, ok, err := db.Meta(ctx, saltName)
	if err != nil {
		return "", err
	}
	if !ok {
		fresh, err := t.newKey()
		if err != nil {
			return "", err
		}
		to, err := t.OpenStore(ctx, cfg, sqlite.Options{BusyTimeout: 10 * time.Second})
		if err != nil {
			return "", err
		}
		salt, err = to.InitMeta(ctx, saltName, []byte(fresh))
		if err = errors.Join(err, to.Close()); err != nil {
			return "", fmt.Errorf("write the store's id: %w", err)
		}
	}
	sum := sha256.Sum256(append([]byte("precept store "), salt...))
	return hex.EncodeToString(sum[:6]), nil
}

// openRedisStore opens the store in Redis for a command. Unlike a server, it fails if Redis does not answer. A Redis
// with a full disk still answers reads, so this is not a failure.
func (t *Tools) openRedisStore(ctx context.Context, cfg *configs.Config) (CommandStore, error) {
	db, err := redis.Open(redis.Options{URL: cfg.StoreURL(), Now: t.Now, MaxFeedback: cfg.Limits.Feedback})
	if err != nil {
		return nil, fmt.Errorf("store.url: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, redisTimeout)
	defer cancel()
	if err := db.Ping(ctx); err != nil && !errors.Is(err, redis.ErrDisk) {
		return nil, errors.Join(err, db.Close())
	}
	return db, nil
}

// openedBackend is the result of openBackend.
type openedBackend struct {
	backend       Backend
	durable       CommandStore // nil if the backend is in memory
	memoryReason  string       // why the backend is in memory; "" if it is durable
	isUnavailable bool         // the backend does not answer, or stores nothing
}

// openBackend opens a server's backend. unwritable is the error from locking the data directory, or nil.
func openBackend(ctx context.Context, tools Tools, cfg *configs.Config, unwritable error, f *failures) (openedBackend, error) {
	if IsRedis(cfg.StoreURL()) {
		if unwritable != nil {
			f.log.Warn("the data directory is not writable; precept continues, because the store is in Redis", "error", unwritable)
		}
		return openRedis(ctx, tools, cfg, f)
	}
	if unwritable != nil {
		return openMemory(unwritable, f), nil
	}
	db, err := sqlite.Open(ctx, sqlite.Options{
		Path: cfg.StoreURL(), Now: tools.Now, MaxFeedback: cfg.Limits.Feedback,
	})
	if errors.Is(err, sqlite.ErrReadOnly) || errors.Is(err, session.ErrDiskFull) || errors.Is(err, sqlite.ErrDisk) {
		return openMemory(err, f), nil
	}
	if err != nil {
		return openedBackend{}, err
	}
	if notice := db.Notice(); notice != "" {
		f.log.Error("the store was damaged", "notice", notice)
	}
	if from, to := db.SchemaVersions(); from < to {
		f.log.Info("the store was upgraded; older releases can no longer open it", "from_schema", from, "to_schema", to)
	}
	return openedBackend{backend: db, durable: db}, nil
}

// openMemory returns a backend that stores nothing.
func openMemory(cause error, f *failures) openedBackend {
	f.log.Error(
		"precept runs from memory, without storing or learning; restart precept with a writable data directory",
		"error", cause,
	)
	f.metrics.FailedOpen(label.StepStore)
	return openedBackend{backend: store.NullBackend{}, memoryReason: cause.Error(), isUnavailable: true}
}

// openRedis opens the backend for a fleet of replicas. If Redis does not answer within redisTimeout, the server starts
// anyway, and connects later.
func openRedis(ctx context.Context, tools Tools, cfg *configs.Config, f *failures) (openedBackend, error) {
	db, err := redis.Open(redis.Options{URL: cfg.StoreURL(), Now: tools.Now, MaxFeedback: cfg.Limits.Feedback})
	if err != nil {
		return openedBackend{}, fmt.Errorf("store.url: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, redisTimeout)
	defer cancel()
	opened := openedBackend{backend: db, durable: db}
	if err := db.Ping(ctx); err != nil {
		opened.isUnavailable = true
		f.metrics.FailedOpen(label.StepStore)
		f.log.Error("the store is not available; precept starts without the store and retries", "error", err)
		f.logLimit.allow(label.StepStore) // start the pause, so the next failure does not log a second line immediately
		return opened, nil
	}
	if layout, err := db.Layout(ctx); err == nil {
		warnLayout(f.log, layout)
	}
	return opened, nil
}

// checkInterval is the pause between two checks of Redis' eviction policy and of the clocks.
const checkInterval = time.Minute

// warnEviction returns a worker that logs a warning when Redis is set to delete keys once memory is full. policy is
// EvictionPolicy.
func warnEviction(policy func(ctx context.Context) string, log *slog.Logger) func(context.Context) error {
	return func(ctx context.Context) error {
		reported := ""
		for {
			if p := policy(ctx); p != reported {
				reported = p
				if p != "" {
					log.Warn("Redis deletes keys, such as sessions and counters, when memory is full; set maxmemory-policy noeviction in Redis", "maxmemory_policy", p)
				}
			}
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(checkInterval):
			}
		}
	}
}

// EvictionPolicy returns the policy by which a full Redis deletes keys, or "" if none are deleted.
func EvictionPolicy(ctx context.Context, backend Backend) string {
	db, ok := backend.(*redis.Store)
	if !ok {
		return ""
	}
	policy, _ := db.EvictionPolicy(ctx)
	return policy
}

// WriteFault returns the reason why a Redis that answers reads rejects all writes, or nil.
func WriteFault(ctx context.Context, backend Backend) error {
	db, ok := backend.(*redis.Store)
	if !ok {
		return nil
	}
	if err := db.Ping(ctx); errors.Is(err, redis.ErrDisk) {
		return err
	}
	return nil
}

// warnLayout warns that a store in Redis must be migrated to shards (parts whose keys are in one Redis cluster slot),
// or that an older release has written into it.
func warnLayout(log *slog.Logger, l redis.Layout) {
	switch {
	case l.Moving:
		log.Warn("the store's migration to shards is not complete; if no `precept migrate` is running, run it again")
	case l.OneShardPerTenant:
		log.Warn("the store still has the layout without shards; once all replicas run this release, run `precept migrate`")
	case len(l.StrayTenants) > 0:
		log.Warn("an older release has written sessions outside the shards, and this release does not read these sessions; "+
			"stop the replicas of the older release, then delete the keys that they wrote (docs/OPERATIONS.md, Keys)",
			"tenants", len(l.StrayTenants), "first", l.StrayTenants[0])
	}
}

// sharedBackend returns a backend in Redis as a T, and nil for any other backend.
func sharedBackend[T any](backend any) (role T) {
	if db, ok := backend.(*redis.Store); ok {
		role, _ = any(db).(T)
	}
	return role
}

// StoreOptions returns a store's options, without hooks.
func (t *Tools) StoreOptions(cfg *configs.Config, backend Backend) (store.Options, error) {
	var replica [4]byte
	if _, err := io.ReadFull(t.Random, replica[:]); err != nil {
		return store.Options{}, fmt.Errorf("read random bytes for the replica name: %w", err)
	}
	optOut, err := NewOptOut(cfg)
	return store.Options{
		Now: t.Now, AgeNow: t.ageNow(backend), Replica: hex.EncodeToString(replica[:]), Backend: backend, Fleet: sharedBackend[store.Fleet](backend),
		LookupTimeout: cfg.Limits.LookupTimeout, MaxSessions: cfg.Limits.Sessions, MaxTenantSessions: tenantSessions(cfg),
		Retention: cfg.Learning.Retention, Sentiment: cfg.Reward.Sentiment,
		Queue: store.QueueOptions{
			Path: outboxPathFor(cfg, backend), MaxBytes: int64(cfg.Limits.OutboxBytes), MaxTenantBytes: int64(cfg.Limits.TenantBytes), MultiTenant: cfg.Tenancy != "single",
			MaxMemoryBytes: int64(cfg.Limits.CaptureTotalBytes), DeliverEvery: deliverInterval(cfg),
		},
		Content: store.ContentOptions{StoreContent: cfg.Learning.Enabled, OptOut: optOut, RedactPersonal: cfg.Learning.AnonymizePII},
	}, err
}

// tenantSessions returns the maximum number of a tenant's sessions in memory; 0 means no limit. If there are several
// tenants, each of them can by default use three quarters of limits.sessions.
func tenantSessions(cfg *configs.Config) int {
	if n := cfg.Limits.TenantSessions; n > 0 || cfg.Tenancy == "single" {
		return n
	}
	return max(cfg.Limits.Sessions*3/4, 1)
}

// LearnOptions returns a learner's options.
func (t *Tools) LearnOptions(cfg *configs.Config, backend Backend) learn.Options {
	return learn.Options{
		Now: t.Now, Backend: backend, Fleet: sharedBackend[learn.Fleet](backend), AgeNow: t.ageNow(backend), Reward: rewardDefinition(cfg),
		KeepSamples: cfg.Learning.Enabled,
	}
}

func rewardDefinition(cfg *configs.Config) feedback.Definition {
	return feedback.Definition{Tiers: Tiers(cfg.Reward.Tiers), Sentiment: cfg.Reward.Sentiment, CloseAfter: cfg.Reward.CloseAfter}
}

// Tiers returns the numbers of the named reward tiers, such as 1 for "user".
func Tiers(names []string) (out []int) {
	for _, w := range names {
		out = append(out, 1+slices.Index([]string{"user", "verifier", "implicit"}, w))
	}
	return out
}

// OutboxPath returns the path of the outbox.
func OutboxPath(cfg *configs.Config) string { return filepath.Join(cfg.DataDir, "outbox.db") }

// outboxPathFor returns the outbox path, or "" for a server that stores no exchanges (requests with replies).
func outboxPathFor(cfg *configs.Config, backend Backend) string {
	if _, volatile := backend.(store.NullBackend); volatile || !cfg.Learning.Enabled {
		return ""
	}
	return OutboxPath(cfg)
}

// deliverInterval returns the maximum time that new turns wait in the outbox. With SQLite, larger batches are faster.
// With Redis, the other replicas must see turns without delay.
func deliverInterval(cfg *configs.Config) time.Duration {
	if IsRedis(cfg.StoreURL()) {
		return 0
	}
	return min(time.Second, max(cfg.Reward.CloseAfter/10, 100*time.Millisecond))
}

// IsLocked reports whether another precept has locked the data directory.
func IsLocked(dataDir string) bool {
	err := checkLock(dataDir)
	return err != nil && !errors.Is(err, sqlite.ErrReadOnly)
}

// CheckWritable returns the reason why an existing data directory is not writable.
func CheckWritable(dataDir string) error {
	if err := checkLock(dataDir); errors.Is(err, sqlite.ErrReadOnly) {
		return err
	}
	return nil
}

// checkLock locks and unlocks the directory. A missing directory is not an error.
func checkLock(dataDir string) error {
	if _, err := os.Stat(dataDir); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	lock, err := sqlite.Lock(dataDir)
	if err == nil {
		_ = lock.Close() // the lock was only a check
	}
	return err
}
