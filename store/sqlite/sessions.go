package sqlite

import (
	"context"
	"time"

	"precept/internal/session"
)

// The states of a session's row.
const (
	stateNamed  int64 = 0 // something refers to it, its row was not written yet
	stateOpen   int64 = 1
	stateClosed int64 = 2
	stateAside  int64 = 3 // open, and not looked at
)

type sessionKey struct {
	tenant int64
	id     session.ID
}

const rowColumns = "s.started, s.seen, s.state = 2, s.id, s.data, s.standin"

// rowDest is where rowColumns are read into.
func rowDest(r *session.Row) []any {
	return []any{&r.Started, &r.Seen, &r.Closed, &r.ID, &r.Data, &r.StandIn}
}

// Session finds one session's row.
func (s *Store) Session(ctx context.Context, tenant string, id session.ID) (session.Row, bool, error) {
	type result struct {
		row   session.Row
		found bool
	}
	of, err := readOf(ctx, s, tenant, func(c *conn, n int64) (of result) {
		of.row.Tenant = tenant
		of.found = c.row("SELECT "+rowColumns+" FROM sessions s WHERE id = ? AND tenant = ? AND data IS NOT NULL", id, n).scan(rowDest(&of.row)...)
		return of
	})
	if !of.found {
		return session.Row{}, false, err
	}
	return of.row, true, err
}

// Due lists open sessions that started before the given time, oldest first (ties by id, then
// tenant), at most limit of them, beginning behind after: the last row of the previous call, or the
// zero Row. Sessions that could not be settled thus do not stand in the way of the others.
func (s *Store) Due(ctx context.Context, startedBefore time.Time, after session.Row, limit int) ([]session.Row, error) {
	return read(ctx, s, func(c *conn) (list []session.Row) {
		for r := range c.rows(`SELECT `+rowColumns+`, t.name FROM sessions s JOIN tenants t ON t.id = s.tenant
			WHERE s.state = 1 AND s.started >= ?1 AND s.started < ?2 AND (s.started, s.id, t.name) > (?1, ?3, ?4)
			ORDER BY s.started, s.id, t.name LIMIT ?5`, after.Started, startedBefore, after.ID, after.Tenant, limit) {
			var v session.Row
			r.scan(append(rowDest(&v), &v.Tenant)...)
			list = append(list, v)
		}
		return list
	})
}

// named is a session as a transaction knows it.
type named struct {
	sid     int64
	state   int64
	settled bool // it was settled; known of closed ones once an exchange asked
	asked   bool
}

// named finds or names a session: what comes before its row finds its place already. at is when it
// was heard of.
func (t *tx) named(k sessionKey, at time.Time) *named {
	if n, ok := t.sids[k]; ok {
		return n
	}
	n := &named{}
	if !t.db.row("SELECT sid, state FROM sessions WHERE id = ? AND tenant = ?", k.id, k.tenant).scan(&n.sid, &n.state) {
		n.sid = t.db.insert("INSERT INTO sessions(tenant, started, seen, state, id) VALUES(?1, ?2, ?2, ?3, ?4)", k.tenant, at, stateNamed, k.id)
	}
	t.sids[k] = n
	return n
}

// session finds a session's number; 0 is one that was never heard of.
func (c *conn) session(tenant int64, id session.ID) int64 {
	return c.number("SELECT sid FROM sessions WHERE id = ? AND tenant = ?", id, tenant)
}

// readSession is read for what hangs on a session; one that was never heard of has nothing.
func readSession[T any](ctx context.Context, s *Store, tenant string, id session.ID, fn func(c *conn, sid int64) T) (T, error) {
	return readOf(ctx, s, tenant, func(c *conn, n int64) (v T) {
		if sid := c.session(n, id); sid != 0 {
			v = fn(c, sid)
		}
		return v
	})
}

// put writes a session's row over an older one. The newer Seen wins, so that a late or repeated
// batch does not take the session back, and a stand-in never wins against another one; Closed is
// only ever set.
func (t *tx) put(r session.Row) {
	tenant := t.tenant(r.Tenant)
	started, seen, data := micros(r.Started), micros(r.Seen), notNull(r.Data) // NULL is a session without a row
	state := stateOpen
	if r.Closed {
		state = stateClosed
	}
	var old struct {
		sid, started, seen, state int64
		has, standIn              bool
	}
	found := t.db.row("SELECT sid, started, seen, state, data IS NOT NULL, standin FROM sessions WHERE id = ? AND tenant = ?", r.ID, tenant).
		scan(&old.sid, &old.started, &old.seen, &old.state, &old.has, &old.standIn)
	if !old.has {
		t.totals[totalSessions]++
	}
	if !found {
		old.sid = t.db.insert("INSERT INTO sessions(tenant, started, seen, state, id, data, standin) VALUES(?, ?, ?, ?, ?, ?, ?)",
			tenant, started, seen, state, r.ID, data, r.StandIn)
	}
	state = max(state, old.state)
	t.sids[sessionKey{tenant, r.ID}] = &named{sid: old.sid, state: state}
	yields := seen < old.seen
	if r.StandIn != old.standIn {
		yields = r.StandIn
	}
	switch {
	case !found:
	case old.has && yields:
		if state != old.state {
			t.db.exec("UPDATE sessions SET state = ? WHERE sid = ?", state, old.sid)
		}
	case state == old.state && started == old.started && r.StandIn == old.standIn: // no index has to be changed
		t.db.exec("UPDATE sessions SET seen = ?, data = ? WHERE sid = ?", seen, data, old.sid)
	default:
		t.db.exec("UPDATE sessions SET started = ?, seen = ?, state = ?, data = ?, standin = ? WHERE sid = ?", started, seen, state, data, r.StandIn, old.sid)
	}
}
