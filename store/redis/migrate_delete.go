package redis

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	goredis "github.com/redis/go-redis/v9"
)

// deleteOld carries out step 6 of the migration.
func (m *migrator) deleteOld(ctx context.Context) error {
	names, err := m.store.Tenants(ctx)
	if err != nil {
		return err
	}
	for chunk := range slices.Chunk(names, migratePage) {
		if err := m.renewLease(ctx); err != nil {
			return err
		}
		// This freeze has no end, because a replica that was paused for a long time must not write into the old layout.
		err := m.store.do(ctx, "migrate", func(c client) error {
			_, err := runPipelined(ctx, c, chunk, func(p goredis.Pipeliner, tenant string) *goredis.StatusCmd {
				return p.Set(ctx, m.oldKeys(tenant).base+"frozen", m.options.Owner, 0)
			})
			return err
		})
		if err != nil {
			return err
		}
	}
	for remaining := m.options.Pause; remaining > 0; remaining -= time.Second {
		if err := errors.Join(m.renewLease(ctx), waitFor(ctx, min(time.Second, remaining))); err != nil {
			return err
		}
	}
	if err := m.eachTenant(ctx, names, m.deleteTenant); err != nil {
		return err
	}
	return m.store.do(ctx, "migrate", func(c client) error {
		return c.Del(ctx, m.store.commonKey("frozen"), m.store.commonKey("dirty"), m.store.commonKey("taken"), m.movingKey()).Err()
	})
}

func waitFor(ctx context.Context, duration time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(duration):
		return nil
	}
}

// movedMark takes the place of the hash that held a moved tenant's totals, so that most calls from a release without
// shards fail with WRONGTYPE. The 'frozen' key stops calls from this release.
const movedMark = "the tenant has moved to shards"

func (m *migrator) deleteTenant(ctx context.Context, c client, tenant string) error {
	base := m.oldKeys(tenant).base
	if err := m.deleteSessions(ctx, c, tenant); err != nil {
		return err
	}
	values, err := valueKeys(ctx, c, base)
	if err != nil {
		return err
	}
	keys := append([]string{
		"order", "due", "unsettled", "told", "aside", "gone", "samples", "exchanges", "dirty", "taken", "touched", "moving", "moving:stream",
	}, values...)
	for chunk := range slices.Chunk(keys, migratePage) {
		for i := range chunk {
			chunk[i] = base + chunk[i]
		}
		if err := c.Del(ctx, chunk...).Err(); err != nil {
			return err
		}
	}
	pipe := c.Pipeline()
	pipe.Set(ctx, base+"t", movedMark, 0)
	home := m.store.resolveKeyspace(m.options.Shards, tenantLocation(tenant)).base
	pipe.Del(ctx, home+"movingsums")
	pipe.Del(ctx, home+"movingaside")
	_, err = pipe.Exec(ctx)
	return err
}

func (m *migrator) deleteSessions(ctx context.Context, c client, tenant string) error {
	old := m.oldKeys(tenant)
	for {
		ids, err := c.ZRangeByScore(ctx, old.base+"seen", &goredis.ZRangeBy{Min: "-inf", Max: "+inf", Count: maxCallItems}).Result()
		if err != nil || len(ids) == 0 {
			return err
		}
		if err := m.renewLease(ctx); err != nil {
			return err
		}
		entryLists, err := runPipelined(ctx, c, ids, func(p goredis.Pipeliner, id string) *goredis.StringCmd {
			return p.Get(ctx, old.base+"k:"+idFromBytes(id).String())
		})
		if err != nil {
			return err
		}
		var keys []string
		movingKeys := map[string]bool{} // used by immigrate.lua during the migration, in the sessions' new shards
		for i, id := range ids {
			movingKeys[m.newKeys(sessionLocation(tenant, idFromBytes(id))).base+"moving"] = true
			for _, kind := range sessionKeyKinds {
				keys = append(keys, old.base+string(kind)+":"+idFromBytes(id).String())
			}
			for entries := entryLists[i].Val(); len(entries) >= 9; entries = entries[9:] {
				kind := entries[:1]
				if kind != "e" {
					kind = "i" // a sample id is "m" in the lists of entries, and "i" in bucket names
				}
				keys = append(keys, old.bucket(kind, entries[1:9]))
			}
		}
		for chunk := range slices.Chunk(keys, migratePage) {
			if err := c.Del(ctx, chunk...).Err(); err != nil {
				return err
			}
		}
		_, err = runPipelined(ctx, c, slices.Collect(maps.Keys(movingKeys)), func(p goredis.Pipeliner, key string) *goredis.IntCmd { return p.Del(ctx, key) })
		if err != nil {
			return err
		}
		if err := c.ZRem(ctx, old.base+"seen", toArgs(ids)...).Err(); err != nil {
			return err
		}
	}
}
