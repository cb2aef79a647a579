package sqlite

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"time"

	"precept/internal/sample"
	"precept/internal/session"
)

// A walk reads this much at a time and gives the connection back before it calls fn: a slow reader
// of a long export then neither holds a snapshot, behind which the WAL would grow without bound,
// nor more than this in memory.
const (
	pageRows  = 256
	pageBytes = 1 << 20
	walkRows  = 8192 // are looked at in one step at most
)

// Exchanges lists what is kept of a session, by turn, then as it came in.
func (s *Store) Exchanges(ctx context.Context, tenant string, id session.ID) ([]sample.Exchange, error) {
	return readSession(ctx, s, tenant, id, func(c *conn, sid int64) (list []sample.Exchange) {
		// Not ordered by SQLite: sorting would carry every document through its sorter.
		rids := map[string]int64{}
		for r := range c.rows("SELECT rid, data, items FROM exchanges WHERE sid = ?", sid) {
			var rid int64
			var enc sample.Encoded
			r.scan(&rid, &enc.Data, &enc.Items)
			enc.Data, enc.Items = s.unpack(c, enc.Data), s.unpack(c, enc.Items)
			e, err := enc.Decode()
			if err != nil {
				c.fail(damaged(err))
			}
			rids[e.ID] = rid
			list = append(list, e)
		}
		slices.SortFunc(list, func(a, b sample.Exchange) int {
			return cmp.Or(cmp.Compare(a.Turn, b.Turn), cmp.Compare(rids[a.ID], rids[b.ID]))
		})
		return list
	})
}

const sampleColumns = "m.data, m.agent, s.id"

// scanSample reads sampleColumns, and what stands behind them. It says how many bytes the sample
// weighs.
func (s *Store) scanSample(c *conn, r row, m *session.StoredSample, more ...any) int {
	var data []byte
	r.scan(append([]any{&data, &m.Agent, &m.ID}, more...)...)
	doc := s.unpack(c, data)
	c.decode(doc, &m.Sample)
	return len(doc)
}

// EachSample walks over the samples of a tenant ("" for all) with since <= CreatedAt < until (zero:
// no bound), in the order in which they were first written. What is written meanwhile may be seen.
// An error of fn ends the walk and is returned.
func (s *Store) EachSample(ctx context.Context, tenant string, since, until time.Time, fn func(session.StoredSample) error) error {
	return walk(ctx, s, span{tenant, since, until, "SELECT max(rid) FROM samples"}, `SELECT m.rid, `+sampleColumns+`, t.name FROM samples m
		JOIN sessions s ON s.sid = m.sid JOIN tenants t ON t.id = m.tenant
		WHERE m.rid > ?1 AND m.rid <= ?2 AND m.at >= ?3 AND m.at < ?4 AND (?5 = 0 OR m.tenant = ?5) ORDER BY m.rid LIMIT ?6`,
		func(c *conn, r row) (m session.StoredSample, bytes int) {
			bytes = s.scanSample(c, r, &m, &m.Tenant)
			return m, bytes
		}, fn)
}

// EachSession walks over the sessions likewise, by their start, each with what the counters hold
// for it.
func (s *Store) EachSession(ctx context.Context, tenant string, since, until time.Time, fn func(session.Row, session.Applied) error) error {
	return walk(ctx, s, span{tenant, since, until, "SELECT max(sid) FROM sessions"}, `SELECT s.sid, t.name, `+rowColumns+`, `+appliedColumns+`
		FROM sessions s JOIN tenants t ON t.id = s.tenant LEFT JOIN settled a ON a.sid = s.sid
		WHERE s.sid > ?1 AND s.sid <= ?2 AND s.started >= ?3 AND s.started < ?4 AND (?5 = 0 OR s.tenant = ?5) AND s.data IS NOT NULL ORDER BY s.sid LIMIT ?6`,
		func(_ *conn, r row) (v session.Listed, bytes int) {
			r.scan(&v.Tenant)
			bytes = scanListed(r.skip(1), &v)
			return v, bytes
		}, func(v session.Listed) error { return fn(v.Row, v.Applied) })
}

// scanListed reads rowColumns and appliedColumns, and says how many bytes they weigh.
func scanListed(r row, v *session.Listed) int {
	r.scan(append(rowDest(&v.Row), appliedDest(&v.Applied)...)...)
	return len(v.Row.Data) + len(v.Applied.Frozen)
}

// span says over what a walk goes, and how to find its end.
type span struct {
	tenant       string
	since, until time.Time
	last         string // the query for the table's last row number
}

// bounds are the span's times as they are kept.
func (p *span) bounds() (from, to int64) {
	from, to = math.MinInt64, math.MaxInt64
	if !p.since.IsZero() {
		from = micros(p.since)
	}
	if !p.until.IsZero() {
		to = micros(p.until)
	}
	return from, to
}

// walk pages through a table by its row number, which is the first column of the query. The query
// takes the last row number, the highest one to look at, the two times, the tenant and the limit.
// However few rows the rest of the query lets through, no step of it looks at more than walkRows of
// them.
func walk[T any](ctx context.Context, s *Store, of span, query string, scan scanner[T], fn func(T) error) error {
	type step struct {
		list []T
		last int64 // row number
		more bool
	}
	from, to := of.bounds()
	for at := (step{more: true}); at.more; {
		last := at.last // a read that nobody waits for any more goes on with what it was given
		next, err := read(ctx, s, func(c *conn) (next step) {
			n := int64(0)
			if of.tenant != "" {
				if n = s.tenant(c, of.tenant); n == 0 {
					return next
				}
			}
			window := last + walkRows
			end := c.number(of.last)
			list, more := page(c, pageRows, scan, []any{&next.last}, query, last, window, from, to, n, pageRows)
			if more {
				return step{list, next.last, true}
			}
			return step{list, window, window < end}
		})
		if err != nil {
			return err
		}
		for _, v := range next.list {
			if err := fn(v); err != nil {
				return err
			}
		}
		at = next
	}
	return nil
}

// scanner reads a row and says how many bytes it weighs.
type scanner[T any] func(c *conn, r row) (v T, bytes int)

// page reads rows until there are most of them, or they weigh pageBytes, and reports whether it
// stopped there. The first columns of the query are read into place.
func page[T any](c *conn, most int, scan scanner[T], place []any, query string, args ...any) (list []T, more bool) {
	size := 0
	for r := range c.rows(query, args...) {
		r.scan(place...)
		v, bytes := scan(c, r.skip(len(place)))
		list = append(list, v)
		if size += bytes; len(list) == most || size >= pageBytes {
			return list, true
		}
	}
	return list, false
}

// SampleSession finds the session that a sample belongs to.
func (s *Store) SampleSession(ctx context.Context, tenant, sampleID string) (session.ID, bool, error) {
	type result struct {
		id    session.ID
		found bool
	}
	of, err := readOf(ctx, s, tenant, func(c *conn, n int64) (of result) {
		of.found = c.row("SELECT s.id FROM samples m JOIN sessions s ON s.sid = m.sid WHERE m.k = ? AND m.tenant = ? ORDER BY m.rid LIMIT 1",
			key(sampleID), n).scan(&of.id)
		return of
	})
	return of.id, of.found, err
}

// unpack undoes what pack did to a document.
func (s *Store) unpack(c *conn, packed []byte) []byte {
	doc, err := s.packer.unpack(packed)
	c.fail(err)
	return doc
}

// decode reads a document.
func (c *conn) decode(doc []byte, to any) {
	if err := json.Unmarshal(doc, to); err != nil {
		c.fail(damaged(err))
	}
}

func damaged(err error) error {
	return fmt.Errorf("%w: a document in it does not parse: %w", ErrCorrupt, err)
}
