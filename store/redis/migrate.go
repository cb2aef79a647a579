package redis

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"
)

// A migration moves a store from the old layout (one shard for each tenant) to shards, while replicas continue to
// serve:
//
//  1. Each tenant gets a 'moving' key. Scripts that write then set the tenant's 'touched' key, and add the sessions
//     that they might change to 'dirty'.
//  2. The sessions, and the values that a tenant has outside sessions, are copied into the shards.
//  3. Changed sessions, and changed tenants' values, are copied again, until few changes are left.
//  4. All tenants are frozen: writes wait in the replicas' outboxes. The last changes are copied.
//  5. The shard count is stored. Replicas read it before each call in the old layout, and then use the shards.
//  6. After a pause the old keys are deleted.
//
// Until step 5 the old layout is complete. After a crash the next Migrate continues, and a freeze ends by itself.

const (
	leaseDuration      = 15 * time.Second
	freezeDuration     = 15 * time.Second // time until a freeze ends, unless it is extended
	migrateChunk       = 64               // sessions copied in one step
	migrateFreezeBelow = 200              // the store is frozen after a round with fewer changed sessions
	maxMigrateRounds   = 20               // rounds over changed tenants before the freeze
	maxMigrateFreezes  = 3                // attempts to freeze the store and to switch
	migrateWorkers     = 8                // tenants copied in parallel
	migratePage        = 500              // list entries read per call
)

// ErrMovedToShards reports that the store has moved to shards during a call; the caller must repeat the call.
var ErrMovedToShards = fmt.Errorf("the store is moving to shards; repeat the call: %w", ErrBusy)

// MigrateOptions holds the options for Migrate.
type MigrateOptions struct {
	// Owner is the process's unique name in the migration lease.
	Owner string
	// Shards is the number of shards; 0 means 256.
	Shards int
	// Pause is the time between switching to shards and deleting the old keys, for replicas' calls that began in the
	// old layout.
	Pause time.Duration
	// Progress, if set, is called with the number of copied sessions, by one goroutine at a time.
	Progress func(sessions int64)
}

// MigrateResult is a migration's result.
type MigrateResult struct {
	Tenants, Sessions int           // a session that is copied twice counts twice
	Frozen            time.Duration // time without writes from any replica
}

type migrator struct {
	store    *Store
	options  MigrateOptions
	sessions atomic.Int64

	mu            sync.Mutex
	claimedAt     time.Time         // last lease renewal
	frozenTenants []string          // renewing the lease extends the freeze
	copiedTenants map[string]string // consumer group positions (groupsText), by copied tenant

	progressMu sync.Mutex // held while Progress runs
}

// Layout describes a store's keys.
type Layout struct {
	OneShardPerTenant bool     // one shard for each tenant
	Moving            bool     // a migration has begun and not ended
	StrayTenants      []string // tenants written by an earlier release after the migration
}

// Layout returns a store's layout.
func (s *Store) Layout(ctx context.Context) (l Layout, err error) {
	err = s.do(ctx, "layout", func(c client) error {
		l = Layout{OneShardPerTenant: s.shards.Load() == 1}
		n, err := c.Exists(ctx, s.commonKey("moving")).Result()
		if l.Moving = n > 0; l.OneShardPerTenant || l.Moving || err != nil {
			return err
		}
		names, err := s.readTenants(ctx, c)
		if err != nil {
			return err
		}
		for chunk := range slices.Chunk(names, migratePage) {
			sizes, err := runPipelined(ctx, c, chunk, func(p goredis.Pipeliner, tenant string) *goredis.IntCmd {
				return p.Exists(ctx, s.resolveKeyspace(1, tenantLocation(tenant)).base+"seen")
			})
			if err != nil {
				return err
			}
			for i, tenant := range chunk {
				if sizes[i].Val() > 0 {
					l.StrayTenants = append(l.StrayTenants, tenant)
				}
			}
		}
		return nil
	})
	return l, err
}

// Migrate moves an earlier release's store to shards. During the migration, only replicas with this release may serve.
// After an error, another call (from any machine) continues the migration. For a store with shards, Migrate does
// nothing.
func (s *Store) Migrate(ctx context.Context, o MigrateOptions) (done MigrateResult, err error) {
	if o.Shards == 0 {
		o.Shards = maxShards
	}
	m := &migrator{store: s, options: o, copiedTenants: map[string]string{}}
	if err := s.do(ctx, "migrate", func(client) error { return nil }); err != nil { // reads the shard count
		return done, err
	}
	state, err := doValue(ctx, s, "migrate", func(c client) (string, error) { return c.Get(ctx, m.movingKey()).Result() })
	if err != nil || s.shards.Load() > 1 && state == "" {
		return done, err
	}
	defer func() { _ = s.ReleaseLease(context.WithoutCancel(ctx), "migrate", m.options.Owner) }()
	if err := m.renewLease(ctx); err != nil {
		return done, err
	}
	if s.shards.Load() == 1 {
		if done.Tenants, done.Frozen, err = m.copyAndSwitch(ctx); err != nil {
			return done, fmt.Errorf("migrate: %w", err)
		}
	}
	done.Sessions = int(m.sessions.Load())
	if err := m.deleteOld(ctx); err != nil {
		return done, fmt.Errorf("delete the old keys: %w", err)
	}
	return done, nil
}

// movingKey returns the key that exists from a migration's start until the old keys are deleted.
func (m *migrator) movingKey() string { return m.store.commonKey("moving") }

func (m *migrator) oldKeys(tenant string) keyspace {
	return m.store.resolveKeyspace(1, tenantLocation(tenant))
}

func (m *migrator) newKeys(loc location) keyspace {
	return m.store.resolveKeyspace(m.options.Shards, loc)
}

// renewLease acquires or renews the lease if it is due, and extends the freeze for the frozen tenants.
func (m *migrator) renewLease(ctx context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.store.options.Now()
	if now.Sub(m.claimedAt) < leaseDuration/4 {
		return nil
	}
	isOwner, err := m.store.AcquireLease(ctx, "migrate", m.options.Owner, now, leaseDuration)
	if err == nil && !isOwner {
		err = fmt.Errorf("%w: another process is migrating the store; wait until it ends; if it has crashed, try again after %v", ErrBusy, leaseDuration)
	}
	if err == nil && len(m.frozenTenants) > 0 {
		err = m.store.do(ctx, "migrate", func(c client) error { return m.extendFreeze(ctx, c, m.frozenTenants...) })
	}
	if err == nil {
		m.claimedAt = now
	}
	return err
}

func (m *migrator) eachTenant(ctx context.Context, tenants []string, fn func(ctx context.Context, c client, tenant string) error) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(migrateWorkers)
	for _, tenant := range tenants {
		g.Go(func() error {
			if err := m.renewLease(ctx); err != nil {
				return err
			}
			return m.store.do(ctx, "migrate", func(c client) error { return fn(ctx, c, tenant) })
		})
	}
	return g.Wait()
}

// copyAndSwitch carries out steps 1 to 5 of the migration.
func (m *migrator) copyAndSwitch(ctx context.Context) (tenants int, frozen time.Duration, err error) {
	err = m.store.do(ctx, "migrate", func(c client) error { return c.Set(ctx, m.movingKey(), "1", 0).Err() })
	if err == nil {
		err = m.store.do(ctx, "migrate", func(c client) error { return m.copyOptOuts(ctx, c) })
	}
	for round := 0; err == nil && round < maxMigrateRounds; round++ {
		before := m.sessions.Load()
		if err = m.copyChangedTenants(ctx); round > 0 && m.sessions.Load()-before < migrateFreezeBelow {
			break
		}
	}
	if err != nil {
		return 0, 0, err
	}
	for range maxMigrateFreezes {
		var names []string
		started := m.store.options.Now()
		if names, err = m.freeze(ctx); err == nil {
			m.frozenTenants = names
			err = m.switchToShards(ctx, names)
		}
		m.frozenTenants = nil
		tenants, frozen = len(names), frozen+m.store.options.Now().Sub(started)
		if !errors.Is(err, errFreezeEnded) {
			break
		}
	}
	return tenants, frozen, err
}

// copyChangedTenants copies tenants that have changed, or that this process has not copied yet.
func (m *migrator) copyChangedTenants(ctx context.Context) error {
	names, err := m.store.Tenants(ctx)
	if err != nil {
		return err
	}
	changed, err := m.changedTenants(ctx, names, "touched")
	if err != nil {
		return err
	}
	return m.eachTenant(ctx, changed, m.copyTenant)
}

// changedTenants returns the tenants that this process has not copied, and the tenants with one of the given keys in
// the old layout.
func (m *migrator) changedTenants(ctx context.Context, names []string, keys ...string) (changed []string, err error) {
	err = m.store.do(ctx, "migrate", func(c client) error {
		for chunk := range slices.Chunk(names, migratePage) {
			found, err := runPipelined(ctx, c, chunk, func(p goredis.Pipeliner, tenant string) *goredis.IntCmd {
				all := make([]string, len(keys))
				for i, key := range keys {
					all[i] = m.oldKeys(tenant).base + key
				}
				return p.Exists(ctx, all...)
			})
			if err != nil {
				return err
			}
			for i, tenant := range chunk {
				if _, isCopied := m.copiedPositions(tenant); found[i].Val() > 0 || !isCopied {
					changed = append(changed, tenant)
				}
			}
		}
		return nil
	})
	return changed, err
}

func (m *migrator) copiedPositions(tenant string) (positions string, isCopied bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	positions, isCopied = m.copiedTenants[tenant]
	return positions, isCopied
}

// copyTenant copies a tenant. It first deletes the 'touched' key; a change during the copy sets the key again. A tenant
// counts as not copied if the copy fails.
func (m *migrator) copyTenant(ctx context.Context, c client, tenant string) error {
	m.mu.Lock()
	delete(m.copiedTenants, tenant)
	m.mu.Unlock()
	if err := c.Del(ctx, m.oldKeys(tenant).base+"touched").Err(); err != nil {
		return err
	}
	if err := m.copyAllSessions(ctx, c, tenant); err != nil {
		return err
	}
	if err := m.copyChangedSessions(ctx, c, tenant); err != nil {
		return err
	}
	if err := m.copyValues(ctx, c, tenant); err != nil {
		return err
	}
	positions, err := m.copyGroups(ctx, c, tenant)
	if err == nil {
		m.mu.Lock()
		m.copiedTenants[tenant] = positions
		m.mu.Unlock()
	}
	return err
}
