package sqlite

import (
	"context"
	"maps"
	"sync"
)

// maxNames bounds the cached tenant numbers: by-credential tenancy makes a tenant of every client
// key.
const maxNames = 4096

// tenantNames caches the numbers of committed tenants. A tenant is never deleted, so that a number
// never changes hands.
type tenantNames struct {
	mu sync.RWMutex
	m  map[string]int64
}

func (n *tenantNames) get(name string) (int64, bool) {
	n.mu.RLock()
	defer n.mu.RUnlock()
	id, ok := n.m[name]
	return id, ok
}

func (n *tenantNames) add(m map[string]int64) {
	if len(m) == 0 {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.m == nil || len(n.m)+len(m) > maxNames {
		n.m = map[string]int64{}
	}
	maps.Copy(n.m, m)
}

const tenantByName = "SELECT id FROM tenants WHERE name = ?"

// tenant finds a tenant's number for reading; 0 is a tenant that has nothing.
func (s *Store) tenant(c *conn, name string) int64 {
	if id, ok := s.tenants.get(name); ok {
		return id
	}
	id := c.number(tenantByName, name)
	if id != 0 {
		s.tenants.add(map[string]int64{name: id})
	}
	return id
}

// readOf is read for what a tenant has; one that is not there has nothing.
func readOf[T any](ctx context.Context, s *Store, tenant string, fn func(c *conn, n int64) T) (T, error) {
	return read(ctx, s, func(c *conn) (v T) {
		if n := s.tenant(c, tenant); n != 0 {
			v = fn(c, n)
		}
		return v
	})
}

// tenant finds or makes a tenant's number. A new one reaches the cache when the transaction is
// committed, not before: after a rollback its number could become another's.
func (t *tx) tenant(name string) int64 {
	id, ok := t.tenants[name]
	if ok {
		return id
	}
	if id = t.known(name); id == 0 {
		id = t.db.insert("INSERT INTO tenants(name) VALUES(?)", name)
	}
	t.tenants[name] = id
	return id
}

// known finds a tenant's number without making one; 0 is a tenant that has nothing.
func (t *tx) known(name string) int64 {
	if id, ok := t.s.tenants.get(name); ok {
		return id
	}
	return t.db.number(tenantByName, name)
}

// Tenants lists every tenant that anything was ever stored for, in byte order.
func (s *Store) Tenants(ctx context.Context) ([]string, error) {
	return read(ctx, s, func(c *conn) (names []string) {
		for r := range c.rows("SELECT name FROM tenants ORDER BY name") {
			var name string
			r.scan(&name)
			names = append(names, name)
		}
		return names
	})
}
