package redis

import (
	"context"
	"slices"
	"sync"

	goredis "github.com/redis/go-redis/v9"
)

// maxNames bounds the remembered tenants: by-credential tenancy makes a tenant of every client key.
const maxNames = 4096

// registered remembers which tenants Redis has been told of. A new connection makes it forget them
// all: the server may have been restarted with a little less than it had.
type registered struct {
	mu sync.Mutex
	m  map[string]bool
}

func (r *registered) clear() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.m = nil
}

func (r *registered) missing(names []string) (out []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, n := range names {
		if !r.m[n] {
			out = append(out, n)
		}
	}
	return out
}

func (r *registered) add(names []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.m == nil || len(r.m)+len(names) > maxNames {
		r.m = map[string]bool{}
	}
	for _, n := range names {
		r.m[n] = true
	}
}

// register lists tenants before anything is stored for them: a crash in between leaves a tenant
// without data, never data that nobody finds.
func (s *Store) register(ctx context.Context, c client, names ...string) error {
	missing := s.known.missing(names)
	if len(missing) == 0 {
		return nil
	}
	if err := c.SAdd(ctx, s.shared("tenants"), anys(missing)...).Err(); err != nil {
		return err
	}
	s.known.add(missing)
	return nil
}

// Tenants lists every tenant that anything was ever stored for, in byte order.
func (s *Store) Tenants(ctx context.Context) ([]string, error) {
	return ask(ctx, s, "tenants", func(c client) ([]string, error) { return s.tenants(ctx, c) })
}

func (s *Store) tenants(ctx context.Context, c client) ([]string, error) {
	names, err := c.SMembers(ctx, s.shared("tenants")).Result()
	slices.Sort(names)
	return names, err
}

// askAll asks something of each tenant, many in one round, and hands on what each answers.
func askAll[C goredis.Cmder](ctx context.Context, s *Store, op string, question func(p goredis.Pipeliner, base string) C, answer func(name string, cmd C) error) error {
	return s.do(ctx, op, func(c client) error {
		names, err := s.tenants(ctx, c)
		if err != nil {
			return err
		}
		for part := range slices.Chunk(names, 500) {
			cmds, err := piped(ctx, c, part, func(p goredis.Pipeliner, name string) C { return question(p, s.base(name)) })
			if err != nil {
				return err
			}
			for i, name := range part {
				if err := answer(name, cmds[i]); err != nil {
					return err
				}
			}
		}
		return nil
	})
}
