package redis

import (
	"context"
	"encoding/hex"
	"slices"
	"strings"

	goredis "github.com/redis/go-redis/v9"

	"precept/internal/session"
)

func (m *migrator) copyOptOuts(ctx context.Context, c client) error {
	prefix := m.store.commonKey("optout:")
	copyNode := func(ctx context.Context, c *goredis.Client) error {
		it := c.Scan(ctx, 0, globEscape(prefix)+"*", 1000).Iterator()
		var names []string
		for it.Next(ctx) {
			names = append(names, strings.TrimPrefix(it.Val(), prefix))
		}
		if err := it.Err(); err != nil {
			return err
		}
		return m.copyMarks(ctx, m.store.client, names)
	}
	switch c := c.(type) {
	case *goredis.ClusterClient:
		return c.ForEachMaster(ctx, copyNode)
	case *goredis.Client:
		return copyNode(ctx, c)
	}
	return nil
}

func globEscape(text string) string {
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`, "]", `\]`).Replace(text)
}

func (m *migrator) copyChangedMarks(ctx context.Context, c client) error {
	var ids []string
	for {
		args := append([]any{migratePage, m.store.commonKey("")}, toArgs(ids)...)
		var err error
		if ids, err = m.store.runScript(ctx, c, "changed", keyspace{base: m.store.commonKey("moving:")}, args...).StringSlice(); err != nil || len(ids) == 0 {
			return err
		}
		names := make([]string, len(ids))
		for i, id := range ids {
			names[i] = hex.EncodeToString([]byte(id))
		}
		if err := m.copyMarks(ctx, c, names); err != nil {
			return err
		}
	}
}

func (m *migrator) copyMarks(ctx context.Context, c client, names []string) error {
	p := newPlan("optout")
	p.shardCount = m.options.Shards
	for chunk := range slices.Chunk(names, migratePage) {
		if err := m.renewLease(ctx); err != nil {
			return err
		}
		key := func(name string) string { return m.store.commonKey("optout:" + name) }
		values, err := runPipelined(ctx, c, chunk, func(p goredis.Pipeliner, name string) *goredis.StringCmd { return p.Get(ctx, key(name)) })
		if err != nil {
			return err
		}
		ttls, err := runPipelined(ctx, c, chunk, func(p goredis.Pipeliner, name string) *goredis.DurationCmd { return p.PTTL(ctx, key(name)) })
		if err != nil {
			return err
		}
		for i, name := range chunk {
			turns, items, ok := strings.Cut(values[i].Val(), " ")
			raw, err := hex.DecodeString(name)
			if !ok || err != nil || ttls[i].Val() <= 0 || len(raw) != len(session.ID{}) { // expired
				continue
			}
			p.add(location{kind: shardKeys, hash: raw[0]}, string(raw), turns, items, durationMillis(ttls[i].Val()))
		}
	}
	return m.store.runPlan(ctx, c, p)
}
