package sqlite

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"

	"precept/bandit/trial"
)

// A counter row holds all fields of one scope and day: field name and zigzag varint, sorted by
// name, zeros left out. Sums are done here and not in SQL, which would turn a sum that overflows
// into a float.

type cell struct {
	field string
	value int64
}

type rowKey struct {
	tenant int64
	scope  string
	day    int32
}

// sums gathers the deltas of a whole batch, so that each counter row is read and written once.
type sums struct {
	rows map[rowKey]*[]cell
	last *[]cell // deltas of one scope and day come together
	at   rowKey
}

func (s *sums) add(tenant int64, deltas []trial.Delta) {
	for _, d := range deltas {
		k := rowKey{tenant, d.Scope, d.Day}
		if s.last == nil || s.at != k {
			s.at, s.last = k, s.rows[k]
			if s.last == nil {
				s.last = new([]cell)
				s.rows[k] = s.last
			}
		}
		*s.last = addCell(*s.last, cell{d.Field, d.Value})
	}
}

// addCell keeps the cells sorted. They are few, so that moving them costs less than a map.
func addCell(cells []cell, c cell) []cell {
	i, found := slices.BinarySearchFunc(cells, c.field, func(c cell, f string) int { return cmp.Compare(c.field, f) })
	if found {
		cells[i].value += c.value
		return cells
	}
	return slices.Insert(cells, i, c)
}

// store adds the sums to the tables, in key order for the sake of the B-tree.
func (s *sums) store(t *tx) {
	keys := slices.SortedFunc(maps.Keys(s.rows), func(a, b rowKey) int {
		return cmp.Or(cmp.Compare(a.tenant, b.tenant), cmp.Compare(a.scope, b.scope), cmp.Compare(a.day, b.day))
	})
	for _, k := range keys {
		t.addRow(k, *s.rows[k])
	}
}

func (t *tx) addRow(k rowKey, cells []cell) {
	old := t.db.value("SELECT v FROM counters WHERE tenant = ? AND scope = ? AND day = ?", k.tenant, k.scope, k.day)
	t.db.cells(k.scope, old, func(c cell) { cells = addCell(cells, c) })
	v := packCells(cells)
	switch {
	case old != nil && len(v) == 0: // an undone session leaves nothing behind
		t.db.exec("DELETE FROM counters WHERE tenant = ? AND scope = ? AND day = ?", k.tenant, k.scope, k.day)
	case old != nil:
		t.db.exec("UPDATE counters SET v = ? WHERE tenant = ? AND scope = ? AND day = ?", v, k.tenant, k.scope, k.day)
	case len(v) > 0:
		t.db.exec("INSERT INTO counters(tenant, scope, day, v) VALUES(?, ?, ?, ?)", k.tenant, k.scope, k.day, v)
	}
}

// cells reads a row of counters.
func (c *conn) cells(scope string, v []byte, fn func(cell)) {
	if err := eachCell(v, fn); err != nil {
		c.fail(fmt.Errorf("counters of %q: %w", scope, err))
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
			return fmt.Errorf("%w: a counter row is cut", ErrCorrupt)
		}
		field := string(b[w : w+int(n)])
		b = b[w+int(n):]
		v, w := binary.Varint(b)
		if w <= 0 {
			return fmt.Errorf("%w: a counter row is cut", ErrCorrupt)
		}
		b = b[w:]
		fn(cell{field, v})
	}
	return nil
}

// Counters lists a tenant's counters, sorted by scope, field and day; counters that are zero are
// left out.
func (s *Store) Counters(ctx context.Context, tenant string) ([]trial.Delta, error) {
	return readOf(ctx, s, tenant, func(c *conn, n int64) (list []trial.Delta) {
		names := map[string]string{} // a few dozen names stand in every row
		for r := range c.rows("SELECT scope, day, v FROM counters WHERE tenant = ? ORDER BY scope, day", n) {
			var k trial.Key
			var v []byte
			r.scan(&k.Scope, &k.Day, &v)
			c.cells(k.Scope, v, func(of cell) {
				name, ok := names[of.field]
				if !ok {
					name = of.field
					names[name] = name
				}
				k.Field = name
				list = append(list, trial.Delta{Key: k, Value: of.value})
			})
		}
		slices.SortFunc(list, trial.Compare)
		return list
	})
}
