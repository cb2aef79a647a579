package sqlite

import (
	"context"
	"database/sql/driver"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"precept/session"
)

// Mark reads what was noted of a session, nil when nothing was.
func (s *Store) Mark(ctx context.Context, tenant string, id session.ID) ([]byte, error) {
	return readSession(ctx, s, tenant, id, func(c *conn, sid int64) ([]byte, error) {
		return c.value("SELECT data FROM marks WHERE sid = ?", sid)
	})
}

// Note reads a note of a tenant, nil when there is none.
func (s *Store) Note(ctx context.Context, tenant, key string) ([]byte, error) {
	return readOf(ctx, s, tenant, func(c *conn, n int64) ([]byte, error) {
		return c.value("SELECT data FROM notes WHERE tenant = ? AND key = ?", n, key)
	})
}

// EachNote hands over the tenant's notes whose keys begin with prefix, by key.
func (s *Store) EachNote(ctx context.Context, tenant, prefix string, fn func(key string, data []byte) error) error {
	type note struct {
		key  string
		data []byte
	}
	for after, more := prefix, true; more; {
		list, err := readOf(ctx, s, tenant, func(c *conn, n int64) (list []note, err error) {
			err = c.query("SELECT key, data FROM notes WHERE tenant = ? AND key >= ? ORDER BY key LIMIT ?", func(row []driver.Value) error {
				list = append(list, note{text(row[0]), blob(row[1])})
				return ctx.Err()
			}, n, after, int64(pageRows))
			return list, err
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

// Jot writes notes of sessions and of the tenant, in one step. Nothing is noted of a session that
// is not there (any more); a note of the tenant without data is deleted.
func (s *Store) Jot(ctx context.Context, tenant string, marks map[session.ID][]byte, notes map[string][]byte) error {
	return s.update(ctx, "jot", func(t *tx) error {
		n, err := t.tenant(tenant)
		if err != nil {
			return err
		}
		for id, data := range marks {
			if _, err := t.exec("INSERT OR REPLACE INTO marks(sid, data) SELECT sid, ? FROM sessions WHERE id = ? AND tenant = ? AND data IS NOT NULL",
				append([]byte{}, data...), id[:], n); err != nil {
				return err
			}
		}
		for _, key := range slices.Sorted(maps.Keys(notes)) {
			if data := notes[key]; data == nil {
				_, err = t.exec("DELETE FROM notes WHERE tenant = ? AND key = ?", n, key)
			} else {
				_, err = t.exec("INSERT OR REPLACE INTO notes(tenant, key, data) VALUES(?, ?, ?)", n, key, data)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// claim is who works at something, and until when.
type claim struct {
	Owner string    `json:"owner"`
	Until time.Time `json:"until"`
}

// Claim takes the right to work at something for a time, or makes it last longer for the owner who
// has it. It is false while somebody else has it. owner is unique among processes.
func (s *Store) Claim(ctx context.Context, name, owner string, now time.Time, ttl time.Duration) (ok bool, err error) {
	key := "claim:" + name
	err = s.update(ctx, "claim", func(t *tx) error {
		var held claim
		_, err := t.one("SELECT value FROM meta WHERE key = ?", func(row []driver.Value) error {
			_ = json.Unmarshal(blob(row[0]), &held) // what cannot be read is nobody's
			return nil
		}, key)
		if ok = err == nil && (held.Owner == owner || !held.Until.After(now)); !ok {
			return err
		}
		data, err := json.Marshal(claim{owner, now.Add(ttl)})
		if err != nil {
			return fmt.Errorf("claim %s: %w", name, err)
		}
		_, err = t.exec("INSERT OR REPLACE INTO meta(key, value) VALUES(?, ?)", key, data)
		return err
	})
	return ok && err == nil, err
}

// Unclaim gives the right back, if the owner still has it.
func (s *Store) Unclaim(ctx context.Context, name, owner string) error {
	return s.update(ctx, "unclaim", func(t *tx) error {
		_, err := t.exec("DELETE FROM meta WHERE key = ? AND json_extract(value, '$.owner') = ?", "claim:"+name, owner)
		return err
	})
}
