package sqlite

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"precept/internal/session"
)

// SessionNote returns the distiller's note about a session, or nil if there is none. The distiller is the worker that
// proposes lessons.
func (s *Store) SessionNote(ctx context.Context, tenant string, id session.ID) ([]byte, error) {
	return readSession(ctx, s, tenant, id, func(c *conn, sid int64) []byte {
		return c.queryBlob("SELECT data FROM marks WHERE sid = ?", sid)
	})
}

// TenantNote returns the note stored for a tenant under a key; nil means none.
func (s *Store) TenantNote(ctx context.Context, tenant, key string) ([]byte, error) {
	return readTenant(ctx, s, tenant, func(c *conn, tenantNumber int64) []byte {
		return c.queryBlob("SELECT data FROM notes WHERE tenant = ? AND key = ?", tenantNumber, key)
	})
}

// EachNote calls fn with each tenant note whose key begins with prefix, in key order.
func (s *Store) EachNote(ctx context.Context, tenant, prefix string, fn func(key string, data []byte) error) error {
	type note struct {
		key  string
		data []byte
	}
	for after, more := prefix, true; more; {
		list, err := readTenant(ctx, s, tenant, func(c *conn, tenantNumber int64) (list []note) {
			for r := range c.query("SELECT key, data FROM notes WHERE tenant = ? AND key >= ? ORDER BY key LIMIT ?", tenantNumber, after, pageRows) {
				var v note
				r.scan(&v.key, &v.data)
				list = append(list, v)
			}
			return list
		})
		if err != nil {
			return err
		}
		for _, v := range list {
			if !strings.HasPrefix(v.key, prefix) {
				return nil
			}
			if err := fn(v.key, v.data); err != nil {
				return err
			}
			after = v.key + "\x00"
		}
		more = len(list) == pageRows
	}
	return nil
}

// WriteNotes writes session notes and tenant notes in one transaction. A note about a missing session is dropped, and a
// tenant note whose data is nil is deleted.
func (s *Store) WriteNotes(ctx context.Context, tenant string, sessionNotes map[session.ID][]byte, tenantNotes map[string][]byte) error {
	return s.update(ctx, "write notes", func(t *tx) {
		tenantNumber := t.findOrAddTenant(tenant)
		for id, data := range sessionNotes {
			t.db.exec("INSERT OR REPLACE INTO marks(sid, data) SELECT sid, ? FROM sessions WHERE id = ? AND tenant = ? AND data IS NOT NULL", notNull(data), id, tenantNumber)
		}
		for key, data := range tenantNotes {
			if data == nil {
				t.db.exec("DELETE FROM notes WHERE tenant = ? AND key = ?", tenantNumber, key)
			} else {
				t.db.exec("INSERT OR REPLACE INTO notes(tenant, key, data) VALUES(?, ?, ?)", tenantNumber, key, data)
			}
		}
	})
}

type lease struct {
	Owner string    `json:"owner"`
	Until time.Time `json:"until"`
}

// AcquireLease acquires or renews owner's lease on the work called name. owner must be unique among processes.
func (s *Store) AcquireLease(ctx context.Context, name, owner string, now time.Time, ttl time.Duration) (ok bool, err error) {
	key := "claim:" + name
	data, err := json.Marshal(lease{owner, now.Add(ttl)})
	if err != nil {
		return false, fmt.Errorf("sqlite: claim %s: %w", name, err)
	}
	err = s.update(ctx, "claim", func(t *tx) {
		var current lease
		_ = json.Unmarshal(t.db.queryBlob(selectMeta, key), &current) // a lease that does not decode has no owner
		// A lease that ends after now+ttl was written before the clock was set back, and is invalid.
		if ok = current.Owner == owner || !current.Until.After(now) || current.Until.After(now.Add(ttl)); ok {
			t.db.exec("INSERT OR REPLACE INTO meta(key, value) VALUES(?, ?)", key, data)
		}
	})
	return ok && err == nil, err
}

// ReleaseLease ends the lease if owner still holds it.
func (s *Store) ReleaseLease(ctx context.Context, name, owner string) error {
	return s.update(ctx, "unclaim", func(t *tx) {
		t.db.exec("DELETE FROM meta WHERE key = ? AND json_extract(value, '$.owner') = ?", "claim:"+name, owner)
	})
}

const selectMeta = "SELECT value FROM meta WHERE key = ?"

// Meta returns the value stored under a key by InitMeta.
func (s *Store) Meta(ctx context.Context, key string) (value []byte, ok bool, err error) {
	v, err := read(ctx, s, func(c *conn) []byte { return c.queryBlob(selectMeta, key) })
	return v, v != nil, err
}

// InitMeta stores value unless the key already has one, and returns the stored value. It is for values that must never
// change, such as the salt for random decisions.
func (s *Store) InitMeta(ctx context.Context, key string, value []byte) ([]byte, error) {
	stored, ok, err := s.Meta(ctx, key)
	if err != nil || ok {
		return stored, err
	}
	err = s.update(ctx, "init meta", func(t *tx) {
		t.db.exec("INSERT INTO meta(key, value) VALUES(?, ?) ON CONFLICT DO NOTHING", key, notNull(value))
		stored = t.db.queryBlob(selectMeta, key)
	})
	return stored, err
}
