package redis

import (
	"context"
	"encoding/hex"
	"maps"
	"slices"
	"strconv"

	goredis "github.com/redis/go-redis/v9"

	"precept/internal/session"
)

// copyValues copies the values that a tenant has outside sessions, the tenant's totals, and the session.DeadLetter
// entries.
func (m *migrator) copyValues(ctx context.Context, c client, tenant string) error {
	oldBase, target := m.oldKeys(tenant).base, m.newKeys(tenantLocation(tenant))
	// Earlier copies are removed first, because counter rows and parked feedback might have been deleted since.
	for _, set := range []struct {
		base   string
		remove bool
	}{{target.base, true}, {oldBase, false}} {
		keys, err := valueKeys(ctx, c, set.base)
		if err != nil {
			return err
		}
		for chunk := range slices.Chunk(keys, migratePage) {
			if err := m.renewLease(ctx); err != nil {
				return err
			}
			if set.remove {
				for i := range chunk {
					chunk[i] = target.base + chunk[i]
				}
				err = c.Del(ctx, chunk...).Err()
			} else {
				err = m.copyKeys(ctx, c, oldBase, target.base, chunk)
			}
			if err != nil {
				return err
			}
		}
	}
	if err := m.copySums(ctx, c, tenant); err != nil {
		return err
	}
	return m.copyAside(ctx, c, tenant)
}

// valueKeys returns the keys for the values that a tenant has outside sessions. Keys with lists of other keys are last,
// so that an interrupted deletion can be repeated.
func valueKeys(ctx context.Context, c client, base string) (keys []string, err error) {
	rows, err := c.HKeys(ctx, base+"counters").Result()
	if err != nil {
		return nil, err
	}
	for _, k := range rows {
		keys = append(keys, "c:"+k)
	}
	parked, err := c.ZRangeByScore(ctx, base+"parked", &goredis.ZRangeBy{Min: "-inf", Max: "+inf"}).Result()
	if err != nil {
		return nil, err
	}
	for _, member := range parked {
		keys = append(keys, "p:"+hex.EncodeToString([]byte(member[:min(8, len(member))])))
	}
	slices.Sort(keys)
	return append(slices.Compact(keys), "maxima", "priors", "notes", "jots", "counters", "parked"), nil
}

func (m *migrator) copyKeys(ctx context.Context, c client, from, to string, keys []string) error {
	dumps, err := runPipelined(ctx, c, keys, func(p goredis.Pipeliner, key string) *goredis.StringCmd { return p.Dump(ctx, from+key) })
	if err != nil {
		return err
	}
	pipe := c.Pipeline()
	for i, key := range keys {
		if dumps[i].Val() != "" {
			pipe.RestoreReplace(ctx, to+key, 0, dumps[i].Val())
		}
	}
	_, err = pipe.Exec(ctx)
	return err
}

func (m *migrator) copySums(ctx context.Context, c client, tenant string) error {
	old := m.oldKeys(tenant).base
	sums, err := c.HGetAll(ctx, old+"t").Result()
	if err != nil {
		return err
	}
	n, err := c.ZCard(ctx, old+"order").Result() // the first releases stored no session count
	if err != nil {
		return err
	}
	sums["sessions"] = strconv.FormatInt(n, 10)
	p := newPlan("sums")
	p.shardCount = m.options.Shards
	for _, name := range []string{"exchanges", "exchanges_ever", "samples", "samples_ever", "feedback", "late", "sessions"} {
		p.add(tenantLocation(tenant), name, strconv.FormatInt(parseInt(sums[name]), 10))
	}
	return m.store.runPlan(ctx, c, p)
}

func (m *migrator) copyAside(ctx context.Context, c client, tenant string) error {
	copiedKey := m.newKeys(tenantLocation(tenant)).base + "movingaside"
	earlier, err := c.SMembers(ctx, copiedKey).Result()
	if err != nil {
		return err
	}
	marks, err := c.HGetAll(ctx, m.oldKeys(tenant).base+"aside").Result()
	if err != nil || len(earlier)+len(marks) == 0 {
		return err
	}
	sessionListPrefix := func(field string) string { return m.newKeys(sessionLocation(tenant, idFromBytes(field))).listPrefix }
	for field := range marks {
		if err := c.SAdd(ctx, copiedKey, field).Err(); err != nil {
			return err
		}
	}
	pipe := c.Pipeline()
	for _, field := range earlier {
		pipe.HDel(ctx, sessionListPrefix(field)+"aside", field+"\x00"+tenant)
	}
	for field, value := range marks {
		pipe.HSet(ctx, sessionListPrefix(field)+"aside", field+"\x00"+tenant, value)
	}
	_, err = pipe.Exec(ctx)
	return err
}

// copyDeletions copies a frozen tenant's unfinished deletions. If a deletion were copied before the freeze, it could
// end in the old layout. The copy would then delete the index entries for a new session with the same id.
func (m *migrator) copyDeletions(ctx context.Context, c client, tenant string) error {
	const size = len(session.ID{})
	deletions, err := c.HGetAll(ctx, m.oldKeys(tenant).base+"gone").Result()
	if err != nil || len(deletions) == 0 {
		return err
	}
	pipe := c.Pipeline()
	for field, entries := range deletions {
		if len(field) >= size {
			pipe.HSet(ctx, m.newKeys(sessionLocation(tenant, idFromBytes(field))).listPrefix+"gone", field[:size]+tenant, entries)
		}
	}
	_, err = pipe.Exec(ctx)
	return err
}

// copyGroups copies the positions of a tenant's consumer groups to the shards' streams, and returns them as groupsText
// does.
func (m *migrator) copyGroups(ctx context.Context, c client, tenant string) (positions string, err error) {
	groups, err := c.XInfoGroups(ctx, m.oldKeys(tenant).base+"samples").Result()
	if err != nil && isMissingStream(err) {
		return "", nil
	}
	if err != nil || len(groups) == 0 {
		return "", err
	}
	streams, err := m.sampleStreams(ctx, c, tenant)
	if err != nil {
		return "", err
	}
	for _, g := range groups {
		to := map[string]string{}
		for _, stream := range streams {
			to[stream] = g.LastDeliveredID
		}
		if err := m.store.ackSamples(ctx, c, g.Name, to); err != nil {
			return "", err
		}
	}
	return groupsText(groups), nil
}

func groupsText(groups []goredis.XInfoGroup) (text string) {
	for _, g := range groups {
		text += g.Name + " " + g.LastDeliveredID + "\n"
	}
	return text
}

// sampleStreams returns the keys for the tenant's sample streams in the new layout. These are the streams in the shards
// that hold the tenant's sessions. If the tenant has more sessions than there are shards, sampleStreams assumes that
// every shard holds some.
func (m *migrator) sampleStreams(ctx context.Context, c client, tenant string) ([]string, error) {
	by := &goredis.ZRangeBy{Min: "-inf", Max: "+inf", Count: int64(m.options.Shards) + 1}
	ids, err := c.ZRangeByScore(ctx, m.oldKeys(tenant).base+"seen", by).Result()
	keys := map[string]bool{}
	if len(ids) > m.options.Shards {
		for shard := range m.options.Shards {
			keys[m.store.tenantKeyspace(m.options.Shards, tenant, shard).base+"samples"] = true
		}
		return slices.Collect(maps.Keys(keys)), err
	}
	for _, id := range ids {
		keys[m.newKeys(sessionLocation(tenant, idFromBytes(id))).base+"samples"] = true
	}
	return slices.Collect(maps.Keys(keys)), err
}

func (m *migrator) movedGroups(ctx context.Context, names []string) (changed []string, err error) {
	err = m.store.do(ctx, "migrate", func(c client) error {
		for chunk := range slices.Chunk(names, streamCalls) {
			cmds := make([]*goredis.XInfoGroupsCmd, 0, len(chunk))
			_, err := runPipelinedKeys(ctx, c, chunk, func(p goredis.Pipeliner, tenant string) *goredis.XInfoGroupsCmd {
				cmds = append(cmds, p.XInfoGroups(ctx, m.oldKeys(tenant).base+"samples"))
				return cmds[len(cmds)-1]
			}, isMissingStream)
			if err != nil {
				return err
			}
			for i, tenant := range chunk {
				if positions, _ := m.copiedPositions(tenant); groupsText(cmds[i].Val()) != positions {
					changed = append(changed, tenant)
				}
			}
		}
		return nil
	})
	return changed, err
}
