package sqlite

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"sync"
	"time"

	"precept/internal/session"
)

const (
	stateWithoutData int64 = 0 // an exchange, an echo or feedback has arrived before the session's data
	stateOpen        int64 = 1
	stateClosed      int64 = 2
	stateAside       int64 = 3 // open, and set aside after a panic; not due
)

type sessionKey struct {
	tenant int64
	id     session.ID
}

const rowColumns = "s.started, s.seen, s.state = 2, s.id, s.data, s.standin"

func rowPointers(r *session.Row) []any {
	return []any{&r.Started, &r.Seen, &r.Closed, &r.ID, &r.Data, &r.StartedOffline}
}

// Session returns a session's row, if it exists.
func (s *Store) Session(ctx context.Context, tenant string, id session.ID) (session.Row, bool, error) {
	type result struct {
		row   session.Row
		found bool
	}
	r, err := readTenant(ctx, s, tenant, func(c *conn, tenantNumber int64) (r result) {
		r.row.Tenant = tenant
		r.found = c.queryRow("SELECT "+rowColumns+" FROM sessions s WHERE id = ? AND tenant = ? AND data IS NOT NULL", id, tenantNumber).scan(rowPointers(&r.row)...)
		return r
	})
	if !r.found {
		return session.Row{}, false, err
	}
	return r.row, true, err
}

// DueSessions returns at most limit open sessions that started before the given time, oldest first (ties by id, then
// tenant). It continues after the previous call's last row; the zero Row means the start. Row.Unrated reports that no
// feedback exists, so most sessions close without another read.
func (s *Store) DueSessions(ctx context.Context, startedBefore time.Time, after session.Row, limit int) ([]session.Row, error) {
	return read(ctx, s, func(c *conn) (list []session.Row) {
		for r := range c.query(`SELECT `+rowColumns+`, t.name, (SELECT count(*) FROM exchanges e WHERE e.sid = s.sid),
				NOT EXISTS (SELECT 1 FROM feedback f WHERE f.sid = s.sid) AND NOT EXISTS (SELECT 1 FROM unsettled u WHERE u.sid = s.sid)
			FROM sessions s JOIN tenants t ON t.id = s.tenant
			WHERE s.state = 1 AND s.started >= ?1 AND s.started < ?2 AND (s.started, s.id, t.name) > (?1, ?3, ?4)
			ORDER BY s.started, s.id, t.name LIMIT ?5`, after.Started, startedBefore, after.ID, after.Tenant, limit) {
			var v session.Row
			r.scan(append(rowPointers(&v), &v.Tenant, &v.Exchanges, &v.Unrated)...)
			list = append(list, v)
		}
		return list
	})
}

type txSession struct {
	sid          int64
	state        int64
	settled      bool // valid only if settledKnown is true
	settledKnown bool
}

// findOrAdd returns a session. It adds a missing session, without data.
func (t *tx) findOrAdd(k sessionKey, started time.Time) *txSession {
	if n, ok := t.sessions[k]; ok {
		return n
	}
	n := &txSession{}
	if !t.db.queryRow("SELECT sid, state FROM sessions WHERE id = ? AND tenant = ?", k.id, k.tenant).scan(&n.sid, &n.state) {
		n.sid = t.db.insert("INSERT INTO sessions(tenant, started, seen, state, id) VALUES(?1, ?2, ?2, ?3, ?4)", k.tenant, started, stateWithoutData, k.id)
	}
	t.sessions[k] = n
	return n
}

func (t *tx) find(k sessionKey) int64 {
	if n, ok := t.sessions[k]; ok {
		return n.sid
	}
	return t.db.sessionNumber(k.tenant, k.id)
}

func (c *conn) sessionNumber(tenant int64, id session.ID) int64 {
	return c.queryInt("SELECT sid FROM sessions WHERE id = ? AND tenant = ?", id, tenant)
}

// readSession runs fn in a read, with a session's number. For an unknown session it returns the zero value.
func readSession[T any](ctx context.Context, s *Store, tenant string, id session.ID, fn func(c *conn, sid int64) T) (T, error) {
	return readTenant(ctx, s, tenant, func(c *conn, tenantNumber int64) (v T) {
		if sid := c.sessionNumber(tenantNumber, id); sid != 0 {
			v = fn(c, sid)
		}
		return v
	})
}

// putRow writes a session's row, unless the stored row has a newer Seen. If a session began while the store did not
// answer (StartedOffline), its row replaces only another such row, and every other row replaces it. A closed session
// stays closed.
func (t *tx) putRow(r session.Row) {
	tenant := t.findOrAddTenant(r.Tenant)
	started, seen, data := micros(r.Started), micros(r.Seen), notNull(r.Data) // NULL would mean a missing row
	state := stateOpen
	if r.Closed {
		state = stateClosed
	}
	var old struct {
		sid, started, seen, state int64
		hasRow, startedOffline    bool
	}
	found := t.db.queryRow("SELECT sid, started, seen, state, data IS NOT NULL, standin FROM sessions WHERE id = ? AND tenant = ?", r.ID, tenant).
		scan(&old.sid, &old.started, &old.seen, &old.state, &old.hasRow, &old.startedOffline)
	if !old.hasRow {
		t.totals[totalSessions]++
	}
	if !found {
		old.sid = t.db.insert("INSERT INTO sessions(tenant, started, seen, state, id, data, standin) VALUES(?, ?, ?, ?, ?, ?, ?)",
			tenant, started, seen, state, r.ID, data, r.StartedOffline)
	}
	state = max(state, old.state)
	t.sessions[sessionKey{tenant, r.ID}] = &txSession{sid: old.sid, state: state}
	stale := seen < old.seen
	if r.StartedOffline != old.startedOffline {
		stale = r.StartedOffline
	}
	switch {
	case !found:
	case old.hasRow && stale:
		if state != old.state {
			t.db.exec("UPDATE sessions SET state = ? WHERE sid = ?", state, old.sid)
		}
	case state == old.state && started == old.started && r.StartedOffline == old.startedOffline: // no index changes
		t.db.exec("UPDATE sessions SET seen = ?, data = ? WHERE sid = ?", seen, data, old.sid)
	default:
		t.db.exec("UPDATE sessions SET started = ?, seen = ?, state = ?, data = ?, standin = ? WHERE sid = ?", started, seen, state, data, r.StartedOffline, old.sid)
	}
}

// maxCachedTenants limits tenantNames. With by-credential tenancy, every client key is a tenant.
const maxCachedTenants = 4096

// tenantNames caches stored tenants' numbers by name. Tenants are never deleted.
type tenantNames struct {
	mu      sync.RWMutex
	numbers map[string]int64
}

func (n *tenantNames) get(name string) (int64, bool) {
	n.mu.RLock()
	defer n.mu.RUnlock()
	id, ok := n.numbers[name]
	return id, ok
}

func (n *tenantNames) add(m map[string]int64) {
	if len(m) == 0 {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.numbers == nil || len(n.numbers)+len(m) > maxCachedTenants {
		n.numbers = map[string]int64{}
	}
	maps.Copy(n.numbers, m)
}

const selectTenant = "SELECT id FROM tenants WHERE name = ?"

func (s *Store) tenantNumber(c *conn, name string) int64 {
	if id, ok := s.tenants.get(name); ok {
		return id
	}
	id := c.queryInt(selectTenant, name)
	if id != 0 {
		s.tenants.add(map[string]int64{name: id})
	}
	return id
}

// readTenant runs fn in a read, with a tenant's number. For an unknown tenant it returns the zero value.
func readTenant[T any](ctx context.Context, s *Store, tenant string, fn func(c *conn, tenantNumber int64) T) (T, error) {
	return read(ctx, s, func(c *conn) (v T) {
		if tenantNumber := s.tenantNumber(c, tenant); tenantNumber != 0 {
			v = fn(c, tenantNumber)
		}
		return v
	})
}

// findOrAddTenant returns a tenant's number, and adds a missing tenant. The number is cached after the commit, because
// after a rollback a different tenant could get the number.
func (t *tx) findOrAddTenant(name string) int64 {
	id, ok := t.tenants[name]
	if ok {
		return id
	}
	if id = t.tenantNumber(name); id == 0 {
		id = t.db.insert("INSERT INTO tenants(name) VALUES(?)", name)
	}
	t.tenants[name] = id
	return id
}

func (t *tx) tenantNumber(name string) int64 {
	if id, ok := t.store.tenants.get(name); ok {
		return id
	}
	return t.db.queryInt(selectTenant, name)
}

// Tenants returns all tenants that have or had stored data, in byte order.
func (s *Store) Tenants(ctx context.Context) ([]string, error) {
	return read(ctx, s, func(c *conn) (names []string) {
		for r := range c.query("SELECT name FROM tenants ORDER BY name") {
			var name string
			r.scan(&name)
			names = append(names, name)
		}
		return names
	})
}

// hashKey returns a text id's key, which is the first 64 bits of the id's SHA-256. Clients cannot cause equal keys for
// exchanges and samples, because precept creates these ids. For feedback, onlyEntry compares the ids.
func hashKey(id string) int64 {
	sum := sha256.Sum256([]byte(id))
	return int64(binary.BigEndian.Uint64(sum[:8]))
}

// echoKey returns an echo's key in the table. k is a hash of the tenant and the text; the tenant number separates
// tenants with equal hashes.
func echoKey(tenant int64, k session.EchoKey) int64 {
	return int64(mix(uint64(k) ^ mix(uint64(tenant))))
}

// mix is the splitmix64 finaliser, a bijection.
func mix(z uint64) uint64 {
	z += 0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// asideExchange is the value for an exchange in the aside.out column. Readmit ignores exchanges, because the failed
// step is not repeated for an exchange.
const asideExchange = 2

// SetAside records sessions and exchanges at which a step panicked. DueSessions and UnsettledSessions leave out such a
// session until Readmit or a settlement.
func (s *Store) SetAside(ctx context.Context, list []session.DeadLetter) error {
	if len(list) == 0 {
		return nil
	}
	return s.update(ctx, "store a panic mark", func(t *tx) {
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
	tenant := t.findOrAddTenant(a.Tenant)
	sid := t.findOrAdd(sessionKey{tenant, a.ID}, a.At).sid
	out := 1
	if a.Exchange != "" {
		out = asideExchange
	}
	t.db.exec(`INSERT INTO aside(k, sid, out, tries, at, data) VALUES(?, ?, ?, 1, ?, ?)
		ON CONFLICT(k) DO UPDATE SET out = excluded.out, tries = tries + 1, at = excluded.at, data = excluded.data`,
		hashKey(fmt.Sprintf("%d/%s/%s", tenant, a.ID, a.Exchange)), sid, out, a.At, doc)
	if out != asideExchange {
		t.db.exec("UPDATE sessions SET state = ? WHERE sid = ? AND state < ?", stateAside, sid, stateClosed)
	}
}

// Readmit makes the sessions due again that were set aside fewer than maxTries times, and returns their number.
func (s *Store) Readmit(ctx context.Context, maxTries int) (n int, err error) {
	err = s.update(ctx, "readmit", func(t *tx) {
		t.db.exec("UPDATE sessions SET state = ? WHERE state = ? AND sid IN (SELECT sid FROM aside WHERE out = 1 AND tries < ?)", stateOpen, stateAside, maxTries)
		n = int(t.db.exec("UPDATE aside SET out = 0 WHERE out = 1 AND tries < ?", maxTries))
	})
	return n, err
}

// DeadLetters returns at most limit sessions and exchanges that were set aside, latest first, and the total number.
func (s *Store) DeadLetters(ctx context.Context, limit int) (list []session.DeadLetter, total int, err error) {
	type result struct {
		list  []session.DeadLetter
		total int
	}
	r, err := read(ctx, s, func(c *conn) (res result) {
		res.total = int(c.queryInt("SELECT count(*) FROM aside"))
		for r := range c.query(`SELECT a.data, t.name, s.id, a.tries, a.at FROM aside a JOIN sessions s USING(sid) JOIN tenants t ON t.id = s.tenant
			ORDER BY a.at DESC, a.k LIMIT ?`, limit) {
			var a session.DeadLetter
			var doc []byte
			r.scan(&doc)
			c.decode(doc, &a)
			r.skip(1).scan(&a.Tenant, &a.ID, &a.Tries, &a.At)
			res.list = append(res.list, a)
		}
		return res
	})
	return r.list, r.total, err
}

// CountUnsampled returns the number of exchanges that have no sample, either because they arrived after the settlement,
// or because the session is set aside.
func (s *Store) CountUnsampled(ctx context.Context) (int64, error) {
	return read(ctx, s, func(c *conn) int64 {
		late := c.queryInt("SELECT sum(x) FROM unsettled u WHERE EXISTS (SELECT 1 FROM settled WHERE sid = u.sid)")
		return late + c.queryInt(`SELECT count(*) FROM exchanges WHERE sid IN
			(SELECT a.sid FROM aside a WHERE a.out = 1 AND NOT EXISTS (SELECT 1 FROM settled WHERE sid = a.sid))`)
	})
}
