package redis

import (
	"context"
	"strings"
	"sync"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"precept/internal/session"
)

// sweepStep is the number of sessions that one step of a sweep deletes, in some milliseconds of the
// server's time.
const sweepStep = 32

// Forget deletes a session with row, echoes, exchanges, samples, feedback and settlement, and
// reports whether the session existed. The counters keep the session's sums, which name no person.
//
// The server's append-only file holds the old values until the next rewrite (BGREWRITEAOF), and the
// last snapshot until the next snapshot.
func (s *Store) Forget(ctx context.Context, tenant string, id session.ID) (bool, error) {
	n, err := ask(ctx, s, "forget", func(c client) (int, error) { return s.forget(ctx, c, tenant, "", string(id[:])) })
	return n > 0, err
}

// forget deletes sessions that were last seen before a time, in one step.
func (s *Store) forget(ctx context.Context, c client, tenant, before string, ids ...string) (int, error) {
	return s.script(ctx, c, "forget", s.base(tenant), append([]any{before}, anys(ids)...)...).Int()
}

// ForgetTenant deletes all sessions of a tenant, as Forget does, and the tenant's parked feedback.
// It returns the number of sessions. The tenant's name and its counters stay. After an error the
// rest is still there: repeat the call.
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

// Retain deletes the sessions that were last seen before a time, as Forget does, and returns their
// number. It works in steps of some milliseconds, at least one, and returns the error of ctx if
// sessions are left.
func (s *Store) Retain(ctx context.Context, before time.Time) (int, error) {
	names, err := s.Tenants(context.WithoutCancel(ctx))
	if err != nil {
		return 0, err
	}
	return s.sweep(ctx, "retain", names, score(before))
}

// sweep deletes the tenants' sessions that were last seen before a time ("": all sessions) in
// steps. The context is checked between the steps.
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

// Stats returns the numbers of stored sessions, exchanges, samples, feedback and parked feedback,
// the numbers of exchanges and samples ever stored (exchanges_ever, samples_ever), and the memory
// that the servers use (bytes).
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
	for _, name := range append(names, "sessions", "parked", "bytes") { // also those without a count
		m[name] += 0
	}
	for _, bytes := range used {
		m["bytes"] += integer(bytes)
	}
	return m, err
}

// infos returns a field of INFO from every server with data, in no order.
func (s *Store) infos(ctx context.Context, c client, section, field string) (values []string, err error) {
	var mu sync.Mutex // the servers of a Cluster are asked in parallel
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

// Sync reports whether Redis answers. The configuration of Redis decides when an answered write is
// on the disk (appendfsync); Epoch changes when a write may be lost.
func (s *Store) Sync(ctx context.Context) error {
	return s.do(ctx, "sync", func(c client) error { return c.Ping(ctx).Err() })
}
