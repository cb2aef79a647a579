package sqlite

import (
	"context"

	"precept/internal/session"
)

const appliedColumns = "version, told, reward, tier, frozen"

// appliedDest is where appliedColumns are read into; all of them are NULL for a session that was
// never settled.
func appliedDest(a *session.Applied) []any {
	return []any{&a.Version, &a.Told, &a.Reward, &a.Tier, &a.Frozen}
}

// Applied is what the counters hold for a session; the zero Applied when it was never settled.
func (s *Store) Applied(ctx context.Context, tenant string, id session.ID) (session.Applied, error) {
	return readSession(ctx, s, tenant, id, func(c *conn, sid int64) (a session.Applied) {
		c.row("SELECT "+appliedColumns+" FROM settled WHERE sid = ?", sid).scan(appliedDest(&a)...)
		return a
	})
}

// Settle takes each step whose session still has version From: its deltas go into the counters and
// To becomes its Applied, with version From+1. A step from 0 also closes the session. It says which
// steps were taken; for the others, read Applied and compute anew. The steps are one transaction
// and are taken in order, so that one batch may hold several steps of a session.
//
// When it returns an error nothing was settled, except that a context that ends during the commit
// leaves it open: the versions make it safe to try again.
//
// A step that is taken ends what Unsettled says of its session, unless feedback has come that it
// had not heard.
func (s *Store) Settle(ctx context.Context, steps []session.Settlement) ([]bool, error) {
	taken := make([]bool, len(steps))
	err := s.update(ctx, "settle", func(t *tx) {
		sum := sums{rows: map[rowKey]*[]cell{}}
		for i, step := range steps {
			tenant := t.tenant(step.Tenant)
			if taken[i] = t.step(tenant, step); taken[i] {
				sum.add(tenant, step.Deltas)
			}
		}
		sum.store(t)
	})
	if err != nil {
		return nil, err
	}
	return taken, nil
}

// step stores one step's Applied, if the version is still the one it was computed from.
func (t *tx) step(tenant int64, step session.Settlement) bool {
	sid := t.named(sessionKey{tenant, step.ID}, fromMicros(0)).sid
	if t.db.number("SELECT version FROM settled WHERE sid = ?", sid) != step.From {
		return false
	}
	to := step.To
	t.db.exec("INSERT OR REPLACE INTO settled(sid, "+appliedColumns+") VALUES(?, ?, ?, ?, ?, ?)",
		sid, step.From+1, to.Told, to.Reward, to.Tier, notNull(to.Frozen))
	if step.From == 0 {
		t.db.exec("UPDATE sessions SET state = ?1 WHERE sid = ?2 AND state <> ?1", stateClosed, sid)
	}
	t.db.exec("DELETE FROM aside WHERE sid = ? AND out < ?", sid, outExchange) // it went well this time
	t.db.exec("DELETE FROM unsettled WHERE sid = ? AND n = ?", sid, step.Heard)
	return true
}
