package sqlite

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"precept/internal/sample"
	"precept/internal/session"
)

// A walk reads a page, releases the connection, and then calls fn. A slow reader of a long export
// thus holds no snapshot, behind which the WAL would grow without bound, and only one page in
// memory.
const (
	pageRows  = 256
	pageBytes = 1 << 20
	walkRows  = 8192 // rows that one step looks at, at most
)

// Exchanges lists the stored exchanges of a session by turn, then in the order of their arrival.
func (s *Store) Exchanges(ctx context.Context, tenant string, id session.ID) ([]sample.Exchange, error) {
	return readSession(ctx, s, tenant, id, func(c *conn, sid int64) (list []sample.Exchange) {
		// SQLite would copy every document through its sorter; the list is sorted here.
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

// scanSample reads sampleColumns and the columns after them into more, and returns the size of the
// sample in bytes.
func (s *Store) scanSample(c *conn, r row, m *session.StoredSample, more ...any) int {
	var data []byte
	r.scan(append([]any{&data, &m.Agent, &m.ID}, more...)...)
	doc := s.unpack(c, data)
	c.decode(doc, &m.Sample)
	return len(doc)
}

// EachSample calls fn for the samples of a tenant ("" for all) with since <= CreatedAt < until (a
// zero time does not bound), in the order of their first write. Samples that are written during the
// walk may be included. An error of fn ends the walk and is returned.
func (s *Store) EachSample(ctx context.Context, tenant string, since, until time.Time, fn func(session.StoredSample) error) error {
	return walk(ctx, s, span{tenant, since, until, "SELECT max(rid) FROM samples"}, `SELECT m.rid, `+sampleColumns+`, t.name FROM samples m
		JOIN sessions s ON s.sid = m.sid JOIN tenants t ON t.id = m.tenant
		WHERE m.rid > ?1 AND m.rid <= ?2 AND m.at >= ?3 AND m.at < ?4 AND (?5 = 0 OR m.tenant = ?5) ORDER BY m.rid LIMIT ?6`,
		func(c *conn, r row) (m session.StoredSample, bytes int) {
			bytes = s.scanSample(c, r, &m, &m.Tenant)
			return m, bytes
		}, fn)
}

// sampleStream is the name of the stream of all samples.
const sampleStream = "samples"

// SampleStreams returns the position of the newest sample, which a reader continues after. Positions
// grow with the order of the writes, also after deletions.
func (s *Store) SampleStreams(ctx context.Context) (map[string]string, error) {
	newest, err := read(ctx, s, func(c *conn) int64 { return c.integer("SELECT max(rid) FROM samples") })
	if err != nil || newest == 0 {
		return nil, err
	}
	return map[string]string{sampleStream: strconv.FormatInt(newest, 10)}, nil
}

// SamplesAfter returns the next samples behind a position ("": the beginning) up to the position
// until ("": the end), and the position of the last of them. An unchanged position is the end.
func (s *Store) SamplesAfter(ctx context.Context, stream, after, until string) (list []session.StoredSample, last string, err error) {
	from, end := int64(0), int64(math.MaxInt64)
	for _, at := range []struct {
		text string
		to   *int64
	}{{after, &from}, {until, &end}} {
		if at.text == "" {
			continue
		}
		if *at.to, err = strconv.ParseInt(at.text, 10, 64); err != nil || stream != sampleStream {
			return nil, "", fmt.Errorf("sqlite: samples of the stream %q after %q: %w", stream, after, session.ErrPlace)
		}
	}
	type result struct {
		list []session.StoredSample
		last int64
	}
	found, err := read(ctx, s, func(c *conn) (r result) {
		if ever := c.integer("SELECT n FROM totals WHERE name = ?", totalSamplesEver); from > ever && from > c.integer("SELECT max(rid) FROM samples") {
			c.fail(fmt.Errorf("%w: the position %d is behind all samples; the store was replaced", session.ErrPlace, from))
			return r
		}
		r.last = from
		r.list, _ = page(c, pageRows, func(c *conn, row row) (m session.StoredSample, bytes int) {
			bytes = s.scanSample(c, row, &m, &m.Tenant)
			return m, bytes
		}, []any{&r.last}, `SELECT m.rid, `+sampleColumns+`, t.name FROM samples m JOIN sessions s ON s.sid = m.sid JOIN tenants t ON t.id = m.tenant
			WHERE m.rid > ? AND m.rid <= ? ORDER BY m.rid LIMIT ?`, from, end, pageRows)
		return r
	})
	if found.last == from {
		return nil, after, err
	}
	return found.list, strconv.FormatInt(found.last, 10), err
}

// EachSession calls fn for the sessions in the same way, by their start, each with its settled
// state.
func (s *Store) EachSession(ctx context.Context, tenant string, since, until time.Time, fn func(session.Row, session.Applied) error) error {
	return walk(ctx, s, span{tenant, since, until, "SELECT max(sid) FROM sessions"}, `SELECT s.sid, t.name, `+rowColumns+`, `+appliedColumns+`
		FROM sessions s JOIN tenants t ON t.id = s.tenant LEFT JOIN settled a ON a.sid = s.sid
		WHERE s.sid > ?1 AND s.sid <= ?2 AND s.started >= ?3 AND s.started < ?4 AND (?5 = 0 OR s.tenant = ?5) AND s.data IS NOT NULL ORDER BY s.sid LIMIT ?6`,
		func(_ *conn, r row) (v session.Listed, bytes int) {
			r.scan(&v.Row.Tenant)
			bytes = scanListed(r.skip(1), &v)
			return v, bytes
		}, func(v session.Listed) error { return fn(v.Row, v.Applied) })
}

// scanListed reads rowColumns and appliedColumns, and returns their size in bytes.
func scanListed(r row, v *session.Listed) int {
	r.scan(append(rowDest(&v.Row), appliedDest(&v.Applied)...)...)
	return len(v.Row.Data) + len(v.Applied.Frozen)
}

// span is the range of a walk.
type span struct {
	tenant       string
	since, until time.Time
	last         string // query for the last row number of the table
}

// bounds returns the times of the span as they are stored.
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

// walk pages through a table by its row number, the first column of the query. The arguments of the
// query are the last row number, the highest row number of the step, the two times, the tenant and
// the limit. A step looks at no more than walkRows rows, even if the query returns few of them.
func walk[T any](ctx context.Context, s *Store, of span, query string, scan scanner[T], fn func(T) error) error {
	type step struct {
		list []T
		last int64 // row number
		more bool
	}
	from, to := of.bounds()
	for at := (step{more: true}); at.more; {
		last := at.last // a copy: a read that hangs in the disk may outlive this step
		next, err := read(ctx, s, func(c *conn) (next step) {
			n := int64(0)
			if of.tenant != "" {
				if n = s.tenant(c, of.tenant); n == 0 {
					return next
				}
			}
			window := last + walkRows
			end := c.integer(of.last)
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

// scanner reads a row and returns the item and its size in bytes.
type scanner[T any] func(c *conn, r row) (v T, bytes int)

// page reads rows until there are most of them, or pageBytes bytes, and reports whether the page
// ended there. place receives the first columns of each row.
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

// SampleSession returns the session of a sample.
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

// unpack reverses the compression of a document.
func (s *Store) unpack(c *conn, packed []byte) []byte {
	doc, err := s.packer.unpack(packed)
	c.fail(err)
	return doc
}

// decode parses a document.
func (c *conn) decode(doc []byte, to any) {
	if err := json.Unmarshal(doc, to); err != nil {
		c.fail(damaged(err))
	}
}

func damaged(err error) error {
	return fmt.Errorf("%w: %w: a document in it does not parse: %w", ErrCorrupt, session.ErrDamaged, err)
}

// place is the position after the last entry of a page: its time and its row number.
type place struct{ at, rid int64 }

func (p place) String() string {
	return strconv.FormatInt(p.at, 36) + "." + strconv.FormatInt(p.rid, 36)
}

// placeOf parses a place; "" is the start of the list.
func placeOf(text string) (p place, err error) {
	if text == "" {
		return place{math.MaxInt64, math.MaxInt64}, nil
	}
	at, rid, ok := strings.Cut(text, ".")
	if p.at, err = strconv.ParseInt(at, 36, 64); err == nil {
		p.rid, err = strconv.ParseInt(rid, 36, 64)
	}
	if !ok || err != nil {
		return p, fmt.Errorf("sqlite: %w", session.ErrPlace)
	}
	return p, nil
}

// Newest lists the sessions of a tenant by their start, the latest first. The index finds them: no
// more rows are read than the page has.
func (s *Store) Newest(ctx context.Context, tenant string, of session.Stretch) (session.Page[session.Listed], error) {
	return listed(ctx, s, tenant, of, `SELECT s.started, s.sid, `+rowColumns+`, `+appliedColumns+`
		FROM sessions s LEFT JOIN settled a ON a.sid = s.sid
		WHERE s.tenant = ? AND s.started >= ? AND s.started < ? AND (s.started, s.sid) < (?, ?) AND s.data IS NOT NULL
		ORDER BY s.started DESC, s.sid DESC LIMIT ?`,
		func(_ *conn, r row) (session.Listed, int) {
			v := session.Listed{Row: session.Row{Tenant: tenant}}
			bytes := scanListed(r, &v)
			return v, bytes
		})
}

// NewestSamples lists the samples of a tenant in the same way, by CreatedAt.
func (s *Store) NewestSamples(ctx context.Context, tenant string, of session.Stretch) (session.Page[session.StoredSample], error) {
	return listed(ctx, s, tenant, of, `SELECT m.at, m.rid, `+sampleColumns+` FROM samples m JOIN sessions s ON s.sid = m.sid
		WHERE m.tenant = ? AND m.at >= ? AND m.at < ? AND (m.at, m.rid) < (?, ?)
		ORDER BY m.at DESC, m.rid DESC LIMIT ?`,
		func(c *conn, r row) (session.StoredSample, int) {
			m := session.StoredSample{Tenant: tenant}
			bytes := s.scanSample(c, r, &m)
			return m, bytes
		})
}

// listed reads one page of a list. The arguments of the query are the tenant, the two times, the
// time and row number from which the page starts, and the limit; the first two columns are time and
// row number of an entry.
func listed[T any](ctx context.Context, s *Store, tenant string, of session.Stretch, query string, scan scanner[T]) (session.Page[T], error) {
	after, err := placeOf(of.After)
	if err != nil {
		return session.Page[T]{}, err
	}
	most := min(max(of.Most, 1), pageRows)
	return readOf(ctx, s, tenant, func(c *conn, n int64) (p session.Page[T]) {
		from, to := (&span{since: of.Since, until: of.Until}).bounds()
		var last place
		list, more := page(c, most, scan, []any{&last.at, &last.rid}, query, n, from, to, after.at, after.rid, most)
		if p.List = list; more {
			p.Next = last.String()
		}
		return p
	})
}
