package sqlite

import (
	"context"
	"encoding/json"
	"fmt"

	"precept/internal/session"
)

// outExchange is what aside.out says of an exchange, which is not tried again.
const outExchange = 2

// SetAside marks sessions and exchanges at which a step panicked. A session is neither due nor
// unsettled from then on, until Readmit lets it in again or a settlement of it goes through.
func (s *Store) SetAside(ctx context.Context, list []session.DeadLetter) error {
	if len(list) == 0 {
		return nil
	}
	return s.update(ctx, "set aside", func(t *tx) {
		for i := range list {
			t.setAside(&list[i])
		}
	})
}

func (t *tx) setAside(a *session.DeadLetter) {
	doc, err := json.Marshal(a)
	if err != nil {
		t.db.fail(fmt.Errorf("%w: %w", session.ErrInvalid, err))
	}
	tenant := t.tenant(a.Tenant)
	sid := t.named(sessionKey{tenant, a.ID}, a.At).sid
	out := 1
	if a.Exchange != "" {
		out = outExchange
	}
	t.db.exec(`INSERT INTO aside(k, sid, out, tries, at, data) VALUES(?, ?, ?, 1, ?, ?)
		ON CONFLICT(k) DO UPDATE SET out = excluded.out, tries = tries + 1, at = excluded.at, data = excluded.data`,
		key(fmt.Sprintf("%d/%s/%s", tenant, a.ID, a.Exchange)), sid, out, a.At, doc)
	if out != outExchange {
		t.db.exec("UPDATE sessions SET state = ? WHERE sid = ? AND state < ?", stateAside, sid, stateClosed)
	}
}

// Readmit lets those sessions be tried again that were set aside fewer times than most, and says
// how many they are.
func (s *Store) Readmit(ctx context.Context, most int) (n int, err error) {
	err = s.update(ctx, "readmit", func(t *tx) {
		t.db.exec("UPDATE sessions SET state = ? WHERE state = ? AND sid IN (SELECT sid FROM aside WHERE out = 1 AND tries < ?)", stateOpen, stateAside, most)
		n = int(t.db.exec("UPDATE aside SET out = 0 WHERE out = 1 AND tries < ?", most))
	})
	return n, err
}

// DeadLetters lists what is set aside, the latest first, at most limit of them, and says how many
// there are.
func (s *Store) DeadLetters(ctx context.Context, limit int) (list []session.DeadLetter, total int, err error) {
	type result struct {
		list  []session.DeadLetter
		total int
	}
	r, err := read(ctx, s, func(c *conn) (of result) {
		of.total = int(c.number("SELECT count(*) FROM aside"))
		for r := range c.rows(`SELECT a.data, t.name, s.id, a.tries, a.at FROM aside a JOIN sessions s USING(sid) JOIN tenants t ON t.id = s.tenant
			ORDER BY a.at DESC, a.k LIMIT ?`, limit) {
			var a session.DeadLetter
			var doc []byte
			r.scan(&doc)
			c.decode(doc, &a)
			r.skip(1).scan(&a.Tenant, &a.ID, &a.Tries, &a.At)
			of.list = append(of.list, a)
		}
		return of
	})
	return r.list, r.total, err
}

// Unsampled counts the exchanges that no sample knows although their session was settled, or will
// not be because it was set aside.
func (s *Store) Unsampled(ctx context.Context) (int64, error) {
	return read(ctx, s, func(c *conn) int64 {
		late := c.number("SELECT sum(x) FROM unsettled u WHERE EXISTS (SELECT 1 FROM settled WHERE sid = u.sid)")
		return late + c.number(`SELECT count(*) FROM exchanges WHERE sid IN
			(SELECT a.sid FROM aside a WHERE a.out = 1 AND NOT EXISTS (SELECT 1 FROM settled WHERE sid = a.sid))`)
	})
}
