package sqlite

import (
	"context"
	"database/sql/driver"
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
func (s *Store) tenant(c *conn, name string) (int64, error) {
	if id, ok := s.tenants.get(name); ok {
		return id, nil
	}
	id, err := c.number(tenantByName, name)
	if err == nil && id != 0 {
		s.tenants.add(map[string]int64{name: id})
	}
	return id, err
}

// readOf is read for what a tenant has; one that is not there has nothing.
func readOf[T any](ctx context.Context, s *Store, tenant string, fn func(c *conn, n int64) (T, error)) (T, error) {
	return read(ctx, s, func(c *conn) (v T, err error) {
		n, err := s.tenant(c, tenant)
		if err != nil || n == 0 {
			return v, err
		}
		return fn(c, n)
	})
}

// tenant finds or makes a tenant's number. A new one reaches the cache when the transaction is
// committed, not before: after a rollback its number could become another's.
func (t *tx) tenant(name string) (int64, error) {
	if id, ok := t.s.tenants.get(name); ok {
		return id, nil
	}
	if id, ok := t.tenants[name]; ok {
		return id, nil
	}
	id, err := t.number(tenantByName, name)
	if err == nil && id == 0 {
		var r driver.Result
		if r, err = t.exec("INSERT INTO tenants(name) VALUES(?)", name); err == nil {
			id, err = r.LastInsertId()
		}
	}
	if err == nil {
		t.tenants[name] = id
	}
	return id, err
}

// known finds a tenant's number without making one; 0 is a tenant that has nothing.
func (t *tx) known(name string) (int64, error) {
	if id, ok := t.s.tenants.get(name); ok {
		return id, nil
	}
	return t.number(tenantByName, name)
}

// Tenants lists every tenant that anything was ever stored for, in byte order.
func (s *Store) Tenants(ctx context.Context) ([]string, error) {
	return read(ctx, s, func(c *conn) (names []string, err error) {
		err = c.query("SELECT name FROM tenants ORDER BY name", func(row []driver.Value) error {
			names = append(names, text(row[0]))
			return ctx.Err()
		})
		return names, err
	})
}
