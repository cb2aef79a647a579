package redis

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"precept/internal/session"
)

// sweepStep is the number of sessions in one sweep step; a step takes a few milliseconds.
const sweepStep = 32

// Forget deletes a session with all its data, and reports whether the session existed. The counters keep the session's
// contribution, which identifies no person.
//
// Redis keeps old values in the append-only file until BGREWRITEAOF, and in the last snapshot.
func (s *Store) Forget(ctx context.Context, tenant string, id session.ID) (bool, error) {
	n, err := doValue(ctx, s, "forget", func(c client) (int, error) {
		return s.forget(ctx, c, s.keyspace(sessionLocation(tenant, id)), "", string(id[:]))
	})
	return n > 0, err
}

// forget deletes, in one script call, the sessions in ids that were last seen before the given time ("" means all). It
// then deletes the sessions' index entries in other shards.
func (s *Store) forget(ctx context.Context, c client, ks keyspace, before string, ids ...string) (int, error) {
	n, err := s.runScript(ctx, c, "forget", ks, append([]any{before}, toArgs(ids)...)...).Int()
	if err != nil {
		return n, err
	}
	members := make([]string, len(ids))
	for i, id := range ids {
		members[i] = id + strings.TrimPrefix(ks.tenantArg, "+")
	}
	values, err := c.HMGet(ctx, ks.listPrefix+"gone", members...).Result()
	if err != nil {
		return n, err
	}
	entryLists := map[string]string{}
	for i, v := range values {
		if entries, ok := v.(string); ok {
			entryLists[members[i]] = entries
		}
	}
	return n, s.deleteIndexEntries(ctx, c, ks, entryLists)
}

// deleteIndexEntries deletes the index entries of deleted sessions, then the lists of these entries. entryLists has the
// lists, by field in the hash 'gone'.
func (s *Store) deleteIndexEntries(ctx context.Context, c client, ks keyspace, entryLists map[string]string) error {
	const size, entry = len(session.ID{}), 9 // an entry is a kind (one letter) and a key (8 bytes)
	p := newPlan("unindex")
	for member, entries := range entryLists {
		for ; len(entries) >= entry && len(member) >= size; entries = entries[entry:] {
			p.add(indexLocation(ks.memberTenant(member[size:]), entries[1:entry]), entries[:1], entries[1:entry], member[:size])
		}
	}
	if len(entryLists) == 0 {
		return nil
	}
	if err := s.runPlan(ctx, c, p); err != nil {
		return err
	}
	return s.deleteFields(ctx, c, keyspace{base: ks.listPrefix}, "gone", slices.Collect(maps.Keys(entryLists))...)
}

// finishDeletions completes deletions that stopped before the index entries were deleted.
func (s *Store) finishDeletions(ctx context.Context) error {
	lists := func(ctx context.Context, c client) (pending []keyspace, err error) {
		all, err := s.shardKeyspaces(ctx, c)
		if err != nil {
			return nil, err
		}
		sizes, err := runPipelined(ctx, c, all, func(p goredis.Pipeliner, ks keyspace) *goredis.IntCmd { return p.HLen(ctx, ks.listPrefix+"gone") })
		for i := range sizes {
			if sizes[i].Val() > 0 {
				pending = append(pending, all[i])
			}
		}
		return pending, err
	}
	readEntryLists := func(p goredis.Pipeliner, ks keyspace) *goredis.MapStringStringCmd {
		return p.HGetAll(ctx, ks.listPrefix+"gone")
	}
	return doEachKeyspace(ctx, s, "delete old entries", lists, readEntryLists, func(ks keyspace, cmd *goredis.MapStringStringCmd) error {
		return s.deleteIndexEntries(ctx, s.client, ks, cmd.Val())
	})
}

// ForgetTenant deletes a tenant's sessions, as Forget does, and the tenant's notes and parked feedback. It returns the
// number of sessions. The tenant's name and counters stay. After an error, retry the call.
func (s *Store) ForgetTenant(ctx context.Context, tenant string) (sessions int, err error) {
	all := func(context.Context, client) ([]keyspace, error) { return s.tenantKeyspaces(tenant), nil }
	sessions, err = s.sweep(ctx, "forget tenant", all, "")
	if err == nil {
		err = s.do(ctx, "forget notes", func(c client) error {
			home := s.keyspace(tenantLocation(tenant))
			return errors.Join(s.deleteFields(ctx, c, home, "notes"), s.deleteFields(ctx, c, home, "jots"))
		})
	}
	if err == nil {
		_, err = s.purgeTenant(ctx, tenant, "+inf")
	}
	if err == nil {
		err = s.finishDeletions(ctx)
	}
	return sessions, err
}

// PurgeSessions deletes the sessions last seen before the given time, as Forget does, and returns their number. When
// ctx ends, PurgeSessions stops after the current step, which takes a few milliseconds.
func (s *Store) PurgeSessions(ctx context.Context, before time.Time) (int, error) {
	n, err := s.sweep(ctx, "delete old entries", s.allKeyspaces, timeScore(before))
	if err == nil {
		err = s.finishDeletions(ctx)
	}
	return n, err
}

// sweep deletes the sessions last seen before the given time ("" means all) in the keyspaces from list. When ctx ends,
// it stops after the current step.
func (s *Store) sweep(ctx context.Context, op string, list func(ctx context.Context, c client) ([]keyspace, error), before string) (n int, err error) {
	until := "+inf"
	if before != "" {
		until = "(" + before
	}
	uncancelled := context.WithoutCancel(ctx)
	remaining, err := doValue(uncancelled, s, op, func(c client) ([]keyspace, error) { return list(uncancelled, c) })
	if err := cmp.Or(ctx.Err(), err); err != nil {
		return 0, err
	}
	oldest := func(p goredis.Pipeliner, ks keyspace) *goredis.StringSliceCmd {
		return p.ZRangeByScore(uncancelled, ks.base+"seen", &goredis.ZRangeBy{Min: "-inf", Max: until, Count: sweepStep})
	}
	stopped := false
	for len(remaining) > 0 && err == nil && !stopped {
		var next []keyspace
		listRemaining := func(context.Context, client) ([]keyspace, error) { return remaining, nil }
		err = doEachKeyspace(uncancelled, s, op, listRemaining, oldest, func(ks keyspace, cmd *goredis.StringSliceCmd) error {
			if stopped = stopped || n > 0 && ctx.Err() != nil; stopped || len(cmd.Val()) == 0 {
				return nil
			}
			deleted, err := s.forget(uncancelled, s.client, ks, before, cmd.Val()...)
			n += deleted
			next = append(next, ks)
			return err
		})
		remaining = next
	}
	if stopped && err == nil {
		err = ctx.Err()
	}
	return n, err
}

// Stats returns how many sessions, exchanges, samples, feedback and parked feedback are stored, how many exchanges and
// samples were ever stored (exchanges_ever, samples_ever), and the servers' memory (bytes).
func (s *Store) Stats(ctx context.Context) (map[string]int64, error) {
	names := []string{"exchanges", "exchanges_ever", "samples", "samples_ever", "feedback", "sessions"}
	m := map[string]int64{}
	totals := func(p goredis.Pipeliner, ks keyspace) *goredis.SliceCmd {
		return p.HMGet(ctx, ks.listPrefix+"t", names...)
	}
	err := doEachKeyspace(ctx, s, "stats", s.shardKeyspaces, totals, func(_ keyspace, cmd *goredis.SliceCmd) error {
		for i, v := range cmd.Val() {
			m[names[i]] += parseInt(v)
		}
		return nil
	})
	size := func(name, key string, list func(ctx context.Context, c client) ([]keyspace, error)) {
		if err != nil {
			return
		}
		m[name] = 0
		err = doEachKeyspace(ctx, s, "stats", list, func(p goredis.Pipeliner, ks keyspace) *goredis.IntCmd {
			return p.ZCard(ctx, ks.base+key)
		}, func(_ keyspace, cmd *goredis.IntCmd) error {
			m[name] += cmd.Val()
			return nil
		})
	}
	size("parked", "parked", s.parkedKeyspaces)
	if s.shards.Load() == 1 { // an earlier release did not count sessions
		size("sessions", "order", s.allKeyspaces)
	}
	if err != nil {
		return nil, err
	}
	used, err := doValue(ctx, s, "stats", func(c client) ([]string, error) { return s.readInfoField(ctx, c, "memory", "used_memory") })
	for _, name := range append(names, "parked", "bytes") { // all names must be in the result
		m[name] += 0
	}
	for _, bytes := range used {
		m["bytes"] += parseInt(bytes)
	}
	return m, err
}

func (s *Store) readInfoField(ctx context.Context, c client, section, field string) (values []string, err error) {
	var mu sync.Mutex // the servers in a Cluster are queried in parallel
	readNode := func(ctx context.Context, n *goredis.Client) error {
		text, err := n.Info(ctx, section).Result()
		_, text, _ = strings.Cut(text, "\r\n"+field+":")
		text, _, _ = strings.Cut(text, "\r\n")
		mu.Lock()
		defer mu.Unlock()
		values = append(values, text)
		return err
	}
	switch c := c.(type) {
	case *goredis.ClusterClient:
		err = c.ForEachMaster(ctx, readNode)
	case *goredis.Client:
		err = readNode(ctx, c)
	}
	return values, err
}

// EvictionPolicy returns a server's maxmemory-policy if it deletes keys when memory is full, else "".
func (s *Store) EvictionPolicy(ctx context.Context) (string, error) {
	return doValue(ctx, s, "eviction policy", func(c client) (string, error) {
		policies, err := s.readInfoField(ctx, c, "memory", "maxmemory_policy")
		return strings.Join(slices.DeleteFunc(policies, func(p string) bool { return p == "noeviction" }), " "), err
	})
}

// Sync returns nil if Redis answers. Redis' appendfsync setting decides when a write is on the disk, and Epoch changes
// when a write might be lost.
func (s *Store) Sync(ctx context.Context) error {
	return s.do(ctx, "sync", func(c client) error { return c.Ping(ctx).Err() })
}
