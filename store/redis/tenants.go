package redis

import (
	"context"
	"slices"
	"sync"

	goredis "github.com/redis/go-redis/v9"
)

// maxRememberedTenants is the maximum number of remembered tenants. There may be many, because with by-credential
// tenancy every client key is a tenant.
const maxRememberedTenants = 4096

// tenantSet is a set of tenants that are in the list of tenants in Redis. A new connection clears the set, because the
// server may have restarted and lost a part of its data.
type tenantSet struct {
	mu    sync.Mutex
	names map[string]bool
}

func (t *tenantSet) clear() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.names = nil
}

// missing returns the given tenants that are not in the set.
func (t *tenantSet) missing(names []string) (out []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, n := range names {
		if !t.names[n] {
			out = append(out, n)
		}
	}
	return out
}

func (t *tenantSet) add(names []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.names == nil || len(t.names)+len(names) > maxRememberedTenants {
		t.names = map[string]bool{}
	}
	for _, n := range names {
		t.names[n] = true
	}
}

// register adds tenants to the list of tenants, before anything is stored for them. A crash may thus leave a tenant
// without data in the list, but never data of a tenant that is not in the list.
func (s *Store) register(ctx context.Context, c client, names ...string) error {
	if s.layoutUncertain.Load() {
		if err := s.readLayout(ctx, c); err != nil {
			return err
		}
	}
	missing := s.registeredTenants.missing(names)
	if len(missing) == 0 {
		return nil
	}
	var err error
	if n := s.shards.Load(); n == 1 {
		err = s.script(ctx, c, "register", location{}, append([]any{n}, toArgs(missing)...)...).Err()
	} else {
		err = c.SAdd(ctx, s.commonKey("tenants"), toArgs(missing)...).Err()
	}
	if err != nil {
		return err
	}
	s.registeredTenants.add(missing)
	return nil
}

// Tenants returns every tenant with stored data, in byte order.
func (s *Store) Tenants(ctx context.Context) ([]string, error) {
	return doValue(ctx, s, "tenants", func(c client) ([]string, error) { return s.readTenants(ctx, c) })
}

func (s *Store) readTenants(ctx context.Context, c client) ([]string, error) {
	names, err := c.SMembers(ctx, s.commonKey("tenants")).Result()
	slices.Sort(names)
	return names, err
}

// doEachKeyspace runs one command for each of the keyspaces that list returns, many commands in one round trip, and
// calls handle with each result.
func doEachKeyspace[C goredis.Cmder](ctx context.Context, s *Store, op string, list func(ctx context.Context, c client) ([]keyspace, error), command func(p goredis.Pipeliner, ks keyspace) C, handle func(ks keyspace, cmd C) error) error {
	return s.do(ctx, op, func(c client) error {
		all, err := list(ctx, c)
		if err != nil {
			return err
		}
		for chunk := range slices.Chunk(all, 500) {
			cmds, err := runPipelined(ctx, c, chunk, command)
			if err != nil {
				return err
			}
			for i, ks := range chunk {
				if err := handle(ks, cmds[i]); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// reopenedField is the field of a tenant's totals that reopen sets when it has finished.
const reopenedField = "reopened"

// reopenAll calls reopen for all tenants of a store in the old layout, and returns the number of reopened sessions.
// Other stores do not need it, because releases with shards close no session without a settlement.
func (s *Store) reopenAll(ctx context.Context) (n int, err error) {
	err = s.do(ctx, "readmit", func(c client) error {
		if s.shards.Load() > 1 {
			return nil
		}
		keyspaces, err := s.allKeyspaces(ctx, c)
		for _, ks := range keyspaces {
			opened, reopenErr := s.reopen(ctx, c, ks)
			if n, err = n+opened, reopenErr; err != nil {
				break
			}
		}
		return err
	})
	return n, err
}

// reopen makes those sessions of a tenant due again that an earlier release closed without a settlement. Otherwise
// these sessions would never be settled. reopen runs once for each tenant in the old layout, and is idempotent.
func (s *Store) reopen(ctx context.Context, c client, ks keyspace) (n int, err error) {
	base := ks.base
	pipe := c.Pipeline()
	isReopened := pipe.HExists(ctx, base+"t", reopenedField)
	pipe.Del(ctx, base+"exchanges") // a list of earlier releases that is no longer used
	if err := readPipeline(ctx, pipe); err != nil || isReopened.Val() {
		return 0, err
	}
	for from := int64(0); ; from += maxCallItems {
		ids, err := c.ZRevRange(ctx, base+"order", from, from+maxCallItems-1).Result()
		if err != nil {
			return n, err
		}
		opened, err := s.runScript(ctx, c, "reopen", ks, toArgs(ids)...).Int()
		if n += opened; err != nil {
			return n, err
		}
		if len(ids) < maxCallItems {
			return n, c.HSet(ctx, base+"t", reopenedField, 1).Err()
		}
	}
}
