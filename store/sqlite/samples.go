package sqlite

import (
	"cmp"
	"context"
	"database/sql/driver"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"time"

	"precept/sample"
	"precept/session"
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
	return readSession(ctx, s, tenant, id, func(c *conn, sid int64) (list []sample.Exchange, err error) {
		// Not ordered by SQLite: sorting would carry every document through its sorter.
		rids := map[string]int64{}
		err = c.query("SELECT rid, data, items FROM exchanges WHERE sid = ?", func(row []driver.Value) error {
			e, _, err := s.toExchange(row[1], row[2])
			if err != nil {
				return err
			}
			rids[e.ID] = integer(row[0])
			list = append(list, e)
			return ctx.Err()
		}, sid)
		slices.SortFunc(list, func(a, b sample.Exchange) int {
			return cmp.Or(cmp.Compare(a.Turn, b.Turn), cmp.Compare(rids[a.ID], rids[b.ID]))
		})
		return list, err
	})
}

// EachSample walks over the samples of a tenant ("" for all) with since <= CreatedAt < until (zero:
// no bound), in the order in which they were first written. What is written meanwhile may be seen.
// An error of fn ends the walk and is returned.
func (s *Store) EachSample(ctx context.Context, tenant string, since, until time.Time, fn func(session.StoredSample) error) error {
	return walk(ctx, s, span{tenant, since, until, "SELECT max(rid) FROM samples"}, `SELECT m.rid, m.data, m.agent, s.id, t.name FROM samples m
		JOIN sessions s ON s.sid = m.sid JOIN tenants t ON t.id = m.tenant
		WHERE m.rid > ? AND m.rid <= ? AND m.at >= ? AND m.at < ? AND (? = 0 OR m.tenant = ?) ORDER BY m.rid LIMIT ?`,
		func(row []driver.Value) (session.StoredSample, int, error) {
			m := session.StoredSample{Agent: text(row[2]), ID: toID(blob(row[3])), Tenant: text(row[4])}
			doc, err := s.packer.unpack(blob(row[1]))
			if err == nil {
				err = decode(doc, &m.Sample)
			}
			return m, len(doc), err
		}, fn)
}

// EachSession walks over the sessions likewise, by their start, each with what the counters hold
// for it.
func (s *Store) EachSession(ctx context.Context, tenant string, since, until time.Time, fn func(session.Row, session.Applied) error) error {
	type both struct {
		row     session.Row
		applied session.Applied
	}
	return walk(ctx, s, span{tenant, since, until, "SELECT max(sid) FROM sessions"}, `SELECT s.sid, `+rowColumns+`, t.name, a.version, a.told, a.reward, a.tier, a.frozen
		FROM sessions s JOIN tenants t ON t.id = s.tenant LEFT JOIN settled a ON a.sid = s.sid
		WHERE s.sid > ? AND s.sid <= ? AND s.started >= ? AND s.started < ? AND (? = 0 OR s.tenant = ?) AND s.data IS NOT NULL ORDER BY s.sid LIMIT ?`,
		func(row []driver.Value) (both, int, error) {
			return both{toRow(text(row[7]), row[1:]), toApplied(row[8:])}, len(blob(row[5])) + len(blob(row[12])), nil
		}, func(b both) error { return fn(b.row, b.applied) })
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
// takes the last row number, the highest one to look at, the two times, the tenant twice and the
// limit. However few rows the rest of the query lets through, no step of it looks at more than
// walkRows of them.
func walk[T any](ctx context.Context, s *Store, of span, query string, scan scanner[T], fn func(T) error) error {
	from, to := of.bounds()
	for last, more := int64(0), true; more; {
		p, err := read(ctx, s, func(c *conn) (p page[T], err error) {
			n := int64(0)
			if of.tenant != "" {
				if n, err = s.tenant(c, of.tenant); err != nil || n == 0 {
					return p, err
				}
			}
			end, err := c.number(of.last)
			if err != nil {
				return p, err
			}
			window := last + walkRows
			err = c.query(query, func(row []driver.Value) error {
				if err := p.add(row, scan); err != nil {
					return err
				}
				return ctx.Err()
			}, last, window, from, to, n, n, int64(pageRows))
			if !p.full { // all that is there
				p.last, p.full = window, window < end
			}
			return p, err
		})
		if err != nil {
			return err
		}
		for _, v := range p.rows {
			if err := fn(v); err != nil {
				return err
			}
		}
		last, more = p.last, p.full
	}
	return nil
}

// scanner reads a row and says how many bytes it weighs.
type scanner[T any] func(row []driver.Value) (v T, bytes int, err error)

type page[T any] struct {
	rows  []T
	bytes int
	last  int64 // row number
	full  bool
}

func (p *page[T]) add(row []driver.Value, scan scanner[T]) error {
	v, bytes, err := scan(row)
	if err != nil {
		return err
	}
	p.rows, p.bytes, p.last = append(p.rows, v), p.bytes+bytes, integer(row[0])
	if p.full = p.bytes >= pageBytes || len(p.rows) == pageRows; p.full {
		return errStop
	}
	return nil
}

// SampleSession finds the session that a sample belongs to.
func (s *Store) SampleSession(ctx context.Context, tenant, sampleID string) (session.ID, bool, error) {
	ids, err := readOf(ctx, s, tenant, func(c *conn, n int64) (ids []session.ID, err error) {
		err = c.query("SELECT s.id FROM samples m JOIN sessions s ON s.sid = m.sid WHERE m.k = ? AND m.tenant = ? ORDER BY m.rid LIMIT 1",
			func(row []driver.Value) error {
				ids = append(ids, toID(blob(row[0])))
				return nil
			}, key(sampleID), n)
		return ids, err
	})
	if err != nil || len(ids) == 0 {
		return session.ID{}, false, err
	}
	return ids[0], true, nil
}

// toExchange reads an exchange's columns, and says how many bytes they hold.
func (s *Store) toExchange(data, items driver.Value) (e sample.Exchange, size int, err error) {
	var enc sample.Encoded
	if enc.Data, err = s.packer.unpack(blob(data)); err == nil {
		enc.Items, err = s.packer.unpack(blob(items))
	}
	if err != nil {
		return e, 0, err
	}
	if e, err = enc.Decode(); err != nil {
		return e, 0, fmt.Errorf("%w: a document in it does not parse: %w", ErrCorrupt, err)
	}
	return e, len(enc.Data) + len(enc.Items), nil
}

func decode(v driver.Value, to any) error {
	if err := json.Unmarshal(blob(v), to); err != nil {
		return fmt.Errorf("%w: a document in it does not parse: %w", ErrCorrupt, err)
	}
	return nil
}
