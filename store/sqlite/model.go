package sqlite

import (
	"context"

	"precept/bandit/trial"
)

// Raise sets each maximum of a tenant to the given value where that is greater. It can be repeated
// and reordered at will.
func (s *Store) Raise(ctx context.Context, tenant string, maxima []trial.Delta) error {
	if len(maxima) == 0 {
		return nil
	}
	return s.update(ctx, "raise", func(t *tx) {
		n := t.tenant(tenant)
		for _, m := range maxima {
			t.db.exec(`INSERT INTO maxima(tenant, scope, field, day, value) VALUES(?, ?, ?, ?, ?)
				ON CONFLICT DO UPDATE SET value = excluded.value WHERE excluded.value > value`, n, m.Scope, m.Field, m.Day, m.Value)
		}
	})
}

// Maxima lists what Raise has set, sorted by scope, field and day.
func (s *Store) Maxima(ctx context.Context, tenant string) ([]trial.Delta, error) {
	return readOf(ctx, s, tenant, func(c *conn, n int64) (list []trial.Delta) {
		for r := range c.rows("SELECT scope, field, day, value FROM maxima WHERE tenant = ? ORDER BY scope, field, day", n) {
			var d trial.Delta
			r.scan(&d.Scope, &d.Field, &d.Day, &d.Value)
			list = append(list, d)
		}
		return list
	})
}

// Priors is what the replica that refits them published last; version 0 when none did.
func (s *Store) Priors(ctx context.Context, tenant string) (version int64, data []byte, err error) {
	type versioned struct {
		version int64
		data    []byte
	}
	v, err := readOf(ctx, s, tenant, func(c *conn, n int64) (v versioned) {
		c.row("SELECT version, data FROM priors WHERE tenant = ?", n).scan(&v.version, &v.data)
		return v
	})
	return v.version, v.data, err
}

// PutPriors publishes priors as version from+1, if from is still the version in force.
func (s *Store) PutPriors(ctx context.Context, tenant string, from int64, data []byte) (ok bool, err error) {
	err = s.update(ctx, "put priors", func(t *tx) {
		n := t.tenant(tenant)
		if ok = t.db.number("SELECT version FROM priors WHERE tenant = ?", n) == from; ok {
			t.db.exec("INSERT OR REPLACE INTO priors(tenant, version, data) VALUES(?, ?, ?)", n, from+1, notNull(data))
		}
	})
	return ok && err == nil, err
}

const metaByKey = "SELECT value FROM meta WHERE key = ?"

// Meta reads one of the program's own values.
func (s *Store) Meta(ctx context.Context, key string) (value []byte, ok bool, err error) {
	v, err := read(ctx, s, func(c *conn) []byte { return c.value(metaByKey, key) })
	return v, v != nil, err
}

// InitMeta sets a value that all replicas must share (the coins' salt) unless one was faster, and
// returns what stands.
func (s *Store) InitMeta(ctx context.Context, key string, value []byte) ([]byte, error) {
	stands, ok, err := s.Meta(ctx, key)
	if err != nil || ok {
		return stands, err
	}
	err = s.update(ctx, "init meta", func(t *tx) {
		t.db.exec("INSERT INTO meta(key, value) VALUES(?, ?) ON CONFLICT DO NOTHING", key, notNull(value))
		stands = t.db.value(metaByKey, key)
	})
	return stands, err
}
