package sqlite

import (
	"context"
	"database/sql/driver"
	"time"

	"precept/session"
)

// The states of a session's row.
const (
	stateNamed  = 0 // something refers to it, its row was not written yet
	stateOpen   = 1
	stateClosed = 2
	stateAside  = 3 // open, and not looked at
)

type sessionKey struct {
	tenant int64
	id     session.ID
}

const rowColumns = "s.started, s.seen, s.state, s.id, s.data, s.standin"

func toRow(tenant string, row []driver.Value) session.Row {
	return session.Row{
		Tenant: tenant, Started: fromMicros(integer(row[0])), Seen: fromMicros(integer(row[1])),
		Closed: integer(row[2]) == stateClosed, ID: toID(blob(row[3])), Data: blob(row[4]),
		StandIn: integer(row[5]) != 0,
	}
}

// Session finds one session's row.
func (s *Store) Session(ctx context.Context, tenant string, id session.ID) (session.Row, bool, error) {
	if !s.bloom.may(id) {
		return session.Row{}, false, ctx.Err()
	}
	rows, err := readOf(ctx, s, tenant, func(c *conn, n int64) (rows []session.Row, err error) {
		err = c.query("SELECT "+rowColumns+" FROM sessions s WHERE id = ? AND tenant = ? AND data IS NOT NULL",
			func(row []driver.Value) error {
				rows = append(rows, toRow(tenant, row))
				return nil
			}, id[:], n)
		return rows, err
	})
	if err != nil || len(rows) == 0 {
		return session.Row{}, false, err
	}
	return rows[0], true, nil
}

// Due lists open sessions that started before the given time, oldest first (ties by id, then
// tenant), at most limit of them, beginning behind after: the last row of the previous call, or the
// zero Row. Sessions that could not be settled thus do not stand in the way of the others.
func (s *Store) Due(ctx context.Context, startedBefore time.Time, after session.Row, limit int) ([]session.Row, error) {
	return read(ctx, s, func(c *conn) (rows []session.Row, err error) {
		from := micros(after.Started)
		err = c.query(`SELECT `+rowColumns+`, t.name FROM sessions s JOIN tenants t ON t.id = s.tenant
			WHERE s.state = 1 AND s.started >= ? AND s.started < ? AND (s.started, s.id, t.name) > (?, ?, ?)
			ORDER BY s.started, s.id, t.name LIMIT ?`,
			func(row []driver.Value) error {
				rows = append(rows, toRow(text(row[6]), row))
				return ctx.Err()
			}, from, micros(startedBefore), from, after.ID[:], after.Tenant, int64(limit))
		return rows, err
	})
}

// named is a session as a transaction knows it.
type named struct {
	sid     int64
	state   int64
	settled bool // it was settled; known of closed ones once an exchange asked
	asked   bool
}

// sid finds or names a session: what comes before its row finds its place already. at is when it
// was heard of.
func (t *tx) sid(k sessionKey, at time.Time) (int64, error) {
	n, err := t.named(k, at)
	if err != nil {
		return 0, err
	}
	return n.sid, nil
}

func (t *tx) named(k sessionKey, at time.Time) (*named, error) {
	if n, ok := t.sids[k]; ok {
		return n, nil
	}
	n := &named{}
	found, err := t.one("SELECT sid, state FROM sessions WHERE id = ? AND tenant = ?", func(row []driver.Value) error {
		n.sid, n.state = integer(row[0]), integer(row[1])
		return nil
	}, k.id[:], k.tenant)
	if err == nil && !found {
		var r driver.Result
		r, err = t.exec("INSERT INTO sessions(tenant, started, seen, state, id) VALUES(?, ?, ?, ?, ?)",
			k.tenant, micros(at), micros(at), int64(stateNamed), k.id[:])
		if err == nil {
			n.sid, err = r.LastInsertId()
		}
	}
	if err != nil {
		return nil, err
	}
	t.sids[k] = n
	return n, nil
}

// readSession is read for what hangs on a session; one that was never heard of has nothing.
func readSession[T any](ctx context.Context, s *Store, tenant string, id session.ID, fn func(c *conn, sid int64) (T, error)) (T, error) {
	return readOf(ctx, s, tenant, func(c *conn, n int64) (v T, err error) {
		sid, err := c.number("SELECT sid FROM sessions WHERE id = ? AND tenant = ?", id[:], n)
		if err != nil || sid == 0 {
			return v, err
		}
		return fn(c, sid)
	})
}

// flags are how a row's flags are kept.
func flags(r *session.Row) (state, standIn int64) {
	state = stateOpen
	if r.Closed {
		state = stateClosed
	}
	if r.StandIn {
		standIn = 1
	}
	return state, standIn
}

// put writes a session's row over an older one. The newer Seen wins, so that a late or repeated
// batch does not take the session back, and a stand-in never wins against another one; Closed is
// only ever set.
func (t *tx) put(r session.Row) error {
	tenant, err := t.tenant(r.Tenant)
	if err != nil {
		return err
	}
	data := r.Data
	if data == nil {
		data = []byte{} // NULL is a session without a row
	}
	t.s.bloom.add(r.ID)
	k := sessionKey{tenant, r.ID}
	started, seen := micros(r.Started), micros(r.Seen)
	state, standIn := flags(&r)
	var old struct {
		sid, started, seen, state, standIn int64
		empty                              bool
	}
	found, err := t.one("SELECT sid, started, seen, state, data IS NULL, standin FROM sessions WHERE id = ? AND tenant = ?",
		func(row []driver.Value) error {
			old.sid, old.started, old.seen, old.state = integer(row[0]), integer(row[1]), integer(row[2]), integer(row[3])
			old.empty, old.standIn = integer(row[4]) != 0, integer(row[5])
			return nil
		}, r.ID[:], tenant)
	if err != nil {
		return err
	}
	if !found {
		res, err := t.exec("INSERT INTO sessions(tenant, started, seen, state, id, data, standin) VALUES(?, ?, ?, ?, ?, ?, ?)",
			tenant, started, seen, state, r.ID[:], data, standIn)
		if err != nil {
			return err
		}
		t.totals[totalSessions]++
		sid, err := res.LastInsertId()
		t.sids[k] = &named{sid: sid, state: state}
		return err
	}
	state = max(state, old.state)
	t.sids[k] = &named{sid: old.sid, state: state}
	if old.empty {
		t.totals[totalSessions]++
	}
	yields := seen < old.seen
	if standIn != old.standIn {
		yields = standIn == 1
	}
	switch {
	case !old.empty && yields:
		if state != old.state {
			_, err = t.exec("UPDATE sessions SET state = ? WHERE sid = ?", state, old.sid)
		}
	case state == old.state && started == old.started && standIn == old.standIn:
		_, err = t.exec("UPDATE sessions SET seen = ?, data = ? WHERE sid = ?", seen, data, old.sid)
	default:
		_, err = t.exec("UPDATE sessions SET started = ?, seen = ?, state = ?, data = ?, standin = ? WHERE sid = ?", started, seen, state, data, standIn, old.sid)
	}
	return err
}
