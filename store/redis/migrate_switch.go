package redis

import (
	"context"
	"fmt"
	"slices"

	goredis "github.com/redis/go-redis/v9"
)

// freeze ends the writes in the old layout for a while, first the registration of tenants, and returns all
// tenants.
func (m *migrator) freeze(ctx context.Context) (names []string, err error) {
	err = m.s.do(ctx, "migrate", func(c client) error {
		if err := c.Set(ctx, m.s.commonKey("frozen"), m.o.Owner, migrateFreeze).Err(); err != nil {
			return err
		}
		if names, err = m.s.tenants(ctx, c); err != nil {
			return err
		}
		for chunk := range slices.Chunk(names, migratePage) {
			_, err := piped(ctx, c, chunk, func(p goredis.Pipeliner, tenant string) *goredis.StatusCmd {
				return p.Set(ctx, m.oldKeys(tenant).base+"frozen", m.o.Owner, migrateFreeze)
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	return names, err
}

// finish copies the tenants of a frozen store that have changed since their last copy, and switches to the shards.
func (m *migrator) finish(ctx context.Context, names []string) error {
	changed, err := m.changedTenants(ctx, names, "touched", "gone")
	if err == nil {
		err = m.each(ctx, changed, func(ctx context.Context, c client, tenant string) error {
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
		err = m.each(ctx, changed, func(ctx context.Context, c client, tenant string) error {
			_, err := m.copyGroups(ctx, c, tenant)
			return err
		})
	}
	if err != nil {
		return err
	}
	return m.s.do(ctx, "migrate", func(c client) error {
		if err := m.copyChangedMarks(ctx, c); err != nil {
			return err
		}
		now, err := c.Time(ctx).Result()
		if err != nil {
			return err
		}
		deadline := now.Add(migrateFreeze / 2) // all tenants stay frozen for longer
		if err := m.stillFrozen(ctx, c, names...); err != nil {
			return err
		}
		done, err := m.s.runScript(ctx, c, "switch", m.s.keyspaceOf(m.o.Shards, location{}), m.o.Shards, deadline.UnixMilli()).Int()
		if err == nil && done == 0 {
			err = errThawed
		}
		return err
	})
}

// errThawed reports that a freeze has ended too early.
var errThawed = fmt.Errorf("a freeze has ended before its tenant was copied: %w", ErrBusy)

// stillFrozen extends the freeze of tenants and of the registration, and fails if a freeze has ended.
func (m *migrator) stillFrozen(ctx context.Context, c client, names ...string) error {
	keys := []string{m.s.commonKey("frozen")}
	for _, tenant := range names {
		keys = append(keys, m.oldKeys(tenant).base+"frozen")
	}
	for chunk := range slices.Chunk(keys, migratePage) {
		results, err := piped(ctx, c, chunk, func(p goredis.Pipeliner, key string) *goredis.BoolCmd { return p.PExpire(ctx, key, migrateFreeze) })
		if err != nil {
			return err
		}
		for _, cmd := range results {
			if !cmd.Val() {
				return errThawed
			}
		}
	}
	return nil
}
