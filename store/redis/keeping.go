package redis

import (
	"context"
	"strings"
	"sync"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"precept/session"
)

// retainChunk is how many sessions one run of Retain deletes: some milliseconds of the server's
// time.
const retainChunk = 32

// Forget deletes a session wherever it stands: row, echoes, exchanges, samples, feedback and what
// it was settled with. What it added to the counters stays; that is sums, and names nobody. It says
// whether there was anything.
//
// The server's append-only file holds the old values until it is rewritten (BGREWRITEAOF), and its
// last snapshot until the next one.
func (s *Store) Forget(ctx context.Context, tenant string, id session.ID) (bool, error) {
	n, err := s.drop(ctx, "forget", tenant, "", string(id[:]))
	return n > 0, err
}

func (s *Store) drop(ctx context.Context, op, tenant, before string, ids ...string) (int, error) {
	k := &call{script: &s.scripts.forget, base: s.base(tenant), args: []any{before}}
	for _, id := range ids {
		k.args = append(k.args, id)
	}
	err := s.do(ctx, op, func(c goredis.UniversalClient) error { return run(ctx, c, []*call{k}) })
	return k.number(), err
}

// ForgetTenant deletes all sessions of a tenant, as Forget does, and the feedback that waits for
// its exchanges. It says how many sessions there were. The tenant's name and its counters stay.
// When it ends with an error, what was not deleted yet is still there: call it again.
func (s *Store) ForgetTenant(ctx context.Context, tenant string) (sessions int, err error) {
	for {
		ids, err := s.seen(ctx, "forget tenant", tenant, "+inf")
		if err != nil {
			return sessions, err
		}
		if len(ids) == 0 {
			break
		}
		n, err := s.drop(ctx, "forget tenant", tenant, "", ids...)
		sessions += n
		if err != nil {
			return sessions, err
		}
	}
	err = s.do(ctx, "forget notes", func(c goredis.UniversalClient) error { return c.Del(ctx, s.base(tenant)+"notes").Err() })
	if err != nil {
		return sessions, err
	}
	_, err = s.purge(ctx, tenant, "+inf")
	return sessions, err
}

// seen lists some of a tenant's sessions, the one that was not seen for longest first.
func (s *Store) seen(ctx context.Context, op, tenant, before string) (ids []string, err error) {
	err = s.do(ctx, op, func(c goredis.UniversalClient) error {
		ids, err = c.ZRangeByScore(ctx, s.base(tenant)+"seen", &goredis.ZRangeBy{Min: "-inf", Max: before, Count: retainChunk}).Result()
		return err
	})
	return ids, err
}

// Retain deletes the sessions that were last seen before the given time, as Forget does, and says
// how many. It works in steps of some milliseconds and looks at the context between them: with a
// context that ends soon it does at least one step and returns the context's error when there is
// more to do.
func (s *Store) Retain(ctx context.Context, before time.Time) (n int, err error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	end := ctx.Err
	ctx = context.WithoutCancel(ctx)
	names, err := s.Tenants(ctx)
	if err != nil {
		return 0, err
	}
	for _, name := range names {
		for {
			if err := end(); err != nil && n > 0 {
				return n, err
			}
			ids, err := s.seen(ctx, "retain", name, "("+score(before))
			if err != nil {
				return n, err
			}
			if len(ids) == 0 {
				break
			}
			gone, err := s.drop(ctx, "retain", name, score(before), ids...)
			n += gone
			if err != nil {
				return n, err
			}
		}
	}
	return n, nil
}

// Stats counts what is stored: sessions, exchanges, samples, feedback and parked as they are now,
// exchanges_ever and samples_ever over the store's life, whatever was deleted since; bytes is what
// the servers use in memory, for all that is in them.
func (s *Store) Stats(ctx context.Context) (map[string]int64, error) {
	m := map[string]int64{"sessions": 0, "parked": 0, "bytes": 0}
	for _, name := range totalNames() {
		m[name] = 0
	}
	err := s.do(ctx, "stats", func(c goredis.UniversalClient) error {
		names, err := s.tenants(ctx, c)
		if err != nil {
			return err
		}
		for _, name := range names {
			if err := s.count(ctx, c, s.base(name), m); err != nil {
				return err
			}
		}
		infos, err := s.infos(ctx, c, "memory")
		for _, info := range infos {
			m["bytes"] += integer(info["used_memory"])
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return m, nil
}

func totalNames() []string {
	return []string{"exchanges", "exchanges_ever", "samples", "samples_ever", "feedback"}
}

func (s *Store) count(ctx context.Context, c goredis.UniversalClient, base string, m map[string]int64) error {
	pipe := c.Pipeline()
	totals := pipe.HMGet(ctx, base+"t", totalNames()...)
	sessions, parked := pipe.ZCard(ctx, base+"order"), pipe.ZCard(ctx, base+"parked")
	if err := each(ctx, pipe); err != nil {
		return err
	}
	for i, name := range totalNames() {
		m[name] += integer(totals.Val()[i])
	}
	m["sessions"] += sessions.Val()
	m["parked"] += parked.Val()
	return nil
}

// infos reads a section of INFO from every server that holds data, in no order.
func (s *Store) infos(ctx context.Context, c goredis.UniversalClient, section string) (list []map[string]string, err error) {
	var mu sync.Mutex // a Cluster's servers are asked side by side
	one := func(ctx context.Context, n *goredis.Client) error {
		text, err := n.Info(ctx, section).Result()
		if err == nil {
			mu.Lock()
			defer mu.Unlock()
			list = append(list, parseInfo(text))
		}
		return err
	}
	switch c := c.(type) {
	case *goredis.ClusterClient:
		err = c.ForEachMaster(ctx, one)
	case *goredis.Client:
		err = one(ctx, c)
	}
	return list, err
}

func parseInfo(text string) map[string]string {
	m := map[string]string{}
	for line := range strings.Lines(text) {
		if k, v, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			m[k] = v
		}
	}
	return m
}

// Sync asks Redis whether it is there. When what it answers is on its disk is a matter of its
// configuration (appendfsync); Epoch tells when something may have been lost.
func (s *Store) Sync(ctx context.Context) error {
	return s.do(ctx, "sync", func(c goredis.UniversalClient) error { return c.Ping(ctx).Err() })
}
