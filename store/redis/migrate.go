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

// A migration moves a store from the old layout, one shard for each tenant, to shards, while replicas
// serve:
//
//  1. Each tenant is marked ('moving'): scripts then mark the tenant as changed ('touched'), and note the
//     sessions that they may change ('dirty').
//  2. The sessions and the values that a tenant has once are copied into the shards. No replica reads the
//     copies.
//  3. The sessions and values of changed tenants are copied again, until few are left.
//  4. All tenants are frozen: scripts refuse to write, and the writes of replicas wait in their outboxes.
//     The last changed tenants are copied.
//  5. The number of shards is stored. Each replica reads the number before each call in the old layout,
//     and continues in the shards.
//  6. After a pause the old keys are deleted.
//
// Until step 5 the old layout is complete, and a migration that is killed loses nothing: a further call
// continues. A freeze ends by itself.

const (
	migrateLease   = 15 * time.Second
	migrateFreeze  = 15 * time.Second
	migrateChunk   = 64  // sessions that one step copies
	migrateFew     = 200 // changed sessions that may be left at the freeze
	migrateRounds  = 20  // passes over changed sessions before the freeze
	migrateFreezes = 3   // attempts to freeze the store and to switch to the shards
	migrateWorkers = 8   // tenants that are copied at once
	migratePage    = 500 // entries of a list that one call reads
)

// ErrMoving reports that the store has moved to shards during a call: repeat the call.
var ErrMoving = fmt.Errorf("the store moves to shards, so the call must be repeated: %w", ErrBusy)

// Migration holds the options of Migrate.
type Migration struct {
	// Owner is the name in the lease of the migration. Each process needs a different name.
	Owner string
	// Shards is the number of shards; 0 means 256.
	Shards int
	// Pause is the time between the switch to shards and the deletion of the old keys. Calls of replicas that
	// began in the old layout end within this time.
	Pause time.Duration
	// Progress is called with the number of copied sessions, if not nil. Calls do not overlap.
	Progress func(sessions int64)
}

// Migrated is the result of a migration.
type Migrated struct {
	Tenants, Sessions int           // copied tenants and sessions; a changed session counts once for each copy
	Frozen            time.Duration // time during which no replica could write
}

// migrator is a running migration.
type migrator struct {
	s        *Store
	o        Migration
	sessions atomic.Int64

	mu      sync.Mutex
	claimed time.Time         // last renewal of the lease
	frozen  []string          // tenants whose freeze is extended with the lease
	copied  map[string]string // tenants that this process has copied, with the positions of their consumer groups in the streams of samples

	progress sync.Mutex // held while Progress runs
}

// Layout describes the keys of a store.
type Layout struct {
	Old    bool     // the store has one shard for each tenant
	Moving bool     // a migration has begun and has not ended
	Stray  []string // tenants with sessions that a release without shards has written beside the shards
}

// Layout returns the layout of a store.
func (s *Store) Layout(ctx context.Context) (l Layout, err error) {
	err = s.do(ctx, "layout", func(c client) error {
		l = Layout{Old: s.shards.Load() == 1}
		n, err := c.Exists(ctx, s.commonKey("moving")).Result()
		if l.Moving = n > 0; l.Old || l.Moving || err != nil {
			return err
		}
		names, err := s.tenants(ctx, c)
		if err != nil {
			return err
		}
		for chunk := range slices.Chunk(names, migratePage) {
			sizes, err := piped(ctx, c, chunk, func(p goredis.Pipeliner, tenant string) *goredis.IntCmd {
				return p.Exists(ctx, s.keyspaceOf(1, tenantLocation(tenant)).base+"seen")
			})
			if err != nil {
				return err
			}
			for i, tenant := range chunk {
				if sizes[i].Val() > 0 {
					l.Stray = append(l.Stray, tenant)
				}
			}
		}
		return nil
	})
	return l, err
}

// Migrate moves a store of an earlier release to shards while replicas of this release serve. Replicas
// of earlier releases must be stopped. After an error, a call on any machine continues. Migrate
// returns the zero Migrated for a store with shards.
func (s *Store) Migrate(ctx context.Context, o Migration) (done Migrated, err error) {
	if o.Shards == 0 {
		o.Shards = maxShards
	}
	m := &migrator{s: s, o: o, copied: map[string]string{}}
	if err := s.do(ctx, "migrate", func(client) error { return nil }); err != nil { // reads the number of shards
		return done, err
	}
	state, err := ask(ctx, s, "migrate", func(c client) (string, error) { return c.Get(ctx, m.movingKey()).Result() })
	if err != nil || s.shards.Load() > 1 && state == "" {
		return done, err
	}
	defer func() { _ = s.ReleaseClaim(context.WithoutCancel(ctx), "migrate", m.o.Owner) }()
	if err := m.claim(ctx); err != nil {
		return done, err
	}
	if s.shards.Load() == 1 {
		if done.Tenants, done.Frozen, err = m.move(ctx); err != nil {
			return done, fmt.Errorf("migrate: %w", err)
		}
	}
	done.Sessions = int(m.sessions.Load())
	if err := m.deleteOld(ctx); err != nil {
		return done, fmt.Errorf("delete the old keys: %w", err)
	}
	return done, nil
}

// movingKey returns the key that exists during a migration and the deletion of the old keys.
func (m *migrator) movingKey() string { return m.s.commonKey("moving") }

// oldKeys returns the keys of a tenant in the old layout.
func (m *migrator) oldKeys(tenant string) keyspace { return m.s.keyspaceOf(1, tenantLocation(tenant)) }

// newKeys returns the keys of a location in the shards.
func (m *migrator) newKeys(loc location) keyspace { return m.s.keyspaceOf(m.o.Shards, loc) }

// claim acquires or renews the lease, and extends the freeze of the tenants.
func (m *migrator) claim(ctx context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.s.opt.Now()
	if now.Sub(m.claimed) < migrateLease/4 {
		return nil
	}
	isOwner, err := m.s.Claim(ctx, "migrate", m.o.Owner, now, migrateLease)
	if err == nil && !isOwner {
		err = fmt.Errorf("%w: another process migrates the store; wait for its end, or %v after its crash", ErrBusy, migrateLease)
	}
	if err == nil && len(m.frozen) > 0 {
		err = m.s.do(ctx, "migrate", func(c client) error { return m.stillFrozen(ctx, c, m.frozen...) })
	}
	if err == nil {
		m.claimed = now
	}
	return err
}

// each calls fn for each tenant, for up to migrateWorkers tenants at once.
func (m *migrator) each(ctx context.Context, tenants []string, fn func(ctx context.Context, c client, tenant string) error) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(migrateWorkers)
	for _, tenant := range tenants {
		g.Go(func() error {
			if err := m.claim(ctx); err != nil {
				return err
			}
			return m.s.do(ctx, "migrate", func(c client) error { return fn(ctx, c, tenant) })
		})
	}
	return g.Wait()
}

// move copies the store and switches to the shards.
func (m *migrator) move(ctx context.Context) (tenants int, frozen time.Duration, err error) {
	err = m.s.do(ctx, "migrate", func(c client) error { return c.Set(ctx, m.movingKey(), "1", 0).Err() })
	if err == nil {
		err = m.s.do(ctx, "migrate", func(c client) error { return m.copyOptOuts(ctx, c) })
	}
	for round := 0; err == nil && round < migrateRounds; round++ {
		before := m.sessions.Load()
		if err = m.copyChangedTenants(ctx); round > 0 && m.sessions.Load()-before < migrateFew {
			break
		}
	}
	if err != nil {
		return 0, 0, err
	}
	for range migrateFreezes {
		var names []string
		started := m.s.opt.Now()
		if names, err = m.freeze(ctx); err == nil {
			m.frozen = names
			err = m.finish(ctx, names)
		}
		m.frozen = nil
		tenants, frozen = len(names), frozen+m.s.opt.Now().Sub(started)
		if !errors.Is(err, errThawed) {
			break
		}
	}
	return tenants, frozen, err
}

// copyChangedTenants copies the tenants that are new or have changed since their last copy.
func (m *migrator) copyChangedTenants(ctx context.Context) error {
	names, err := m.s.Tenants(ctx)
	if err != nil {
		return err
	}
	changed, err := m.changedTenants(ctx, names, "touched")
	if err != nil {
		return err
	}
	return m.each(ctx, changed, m.copyTenant)
}

// changedTenants returns the tenants that this process has not copied, and the tenants with one of some keys.
func (m *migrator) changedTenants(ctx context.Context, names []string, keys ...string) (changed []string, err error) {
	err = m.s.do(ctx, "migrate", func(c client) error {
		for chunk := range slices.Chunk(names, migratePage) {
			found, err := piped(ctx, c, chunk, func(p goredis.Pipeliner, tenant string) *goredis.IntCmd {
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
				if _, isCopied := m.placesOf(tenant); found[i].Val() > 0 || !isCopied {
					changed = append(changed, tenant)
				}
			}
		}
		return nil
	})
	return changed, err
}

// placesOf returns the positions of the consumer groups of a tenant at its last copy, and whether this process has
// copied the tenant.
func (m *migrator) placesOf(tenant string) (places string, isCopied bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	places, isCopied = m.copied[tenant]
	return places, isCopied
}

// copyTenant copies a tenant. The mark of a change is deleted before the copy, so that a change during the copy sets
// the mark again. A tenant whose copy fails stays among the changed tenants.
func (m *migrator) copyTenant(ctx context.Context, c client, tenant string) error {
	m.mu.Lock()
	delete(m.copied, tenant)
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
	places, err := m.copyGroups(ctx, c, tenant)
	if err == nil {
		m.mu.Lock()
		m.copied[tenant] = places
		m.mu.Unlock()
	}
	return err
}
