package redis

import (
	"context"
	"fmt"
	"slices"

	goredis "github.com/redis/go-redis/v9"
)

// freeze stops the writes in the old layout for freezeDuration, and returns all tenants. It first freezes the
// registration of tenants, so that no tenant is missing.
func (m *migrator) freeze(ctx context.Context) (names []string, err error) {
	err = m.store.do(ctx, "migrate", func(c client) error {
		if err := c.Set(ctx, m.store.commonKey("frozen"), m.options.Owner, freezeDuration).Err(); err != nil {
			return err
		}
		if names, err = m.store.readTenants(ctx, c); err != nil {
			return err
		}
		for chunk := range slices.Chunk(names, migratePage) {
			_, err := runPipelined(ctx, c, chunk, func(p goredis.Pipeliner, tenant string) *goredis.StatusCmd {
				return p.Set(ctx, m.oldKeys(tenant).base+"frozen", m.options.Owner, freezeDuration)
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	return names, err
}

// switchToShards copies the tenants changed since they were last copied, then stores the shard count, which switches
// all replicas.
func (m *migrator) switchToShards(ctx context.Context, names []string) error {
	changed, err := m.changedTenants(ctx, names, "touched", "gone")
	if err == nil {
		err = m.eachTenant(ctx, changed, func(ctx context.Context, c client, tenant string) error {
			if err := m.copyTenant(ctx, c, tenant); err != nil {
				return err
			}
			return m.copyDeletions(ctx, c, tenant)
		})
	}
	if err == nil {
		changed, err = m.movedGroups(ctx, names)
	}
	if err == nil {
		err = m.eachTenant(ctx, changed, func(ctx context.Context, c client, tenant string) error {
			_, err := m.copyGroups(ctx, c, tenant)
			return err
		})
	}
	if err != nil {
		return err
	}
	return m.store.do(ctx, "migrate", func(c client) error {
		if err := m.copyChangedMarks(ctx, c); err != nil {
			return err
		}
		now, err := c.Time(ctx).Result()
		if err != nil {
			return err
		}
		deadline := now.Add(freezeDuration / 2) // before the freeze ends; extendFreeze starts a new one
		if err := m.extendFreeze(ctx, c, names...); err != nil {
			return err
		}
		done, err := m.store.runScript(ctx, c, "switch", m.store.resolveKeyspace(m.options.Shards, location{}), m.options.Shards, deadline.UnixMilli()).Int()
		if err == nil && done == 0 {
			err = errFreezeEnded
		}
		return err
	})
}

var errFreezeEnded = fmt.Errorf("a pause in writes ended before a tenant was copied; run `precept migrate` again: %w", ErrBusy)

// extendFreeze extends the freeze for tenants and registration, or returns errFreezeEnded.
func (m *migrator) extendFreeze(ctx context.Context, c client, names ...string) error {
	keys := []string{m.store.commonKey("frozen")}
	for _, tenant := range names {
		keys = append(keys, m.oldKeys(tenant).base+"frozen")
	}
	for chunk := range slices.Chunk(keys, migratePage) {
		results, err := runPipelined(ctx, c, chunk, func(p goredis.Pipeliner, key string) *goredis.BoolCmd { return p.PExpire(ctx, key, freezeDuration) })
		if err != nil {
			return err
		}
		for _, cmd := range results {
			if !cmd.Val() {
				return errFreezeEnded
			}
		}
	}
	return nil
}
