package sqlite

import (
	"context"
	"database/sql/driver"

	"precept/trial"
)

// Raise sets each maximum of a tenant to the given value where that is greater. It can be repeated
// and reordered at will.
func (s *Store) Raise(ctx context.Context, tenant string, maxima []trial.Delta) error {
	if len(maxima) == 0 {
		return nil
	}
	return s.update(ctx, "raise", func(t *tx) error {
		n, err := t.tenant(tenant)
		if err != nil {
			return err
		}
		for _, m := range maxima {
			_, err := t.exec(`INSERT INTO maxima(tenant, scope, field, day, value) VALUES(?, ?, ?, ?, ?)
				ON CONFLICT DO UPDATE SET value = excluded.value WHERE excluded.value > value`,
				n, m.Scope, m.Field, int64(m.Day), m.Value)
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// Maxima lists what Raise has set, sorted by scope, field and day.
func (s *Store) Maxima(ctx context.Context, tenant string) ([]trial.Delta, error) {
	return readOf(ctx, s, tenant, func(c *conn, n int64) (list []trial.Delta, err error) {
		err = c.query("SELECT scope, field, day, value FROM maxima WHERE tenant = ? ORDER BY scope, field, day",
			func(row []driver.Value) error {
				k := trial.Key{Scope: text(row[0]), Field: text(row[1]), Day: int32(integer(row[2]))}
				list = append(list, trial.Delta{Key: k, Value: integer(row[3])})
				return ctx.Err()
			}, n)
		return list, err
	})
}

type versioned struct {
	version int64
	data    []byte
}

// Priors is what the replica that refits them published last; version 0 when none did.
func (s *Store) Priors(ctx context.Context, tenant string) (version int64, data []byte, err error) {
	v, err := readOf(ctx, s, tenant, func(c *conn, n int64) (v versioned, err error) {
		_, err = c.one("SELECT version, data FROM priors WHERE tenant = ?", func(row []driver.Value) error {
			v = versioned{integer(row[0]), blob(row[1])}
			return nil
		}, n)
		return v, err
	})
	return v.version, v.data, err
}

// PutPriors publishes priors as version from+1, if from is still the version in force.
func (s *Store) PutPriors(ctx context.Context, tenant string, from int64, data []byte) (ok bool, err error) {
	if data == nil {
		data = []byte{}
	}
	err = s.update(ctx, "put priors", func(t *tx) error {
		n, err := t.tenant(tenant)
		if err != nil {
			return err
		}
		version, err := t.number("SELECT version FROM priors WHERE tenant = ?", n)
		if ok = err == nil && version == from; !ok {
			return err
		}
		_, err = t.exec("INSERT OR REPLACE INTO priors(tenant, version, data) VALUES(?, ?, ?)", n, from+1, data)
		return err
	})
	return ok && err == nil, err
}

const metaByKey = "SELECT value FROM meta WHERE key = ?"

// Meta reads one of the program's own values.
func (s *Store) Meta(ctx context.Context, key string) (value []byte, ok bool, err error) {
	v, err := read(ctx, s, func(c *conn) ([]byte, error) { return c.value(metaByKey, key) })
	return v, v != nil, err
}

// InitMeta sets a value that all replicas must share (the coins' salt) unless one was faster, and
// returns what stands.
func (s *Store) InitMeta(ctx context.Context, key string, value []byte) ([]byte, error) {
	stands, ok, err := s.Meta(ctx, key)
	if err != nil || ok {
		return stands, err
	}
	err = s.update(ctx, "init meta", func(t *tx) error {
		if _, err := t.exec("INSERT INTO meta(key, value) VALUES(?, ?) ON CONFLICT DO NOTHING", key, append([]byte{}, value...)); err != nil {
			return err
		}
		stands, err = t.value(metaByKey, key)
		return err
	})
	return stands, err
}
