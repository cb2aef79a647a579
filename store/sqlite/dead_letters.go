package sqlite

import (
	"cmp"
	"context"
	"database/sql/driver"
	"encoding/json"
	"fmt"

	"precept/session"
)

// outExchange is what aside.out says of an exchange, which is not tried again.
const outExchange = 2

// SetAside marks sessions and exchanges at which a step panicked. A session is neither due nor
// unsettled from then on, until Readmit lets it in again or a settlement of it goes through.
func (s *Store) SetAside(ctx context.Context, list []session.DeadLetter) error {
	if len(list) == 0 {
		return nil
	}
	return s.update(ctx, "set aside", func(t *tx) error {
		for i := range list {
			if err := t.setAside(&list[i]); err != nil {
				return err
			}
		}
		return nil
	})
}

func (t *tx) setAside(a *session.DeadLetter) error {
	tenant, err := t.tenant(a.Tenant)
	if err != nil {
		return err
	}
	sid, err := t.sid(sessionKey{tenant, a.ID}, a.At)
	if err != nil {
		return err
	}
	doc, err := json.Marshal(a)
	if err != nil {
		return fmt.Errorf("%w: %w", session.ErrInvalid, err)
	}
	out := int64(1)
	if a.Exchange != "" {
		out = outExchange
	}
	_, err = t.exec(`INSERT INTO aside(k, sid, out, tries, at, data) VALUES(?, ?, ?, 1, ?, ?)
		ON CONFLICT(k) DO UPDATE SET out = excluded.out, tries = tries + 1, at = excluded.at, data = excluded.data`,
		key(fmt.Sprintf("%d/%s/%s", tenant, a.ID, a.Exchange)), sid, out, micros(a.At), doc)
	if err == nil && out != outExchange {
		_, err = t.exec("UPDATE sessions SET state = ? WHERE sid = ? AND state < ?", int64(stateAside), sid, int64(stateClosed))
	}
	return err
}

// Readmit lets those sessions be tried again that were set aside fewer times than most, and says
// how many they are.
func (s *Store) Readmit(ctx context.Context, most int) (n int, err error) {
	err = s.update(ctx, "readmit", func(t *tx) error {
		_, err := t.exec("UPDATE sessions SET state = ? WHERE state = ? AND sid IN (SELECT sid FROM aside WHERE out = 1 AND tries < ?)",
			int64(stateOpen), int64(stateAside), int64(most))
		if err != nil {
			return err
		}
		r, err := t.exec("UPDATE aside SET out = 0 WHERE out = 1 AND tries < ?", int64(most))
		if err != nil {
			return err
		}
		gone, err := r.RowsAffected()
		n = int(gone)
		return err
	})
	return n, err
}

// DeadLetters lists what is set aside, the latest first, at most limit of them, and says how many
// there are.
func (s *Store) DeadLetters(ctx context.Context, limit int) (list []session.DeadLetter, total int, err error) {
	type result struct {
		list  []session.DeadLetter
		total int64
	}
	r, err := read(ctx, s, func(c *conn) (r result, err error) {
		if r.total, err = c.number("SELECT count(*) FROM aside"); err != nil || r.total == 0 {
			return r, err
		}
		err = c.query(`SELECT t.name, s.id, a.tries, a.at, a.data FROM aside a JOIN sessions s USING(sid) JOIN tenants t ON t.id = s.tenant
			ORDER BY a.at DESC, a.k LIMIT ?`, func(row []driver.Value) error {
			var a session.DeadLetter
			err := decode(row[4], &a)
			a.Tenant, a.ID, a.Tries, a.At = text(row[0]), toID(blob(row[1])), int(integer(row[2])), fromMicros(integer(row[3]))
			r.list = append(r.list, a)
			return cmp.Or(err, ctx.Err())
		}, int64(limit))
		return r, err
	})
	return r.list, int(r.total), err
}

// Unsampled counts the exchanges that no sample knows although their session was settled, or will
// not be because it was set aside.
func (s *Store) Unsampled(ctx context.Context) (int64, error) {
	return read(ctx, s, func(c *conn) (n int64, err error) {
		late, err := c.number("SELECT sum(x) FROM unsettled u WHERE EXISTS (SELECT 1 FROM settled WHERE sid = u.sid)")
		if err != nil {
			return 0, err
		}
		out, err := c.number(`SELECT count(*) FROM exchanges WHERE sid IN
			(SELECT a.sid FROM aside a WHERE a.out = 1 AND NOT EXISTS (SELECT 1 FROM settled WHERE sid = a.sid))`)
		return late + out, err
	})
}
