package sqlite

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"

	"precept/bandit/trial"
	"precept/internal/session"
)

// settledColumns are the columns for a session.SettledState. The told column stores the Rewarded field.
const settledColumns = "version, told, reward, tier, frozen"

// settledPointers returns pointers to the variables for settledColumns. The columns are NULL for a session that was
// never settled.
func settledPointers(a *session.SettledState) []any {
	return []any{&a.Version, &a.Rewarded, &a.Reward, &a.Tier, &a.AssignmentAtClose}
}

// SettledState returns a session's state after the last settlement. The zero value means that the session was never
// settled.
func (s *Store) SettledState(ctx context.Context, tenant string, id session.ID) (session.SettledState, error) {
	return readSession(ctx, s, tenant, id, func(c *conn, sid int64) (a session.SettledState) {
		c.queryRow("SELECT "+settledColumns+" FROM settled WHERE sid = ?", sid).scan(settledPointers(&a)...)
		return a
	})
}

// Settle applies settlements; each one counts a session's reward. A settlement is applied only if the stored state has
// version From: Settle then adds the deltas to the counters, and stores To with version From+1. A settlement with From
// 0 also closes the session. If a settlement is not applied, the caller reads SettledState and computes the settlement
// again. All settlements run in one transaction, in order.
//
// After an error no settlement was applied, unless the context ended during the commit. The versions make a retry safe.
// An applied settlement removes the session from UnsettledSessions, unless new feedback has arrived in the meantime.
func (s *Store) Settle(ctx context.Context, steps []session.Settlement) ([]bool, error) {
	applied := make([]bool, len(steps))
	err := s.update(ctx, "settle", func(t *tx) {
		sum := sums{rows: map[counterRowKey]*[]cell{}}
		for i, step := range steps {
			tenant := t.findOrAddTenant(step.Tenant)
			if applied[i] = t.settle(tenant, step); applied[i] {
				sum.add(tenant, step.Deltas)
			}
		}
		sum.writeAll(t)
	})
	if err != nil {
		return nil, err
	}
	return applied, nil
}

// settle stores a step's settled state. It returns false, and does nothing, if the session has a different version.
func (t *tx) settle(tenant int64, step session.Settlement) bool {
	sid := t.findOrAdd(sessionKey{tenant, step.ID}, fromMicros(0)).sid
	if t.db.queryInt("SELECT version FROM settled WHERE sid = ?", sid) != step.From {
		return false
	}
	state := step.To
	t.db.exec("INSERT OR REPLACE INTO settled(sid, "+settledColumns+") VALUES(?, ?, ?, ?, ?, ?)",
		sid, step.From+1, state.Rewarded, state.Reward, state.Tier, notNull(state.AssignmentAtClose))
	if step.From == 0 {
		t.db.exec("UPDATE sessions SET state = ?1 WHERE sid = ?2 AND state <> ?1", stateClosed, sid)
	}
	t.db.exec("DELETE FROM aside WHERE sid = ? AND out < ?", sid, asideExchange) // a settled session is not set aside
	t.db.exec("DELETE FROM unsettled WHERE sid = ? AND n = ?", sid, step.FeedbackState)
	return true
}

// cell is one non-zero counter. A counter row holds all cells for one scope (such as a lesson's arm) and one day,
// sorted by field. A cell is encoded as the field name and a zigzag varint. Go adds the values, because an overflowing
// sum in SQL becomes a float.
type cell struct {
	field string
	value int64
}

type counterRowKey struct {
	tenant int64
	scope  string
	day    int32
}

// sums adds up a batch's deltas, so that each counter row is read and written only once.
type sums struct {
	rows map[counterRowKey]*[]cell
	// lastCells holds the cells in the last delta's row. The next delta often belongs to the same row.
	lastCells *[]cell
	lastKey   counterRowKey
}

func (s *sums) add(tenant int64, deltas []trial.Delta) {
	for _, d := range deltas {
		k := counterRowKey{tenant, d.Key.Scope, d.Key.Day}
		if s.lastCells == nil || s.lastKey != k {
			s.lastKey, s.lastCells = k, s.rows[k]
			if s.lastCells == nil {
				s.lastCells = new([]cell)
				s.rows[k] = s.lastCells
			}
		}
		*s.lastCells = addCell(*s.lastCells, cell{d.Key.Field, d.Value})
	}
}

func addCell(cells []cell, c cell) []cell {
	i, found := slices.BinarySearchFunc(cells, c.field, func(c cell, f string) int { return cmp.Compare(c.field, f) })
	if found {
		cells[i].value += c.value
		return cells
	}
	return slices.Insert(cells, i, c)
}

// writeAll adds the sums to the table in key order, the order in the B-tree.
func (s *sums) writeAll(t *tx) {
	keys := slices.SortedFunc(maps.Keys(s.rows), func(a, b counterRowKey) int {
		return cmp.Or(cmp.Compare(a.tenant, b.tenant), cmp.Compare(a.scope, b.scope), cmp.Compare(a.day, b.day))
	})
	for _, k := range keys {
		t.addToCounterRow(k, *s.rows[k])
	}
}

func (t *tx) addToCounterRow(k counterRowKey, cells []cell) {
	old := t.db.queryBlob("SELECT v FROM counters WHERE tenant = ? AND scope = ? AND day = ?", k.tenant, k.scope, k.day)
	t.db.decodeCells(k.scope, old, func(c cell) { cells = addCell(cells, c) })
	v := packCells(cells)
	switch {
	case old != nil && len(v) == 0: // all sums are zero again
		t.db.exec("DELETE FROM counters WHERE tenant = ? AND scope = ? AND day = ?", k.tenant, k.scope, k.day)
	case old != nil:
		t.db.exec("UPDATE counters SET v = ? WHERE tenant = ? AND scope = ? AND day = ?", v, k.tenant, k.scope, k.day)
	case len(v) > 0:
		t.db.exec("INSERT INTO counters(tenant, scope, day, v) VALUES(?, ?, ?, ?)", k.tenant, k.scope, k.day, v)
	}
}

func (c *conn) decodeCells(scope string, v []byte, fn func(cell)) {
	if err := eachCell(v, fn); err != nil {
		c.fail(fmt.Errorf("counters for %q: %w", scope, err))
	}
}

func packCells(cells []cell) []byte {
	b := make([]byte, 0, 12*len(cells))
	for _, c := range cells {
		if c.value == 0 {
			continue
		}
		b = binary.AppendUvarint(b, uint64(len(c.field)))
		b = append(b, c.field...)
		b = binary.AppendVarint(b, c.value)
	}
	return b
}

func eachCell(b []byte, fn func(cell)) error {
	for len(b) > 0 {
		n, w := binary.Uvarint(b)
		if w <= 0 || n > uint64(len(b)-w) {
			return fmt.Errorf("%w: a counter row is truncated", ErrCorrupt)
		}
		field := string(b[w : w+int(n)])
		b = b[w+int(n):]
		v, w := binary.Varint(b)
		if w <= 0 {
			return fmt.Errorf("%w: a counter row is truncated", ErrCorrupt)
		}
		b = b[w:]
		fn(cell{field, v})
	}
	return nil
}

// Counters returns a tenant's non-zero counters, sorted by scope, field and day.
func (s *Store) Counters(ctx context.Context, tenant string) ([]trial.Delta, error) {
	return readTenant(ctx, s, tenant, func(c *conn, tenantNumber int64) (list []trial.Delta) {
		names := map[string]string{} // all rows share a few dozen field names, so each name is kept once
		for r := range c.query("SELECT scope, day, v FROM counters WHERE tenant = ? ORDER BY scope, day", tenantNumber) {
			var k trial.Key
			var v []byte
			r.scan(&k.Scope, &k.Day, &v)
			c.decodeCells(k.Scope, v, func(stored cell) {
				name, ok := names[stored.field]
				if !ok {
					name = stored.field
					names[name] = name
				}
				k.Field = name
				list = append(list, trial.Delta{Key: k, Value: stored.value})
			})
		}
		slices.SortFunc(list, trial.Compare)
		return list
	})
}

// RaiseMaxima raises a tenant's stored maxima to the given values, where these are greater. Repeated and reordered
// calls have the same result.
func (s *Store) RaiseMaxima(ctx context.Context, tenant string, maxima []trial.Delta) error {
	if len(maxima) == 0 {
		return nil
	}
	return s.update(ctx, "store maxima", func(t *tx) {
		tenantNumber := t.findOrAddTenant(tenant)
		for _, m := range maxima {
			t.db.exec(`INSERT INTO maxima(tenant, scope, field, day, value) VALUES(?, ?, ?, ?, ?)
				ON CONFLICT DO UPDATE SET value = excluded.value WHERE excluded.value > value`, tenantNumber, m.Key.Scope, m.Key.Field, m.Key.Day, m.Value)
		}
	})
}

// Maxima returns a tenant's maxima, sorted by scope, field and day.
func (s *Store) Maxima(ctx context.Context, tenant string) ([]trial.Delta, error) {
	return readTenant(ctx, s, tenant, func(c *conn, tenantNumber int64) (list []trial.Delta) {
		for r := range c.query("SELECT scope, field, day, value FROM maxima WHERE tenant = ? ORDER BY scope, field, day", tenantNumber) {
			var d trial.Delta
			r.scan(&d.Key.Scope, &d.Key.Field, &d.Key.Day, &d.Value)
			list = append(list, d)
		}
		return list
	})
}

// Priors returns a tenant's newest priors (the chooser's start values for new lessons) and their version. Version 0
// means none.
func (s *Store) Priors(ctx context.Context, tenant string) (version int64, data []byte, err error) {
	type versioned struct {
		version int64
		data    []byte
	}
	v, err := readTenant(ctx, s, tenant, func(c *conn, tenantNumber int64) (v versioned) {
		c.queryRow("SELECT version, data FROM priors WHERE tenant = ?", tenantNumber).scan(&v.version, &v.data)
		return v
	})
	return v.version, v.data, err
}

// PutPriors stores priors as version from+1 if from is the current version.
func (s *Store) PutPriors(ctx context.Context, tenant string, from int64, data []byte) (ok bool, err error) {
	err = s.update(ctx, "put priors", func(t *tx) {
		tenantNumber := t.findOrAddTenant(tenant)
		if ok = t.db.queryInt("SELECT version FROM priors WHERE tenant = ?", tenantNumber) == from; ok {
			t.db.exec("INSERT OR REPLACE INTO priors(tenant, version, data) VALUES(?, ?, ?)", tenantNumber, from+1, notNull(data))
		}
	})
	return ok && err == nil, err
}
