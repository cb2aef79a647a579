package redis

import (
	"context"
	"strings"
	"sync"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"precept/internal/session"
)

// sweepStep is how many sessions one step of a sweep deletes: some milliseconds of the server's
// time.
const sweepStep = 32

// Forget deletes a session wherever it stands: row, echoes, exchanges, samples, feedback and what
// it was settled with. What it added to the counters stays; that is sums, and names nobody. It says
// whether there was anything.
//
// The server's append-only file holds the old values until it is rewritten (BGREWRITEAOF), and its
// last snapshot until the next one.
func (s *Store) Forget(ctx context.Context, tenant string, id session.ID) (bool, error) {
	n, err := ask(ctx, s, "forget", func(c client) (int, error) { return s.forget(ctx, c, tenant, "", string(id[:])) })
	return n > 0, err
}

// forget deletes sessions that were seen last before a time, in one step.
func (s *Store) forget(ctx context.Context, c client, tenant, before string, ids ...string) (int, error) {
	return s.script(ctx, c, "forget", s.base(tenant), append([]any{before}, anys(ids)...)...).Int()
}

// ForgetTenant deletes all sessions of a tenant, as Forget does, and the feedback that waits for
// its exchanges. It says how many sessions there were. The tenant's name and its counters stay.
// When it ends with an error, what was not deleted yet is still there: call it again.
func (s *Store) ForgetTenant(ctx context.Context, tenant string) (sessions int, err error) {
	sessions, err = s.sweep(ctx, "forget tenant", []string{tenant}, "")
	if err == nil {
		err = s.do(ctx, "forget notes", func(c client) error { return c.Del(ctx, s.base(tenant)+"notes").Err() })
	}
	if err == nil {
		_, err = s.purge(ctx, tenant, "+inf")
	}
	return sessions, err
}

// Retain deletes the sessions that were last seen before the given time, as Forget does, and says
// how many. It works in steps of some milliseconds and looks at the context between them: with a
// context that ends soon it does at least one step and returns the context's error when there is
// more to do.
func (s *Store) Retain(ctx context.Context, before time.Time) (int, error) {
	names, err := s.Tenants(context.WithoutCancel(ctx))
	if err != nil {
		return 0, err
	}
	return s.sweep(ctx, "retain", names, score(before))
}

// sweep forgets the tenants' sessions that were seen last before a time ("": all of them), in
// steps. The context is looked at between them: a step that deletes something is not cut short.
func (s *Store) sweep(ctx context.Context, op string, names []string, before string) (n int, err error) {
	until := "+inf"
	if before != "" {
		until = "(" + before
	}
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	whole := context.WithoutCancel(ctx)
	for _, name := range names {
		for more := true; more; {
			if err := ctx.Err(); err != nil && n > 0 {
				return n, err
			}
			gone, err := ask(whole, s, op, func(c client) (int, error) {
				ids, err := c.ZRangeByScore(whole, s.base(name)+"seen", &goredis.ZRangeBy{Min: "-inf", Max: until, Count: sweepStep}).Result()
				if more = len(ids) > 0; err != nil || !more {
					return 0, err
				}
				return s.forget(whole, c, name, before, ids...)
			})
			if n += gone; err != nil {
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
	names := []string{"exchanges", "exchanges_ever", "samples", "samples_ever", "feedback"}
	m := map[string]int64{}
	totals := func(p goredis.Pipeliner, base string) *goredis.SliceCmd { return p.HMGet(ctx, base+"t", names...) }
	err := askAll(ctx, s, "stats", totals, func(_ string, cmd *goredis.SliceCmd) error {
		for i, v := range cmd.Val() {
			m[names[i]] += integer(v)
		}
		return nil
	})
	for name, key := range map[string]string{"sessions": "order", "parked": "parked"} {
		if err != nil {
			break
		}
		size := func(p goredis.Pipeliner, base string) *goredis.IntCmd { return p.ZCard(ctx, base+key) }
		err = askAll(ctx, s, "stats", size, func(_ string, cmd *goredis.IntCmd) error {
			m[name] += cmd.Val()
			return nil
		})
	}
	if err != nil {
		return nil, err
	}
	used, err := ask(ctx, s, "stats", func(c client) ([]string, error) { return s.infos(ctx, c, "memory", "used_memory") })
	for _, name := range append(names, "sessions", "parked", "bytes") { // those that nothing was counted of, too
		m[name] += 0
	}
	for _, bytes := range used {
		m["bytes"] += integer(bytes)
	}
	return m, err
}

// infos reads a field of INFO from every server that holds data, in no order.
func (s *Store) infos(ctx context.Context, c client, section, field string) (values []string, err error) {
	var mu sync.Mutex // a Cluster's servers are asked side by side
	one := func(ctx context.Context, n *goredis.Client) error {
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
		err = c.ForEachMaster(ctx, one)
	case *goredis.Client:
		err = one(ctx, c)
	}
	return values, err
}

// Sync asks Redis whether it is there. When what it answers is on its disk is a matter of its
// configuration (appendfsync); Epoch tells when something may have been lost.
func (s *Store) Sync(ctx context.Context) error {
	return s.do(ctx, "sync", func(c client) error { return c.Ping(ctx).Err() })
}
