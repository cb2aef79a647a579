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

func (r *registered) missing(names []string) (out []any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, n := range names {
		if !r.m[n] {
			out = append(out, n)
		}
	}
	return out
}

func (r *registered) add(names []any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.m == nil || len(r.m)+len(names) > maxNames {
		r.m = map[string]bool{}
	}
	for _, n := range names {
		r.m[n.(string)] = true //nolint:forcetypeassert // from missing
	}
}

// register lists tenants before anything is stored for them: a crash in between leaves a tenant
// without data, never data that nobody finds.
func (s *Store) register(ctx context.Context, c goredis.UniversalClient, names ...string) error {
	missing := s.known.missing(names)
	if len(missing) == 0 {
		return nil
	}
	if err := c.SAdd(ctx, s.shared("tenants"), missing...).Err(); err != nil {
		return err
	}
	s.known.add(missing)
	return nil
}

// Tenants lists every tenant that anything was ever stored for, in byte order.
func (s *Store) Tenants(ctx context.Context) (names []string, err error) {
	err = s.do(ctx, "tenants", func(c goredis.UniversalClient) error {
		names, err = s.tenants(ctx, c)
		return err
	})
	return names, err
}

func (s *Store) tenants(ctx context.Context, c goredis.UniversalClient) ([]string, error) {
	names, err := c.SMembers(ctx, s.shared("tenants")).Result()
	slices.Sort(names)
	return names, err
}

// some is the tenant, or all of them for "".
func (s *Store) some(ctx context.Context, c goredis.UniversalClient, tenant string) ([]string, error) {
	if tenant != "" {
		return []string{tenant}, nil
	}
	return s.tenants(ctx, c)
}

// ask asks something of each tenant, many in one round, and hands on what each answers.
func ask[C goredis.Cmder](ctx context.Context, c goredis.UniversalClient, s *Store, names []string, question func(p goredis.Pipeliner, base string) C, answer func(name string, cmd C) error) error {
	for part := range slices.Chunk(names, 500) {
		pipe := c.Pipeline()
		cmds := make([]C, len(part))
		for i, name := range part {
			cmds[i] = question(pipe, s.base(name))
		}
		if err := each(ctx, pipe); err != nil {
			return err
		}
		for i, name := range part {
			if err := answer(name, cmds[i]); err != nil {
				return err
			}
		}
	}
	return nil
}
