package redis

import (
	"context"
	"slices"
	"sync"

	goredis "github.com/redis/go-redis/v9"
)

// maxRememberedTenants limits tenantSet. With by-credential tenancy, every client key is a tenant.
const maxRememberedTenants = 4096

// tenantSet is a set of tenants in Redis' tenant list. A new connection clears the set, because the server might have
// lost data.
type tenantSet struct {
	mu    sync.Mutex
	names map[string]bool
}

func (t *tenantSet) clear() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.names = nil
}

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

// register adds tenants to the tenant list, before data is stored for them. A crash can leave a listed tenant without
// data, but no unlisted tenant with data.
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

// doEachKeyspace runs a command for each keyspace from list, with few round trips, and calls handle with each result.
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

const reopenedField = "reopened" // set in a tenant's totals after reopen

// reopenAll calls reopen for all tenants in a store with the old layout. Releases with shards close no session without
// a settlement.
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

// reopen makes a tenant's sessions due again if an earlier release closed them without a settlement. reopen is
// idempotent.
func (s *Store) reopen(ctx context.Context, c client, ks keyspace) (n int, err error) {
	base := ks.base
	pipe := c.Pipeline()
	isReopened := pipe.HExists(ctx, base+"t", reopenedField)
	pipe.Del(ctx, base+"exchanges") // a list from earlier releases
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
