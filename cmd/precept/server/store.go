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

// Evidence reads the stored sessions, exchanges and samples.
type Evidence interface {
	Walker
	rowCounts
	Exchanges(ctx context.Context, tenant string, id session.ID) ([]sample.Exchange, error)
	Feedback(ctx context.Context, tenant string, id session.ID) ([]feedback.Entry, error)
}

// WholeEvidence is an Evidence that includes opted-out content. Its session rows record the opt-outs.
type WholeEvidence interface {
	Evidence
	Session(ctx context.Context, tenant string, id session.ID) (session.Row, bool, error)
}

// Walker visits the stored samples and sessions, oldest first.
type Walker interface {
	EachSample(ctx context.Context, tenant string, since, until time.Time, fn func(session.StoredSample) error) error
	EachSession(ctx context.Context, tenant string, since, until time.Time, fn func(session.Row, session.Applied) error) error
}

// rowCounts returns the number of rows in a store, the dead letters (sessions and exchanges that learning skips after
// a panic), and the number of exchanges without a sample.
type rowCounts interface {
	Stats(ctx context.Context) (map[string]int64, error)
	DeadLetters(ctx context.Context, limit int) (list []session.DeadLetter, total int, err error)
	Unsampled(ctx context.Context) (int64, error)
}

// Stored is the configured store as a command opens it. The caller closes the store.
type Stored interface {
	Evidence
	Backend
	DistillStore
}

// IsRedis reports whether url is the address of a Redis store.
func IsRedis(url string) bool { return strings.HasPrefix(url, "redis") && strings.Contains(url, "://") }

// OpenStored opens the configured store for reading. Opted-out content is hidden.
func (t *Tools) OpenStored(ctx context.Context, cfg *configs.Config) (Stored, error) {
	optOut, err := OptOutOf(cfg)
	if err != nil {
		return nil, err
	}
	st, err := t.OpenWhole(ctx, cfg)
	if err != nil {
		return nil, err
	}
	return permittedStore{st, newPermit(st, func() *sample.OptOut { return optOut }, t.Damaged)}, nil
}

// OpenWhole opens the configured store for reading, including opted-out content. Callers read only counters and
// notes, which contain no content of sessions.
func (t *Tools) OpenWhole(ctx context.Context, cfg *configs.Config) (Stored, error) {
	return t.OpenStore(ctx, cfg, sqlite.Options{ReadOnly: true})
}

// OpenStore opens the configured store for a command. The options apply to SQLite only. The path, the clock and the
// feedback limit come from the configuration and from t.
func (t *Tools) OpenStore(ctx context.Context, cfg *configs.Config, o sqlite.Options) (Stored, error) {
	if IsRedis(cfg.StoreURL()) {
		return t.reachRedis(ctx, cfg)
	}
	o.Path, o.Now, o.MaxFeedback = cfg.StoreURL(), t.Now, cfg.Limits.Feedback
	db, err := sqlite.Open(ctx, o)
	if err != nil {
		return nil, err
	}
	return db, nil
}

// StoreID returns the id of a store, which is a hash of the store's salt. If the store has no salt yet, StoreID
// writes a new one.
func (t *Tools) StoreID(ctx context.Context, cfg *configs.Config, db Stored) (string, error) {
	keeper, ok := db.(interface {
		metaStore
		Meta(ctx context.Context, key string) ([]byte, bool, error)
	})
	if !ok {
		return "", errors.New("the store has no id")
	}
	salt, ok, err := keeper.Meta(ctx, saltName)
	if err != nil {
		return "", err
	}
	if !ok {
		fresh, err := t.freshKey()
		if err != nil {
			return "", err
		}
		to, err := t.OpenStore(ctx, cfg, sqlite.Options{BusyTimeout: 10 * time.Second})
		if err != nil {
			return "", err
		}
		if keeper, ok := to.(metaStore); ok {
			salt, err = keeper.InitMeta(ctx, saltName, []byte(fresh))
		}
		if err = errors.Join(err, to.Close()); err != nil {
			return "", fmt.Errorf("give the store an id: %w", err)
		}
	}
	sum := sha256.Sum256(append([]byte("precept store "), salt...))
	return hex.EncodeToString(sum[:6]), nil
}

// reachRedis opens the configured Redis for a command. Unlike a server, a command fails if Redis does not answer.
func (t *Tools) reachRedis(ctx context.Context, cfg *configs.Config) (Stored, error) {
	db, err := redis.Open(redis.Options{URL: cfg.StoreURL(), Now: t.Now, MaxFeedback: cfg.Limits.Feedback})
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

// opened is the result of openBackend.
type opened struct {
	backend     Backend
	notice      string // reason why the backend is in memory; "" if the backend is durable
	unavailable bool   // the backend does not answer, or stores nothing
}

// openBackend opens the backend of a server. unwritable is the error if the data directory cannot be written; nil
// means that the server has the lock of the data directory.
func openBackend(ctx context.Context, tools Tools, cfg *configs.Config, unwritable error, f *failures) (opened, error) {
	if IsRedis(cfg.StoreURL()) {
		if unwritable != nil {
			f.log.Warn("the data directory cannot be written; precept continues, because the store is in Redis", "error", unwritable)
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
		return opened{}, err
	}
	if notice := db.Notice(); notice != "" {
		f.log.Error("the store was damaged", "notice", notice)
	}
	if from, to := db.Upgraded(); from < to {
		f.log.Info("the store was upgraded; an older release cannot open the store", "from_schema", from, "to_schema", to)
	}
	return opened{backend: db}, nil
}

// openMemory returns a backend that stores nothing.
func openMemory(cause error, f *failures) opened {
	f.log.Error(
		"precept runs from memory, without storing or learning; restart precept with a writable data directory",
		"error", cause,
	)
	f.metrics.FailedOpen(label.StepStore)
	return opened{backend: store.Volatile{}, notice: cause.Error(), unavailable: true}
}

// openRedis opens the backend of a fleet, which is the set of replicas on one Redis. A server also starts if Redis
// does not answer within reachLimit.
func openRedis(ctx context.Context, tools Tools, cfg *configs.Config, f *failures) (opened, error) {
	db, err := redis.Open(redis.Options{URL: cfg.StoreURL(), Now: tools.Now, MaxFeedback: cfg.Limits.Feedback})
	if err != nil {
		return opened{}, fmt.Errorf("store.url: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, reachLimit)
	defer cancel()
	o := opened{backend: db}
	if err := db.Ping(ctx); err != nil {
		o.unavailable = true
		f.metrics.FailedOpen(label.StepStore)
		f.log.Error("the store is not available; precept starts without the store and retries", "error", err)
		f.logLimit.allow(label.StepStore) // counts the line above, so that the next one is not written at once
	} else if layout, err := db.Layout(ctx); err == nil {
		warnLayout(f.log, layout)
	}
	return o, nil
}

// warnLayout logs a warning if a store in Redis needs the migration to shards, or if an older release has written
// sessions outside of the shards. A shard is a part of a store whose keys are in one slot of a Redis cluster.
func warnLayout(log *slog.Logger, l redis.Layout) {
	switch {
	case l.Moving:
		log.Warn("the migration of the store to shards has not ended; if no precept migrate runs, run precept migrate again")
	case l.Old:
		log.Warn("the store has the keys of a release without shards; once all replicas run this release, run precept migrate")
	case len(l.Stray) > 0:
		log.Warn("a release without shards has written sessions beside the shards, and this release does not read these sessions; "+
			"stop the replicas of that release, then delete their keys (docs/OPERATIONS.md, Keys)",
			"tenants", len(l.Stray), "first", l.Stray[0])
	}
}

// shared returns the backend as the interface T if the backend is Redis, which replicas share. Otherwise shared
// returns nil.
func shared[T any](backend any) (role T) {
	if db, ok := backend.(*redis.Store); ok {
		role, _ = any(db).(T)
	}
	return role
}

// StoreOptions returns the options of a store. The caller sets the hooks for failures.
func (t *Tools) StoreOptions(cfg *configs.Config, backend Backend) (store.Options, error) {
	var replica [4]byte
	if _, err := io.ReadFull(t.Random, replica[:]); err != nil {
		return store.Options{}, fmt.Errorf("read random bytes for the name of the replica: %w", err)
	}
	optOut, err := OptOutOf(cfg)
	return store.Options{
		Now: t.Now, Replica: hex.EncodeToString(replica[:]), Backend: backend, Fleet: shared[store.Fleet](backend),
		LookupTimeout: cfg.Limits.LookupTimeout, MaxSessions: cfg.Limits.Sessions, MaxTenantSessions: tenantSessions(cfg),
		Retention: cfg.Learning.Retention, Sentiment: cfg.Reward.Sentiment,
		Queue: store.QueueOptions{
			Path: outboxOf(cfg, backend), MaxBytes: int64(cfg.Limits.OutboxBytes), MaxTenantBytes: int64(cfg.Limits.TenantBytes), MultiTenant: cfg.Tenancy != "single",
			MaxMemoryBytes: int64(cfg.Limits.CaptureTotalBytes), DeliverEvery: deliverEvery(cfg),
		},
		Content: store.ContentOptions{Keep: cfg.Learning.Enabled, OptOut: optOut, RedactPersonal: cfg.Learning.AnonymizePII},
	}, err
}

// tenantSessions returns the maximum number of sessions that one tenant may have in memory; 0 means no limit.
func tenantSessions(cfg *configs.Config) int {
	if n := cfg.Limits.TenantSessions; n > 0 || cfg.Tenancy == "single" {
		return n
	}
	return max(cfg.Limits.Sessions*3/4, 1)
}

// LearnOptions returns the options of a learner, for the server and for commands that report.
func (t *Tools) LearnOptions(cfg *configs.Config, backend Backend) learn.Options {
	return learn.Options{
		Now: t.Now, Backend: backend, Fleet: shared[learn.Fleet](backend), Reward: rewardDefinition(cfg),
		Samples: cfg.Learning.Enabled,
	}
}

// rewardDefinition returns the configured definition of a reward.
func rewardDefinition(cfg *configs.Config) feedback.Definition {
	return feedback.Definition{Tiers: Tiers(cfg.Reward.Tiers), Sentiment: cfg.Reward.Sentiment, CloseAfter: cfg.Reward.CloseAfter}
}

// Tiers returns the numbers of the reward tiers with the given names.
func Tiers(words []string) (out []int) {
	for _, w := range words {
		out = append(out, 1+slices.Index([]string{"user", "verifier", "implicit"}, w))
	}
	return out
}

// OutboxPath returns the path of the outbox.
func OutboxPath(cfg *configs.Config) string { return filepath.Join(cfg.DataDir, "outbox.db") }

// outboxOf returns the path of the outbox, or "" if nothing is stored.
func outboxOf(cfg *configs.Config, backend Backend) string {
	if _, volatile := backend.(store.Volatile); volatile || !cfg.Learning.Enabled {
		return ""
	}
	return OutboxPath(cfg)
}

// deliverEvery returns the maximum time that new turns wait in the outbox. SQLite is faster with larger batches.
// Replicas on one Redis must see each other's turns at once.
func deliverEvery(cfg *configs.Config) time.Duration {
	if IsRedis(cfg.StoreURL()) {
		return 0
	}
	return min(time.Second, max(cfg.Reward.CloseAfter/10, 100*time.Millisecond))
}

// IsLocked reports whether another precept has the lock of the data directory.
func IsLocked(dataDir string) bool {
	err := tryLock(dataDir)
	return err != nil && !errors.Is(err, sqlite.ErrReadOnly)
}

// Unwritable returns the reason why an existing data directory cannot be written; nil if the directory is writable or
// missing.
func Unwritable(dataDir string) error {
	if err := tryLock(dataDir); errors.Is(err, sqlite.ErrReadOnly) {
		return err
	}
	return nil
}

// tryLock takes and releases the lock of an existing data directory. A missing directory is no error.
func tryLock(dataDir string) error {
	if _, err := os.Stat(dataDir); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	lock, err := sqlite.Lock(dataDir)
	if err == nil {
		_ = lock.Close() // only the attempt matters
	}
	return err
}
