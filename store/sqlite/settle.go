package sqlite

import (
	"context"
	"database/sql/driver"
	"math"

	"precept/session"
)

const appliedColumns = "version, told, reward, tier, frozen"

// toApplied reads appliedColumns; all of them are NULL for a session that was never settled.
func toApplied(row []driver.Value) session.Applied {
	return session.Applied{
		Version: integer(row[0]), Told: integer(row[1]) != 0,
		Reward: math.Float64frombits(uint64(integer(row[2]))),
		Tier:   int(integer(row[3])), Frozen: blob(row[4]),
	}
}

// Applied is what the counters hold for a session; the zero Applied when it was never settled.
func (s *Store) Applied(ctx context.Context, tenant string, id session.ID) (session.Applied, error) {
	return readSession(ctx, s, tenant, id, func(c *conn, sid int64) (a session.Applied, err error) {
		return applied(c, sid)
	})
}

func applied(c *conn, sid int64) (a session.Applied, err error) {
	_, err = c.one("SELECT "+appliedColumns+" FROM settled WHERE sid = ?", func(row []driver.Value) error {
		a = toApplied(row)
		return nil
	}, sid)
	return a, err
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
	err := s.update(ctx, "settle", func(t *tx) error {
		sum := sums{rows: map[rowKey]*[]cell{}}
		for i, step := range steps {
			tenant, err := t.tenant(step.Tenant)
			if err != nil {
				return err
			}
			if taken[i], err = t.step(tenant, step); err != nil {
				return err
			}
			if taken[i] {
				sum.add(tenant, step.Deltas)
			}
		}
		return sum.store(t)
	})
	if err != nil {
		return nil, err
	}
	return taken, nil
}

// step stores one step's Applied, if the version is still the one it was computed from.
func (t *tx) step(tenant int64, step session.Settlement) (bool, error) {
	sid, err := t.sid(sessionKey{tenant, step.ID}, fromMicros(0))
	if err != nil {
		return false, err
	}
	version, err := t.number("SELECT version FROM settled WHERE sid = ?", sid)
	if err != nil || version != step.From {
		return false, err
	}
	to, told := step.To, int64(0)
	if to.Told {
		told = 1
	}
	frozen := to.Frozen
	if frozen == nil {
		frozen = []byte{}
	}
	_, err = t.exec("INSERT OR REPLACE INTO settled(sid, "+appliedColumns+") VALUES(?, ?, ?, ?, ?, ?)",
		sid, step.From+1, told, int64(math.Float64bits(to.Reward)), int64(to.Tier), frozen)
	if err == nil && step.From == 0 {
		_, err = t.exec("UPDATE sessions SET state = ? WHERE sid = ? AND state <> ?", int64(stateClosed), sid, int64(stateClosed))
	}
	if err == nil { // it went well this time
		_, err = t.exec("DELETE FROM aside WHERE sid = ? AND out < ?", sid, int64(outExchange))
	}
	if err == nil {
		_, err = t.exec("DELETE FROM unsettled WHERE sid = ? AND n = ?", sid, step.Heard)
	}
	return err == nil, err
}
