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

// A walk releases the connection before it calls a function with a page of rows. A database snapshot held during a slow
// export would prevent checkpoints, and the WAL would grow without limit.
const (
	pageRows  = 256     // rows per page
	pageBytes = 1 << 20 // document bytes at which a page ends
	walkRows  = 8192    // rows examined per walk step
)

// Exchanges returns a session's stored exchanges, ordered by turn, then by arrival.
func (s *Store) Exchanges(ctx context.Context, tenant string, id session.ID) ([]sample.Exchange, error) {
	return readSession(ctx, s, tenant, id, func(c *conn, sid int64) (list []sample.Exchange) {
		// No ORDER BY: SQLite would copy every document to sort the rows.
		rids := map[string]int64{}
		for r := range c.query("SELECT rid, data, items FROM exchanges WHERE sid = ?", sid) {
			var rid int64
			var enc sample.Encoded
			r.scan(&rid, &enc.Data, &enc.Items)
			enc.Data, enc.Items = s.unpack(c, enc.Data), s.unpack(c, enc.Items)
			e, err := enc.Decode()
			if err != nil {
				c.fail(wrapDamaged(err))
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

// scanSample reads sampleColumns into m and the columns after them into dest, and returns the sample's size in bytes.
func (s *Store) scanSample(c *conn, r row, m *session.StoredSample, dest ...any) int {
	var data []byte
	r.scan(append([]any{&data, &m.Agent, &m.ID}, dest...)...)
	doc := s.unpack(c, data)
	c.decode(doc, &m.Sample)
	return len(doc)
}

// EachSample calls fn with each sample of tenant ("" for all tenants) created in [since, until), in write order. A zero
// time means no bound. Samples that are written during the walk can be included. The first error from fn ends the walk.
func (s *Store) EachSample(ctx context.Context, tenant string, since, until time.Time, fn func(session.StoredSample) error) error {
	return walk(ctx, s, walkRange{tenant, since, until, "SELECT max(rid) FROM samples"}, `SELECT m.rid, `+sampleColumns+`, t.name FROM samples m
		JOIN sessions s ON s.sid = m.sid JOIN tenants t ON t.id = m.tenant
		WHERE m.rid > ?1 AND m.rid <= ?2 AND m.at >= ?3 AND m.at < ?4 AND (?5 = 0 OR m.tenant = ?5) ORDER BY m.rid LIMIT ?6`,
		func(c *conn, r row) (m session.StoredSample, bytes int) {
			bytes = s.scanSample(c, r, &m, &m.Tenant)
			return m, bytes
		}, fn)
}

const sampleStream = "samples"

// SampleStreams returns the newest sample's position, under the stream name. Positions increase in write order, even
// after deletions.
func (s *Store) SampleStreams(ctx context.Context) (map[string]string, error) {
	newest, err := read(ctx, s, func(c *conn) int64 { return c.queryInt("SELECT max(rid) FROM samples") })
	if err != nil || newest == 0 {
		return nil, err
	}
	return map[string]string{sampleStream: strconv.FormatInt(newest, 10)}, nil
}

// SamplesAfter returns a page of the samples after position after ("" for the start), up to and including position
// until ("" for the end). last is the position of the last returned sample, or is equal to after if there is no sample.
func (s *Store) SamplesAfter(ctx context.Context, stream, after, until string) (list []session.StoredSample, last string, err error) {
	from, end := int64(0), int64(math.MaxInt64)
	for _, bound := range []struct {
		text string
		dest *int64
	}{{after, &from}, {until, &end}} {
		if bound.text == "" {
			continue
		}
		if *bound.dest, err = strconv.ParseInt(bound.text, 10, 64); err != nil || stream != sampleStream {
			return nil, "", fmt.Errorf("sqlite: samples in the stream %q after %q: %w", stream, after, session.ErrUnknownPosition)
		}
	}
	type result struct {
		list []session.StoredSample
		last int64
	}
	found, err := read(ctx, s, func(c *conn) (r result) {
		if everStored := c.queryInt("SELECT n FROM totals WHERE name = ?", totalSamplesEver); from > everStored && from > c.queryInt("SELECT max(rid) FROM samples") {
			c.fail(fmt.Errorf("%w: the position %d is after the newest sample; the store was replaced", session.ErrUnknownPosition, from))
			return r
		}
		r.last = from
		r.list, _ = scanPage(c, pageRows, func(c *conn, row row) (m session.StoredSample, bytes int) {
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

// EachSession is like EachSample, for the sessions that started in [since, until), with their settled states. They are
// ordered by sid.
func (s *Store) EachSession(ctx context.Context, tenant string, since, until time.Time, fn func(session.Row, session.SettledState) error) error {
	return walk(ctx, s, walkRange{tenant, since, until, "SELECT max(sid) FROM sessions"}, `SELECT s.sid, t.name, `+rowColumns+`, `+settledColumns+`
		FROM sessions s JOIN tenants t ON t.id = s.tenant LEFT JOIN settled a ON a.sid = s.sid
		WHERE s.sid > ?1 AND s.sid <= ?2 AND s.started >= ?3 AND s.started < ?4 AND (?5 = 0 OR s.tenant = ?5) AND s.data IS NOT NULL ORDER BY s.sid LIMIT ?6`,
		func(_ *conn, r row) (v session.ListedSession, bytes int) {
			r.scan(&v.Row.Tenant)
			bytes = scanListed(r.skip(1), &v)
			return v, bytes
		}, func(v session.ListedSession) error { return fn(v.Row, v.SettledState) })
}

func scanListed(r row, v *session.ListedSession) int {
	r.scan(append(rowPointers(&v.Row), settledPointers(&v.SettledState)...)...)
	return len(v.Row.Data) + len(v.SettledState.AssignmentAtClose)
}

type walkRange struct {
	tenant       string
	since, until time.Time
	lastRowQuery string // returns the table's last row number
}

func (w *walkRange) bounds() (from, to int64) {
	from, to = math.MinInt64, math.MaxInt64
	if !w.since.IsZero() {
		from = micros(w.since)
	}
	if !w.until.IsZero() {
		to = micros(w.until)
	}
	return from, to
}

// walk reads table rows in pages, by row number, and calls fn with each row. The query's first column is the row
// number. The query arguments are the previous page's last row number, the step's highest row number, the two times,
// the tenant and the limit.
func walk[T any](ctx context.Context, s *Store, within walkRange, query string, scan scanner[T], fn func(T) error) error {
	type step struct {
		list []T
		last int64 // row number
		more bool
	}
	from, to := within.bounds()
	for current := (step{more: true}); current.more; {
		last := current.last // a copy, because read's function can still run after read has returned
		next, err := read(ctx, s, func(c *conn) (next step) {
			tenantNumber := int64(0)
			if within.tenant != "" {
				if tenantNumber = s.tenantNumber(c, within.tenant); tenantNumber == 0 {
					return next
				}
			}
			window := last + walkRows
			end := c.queryInt(within.lastRowQuery)
			list, more := scanPage(c, pageRows, scan, []any{&next.last}, query, last, window, from, to, tenantNumber, pageRows)
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
		current = next
	}
	return nil
}

type scanner[T any] func(c *conn, r row) (v T, bytes int)

// scanPage reads rows until it has maxRows rows or pageBytes bytes. If it stops there, more is true. It copies the last
// row's first columns to key.
func scanPage[T any](c *conn, maxRows int, scan scanner[T], key []any, query string, args ...any) (list []T, more bool) {
	size := 0
	for r := range c.query(query, args...) {
		r.scan(key...)
		v, bytes := scan(c, r.skip(len(key)))
		list = append(list, v)
		if size += bytes; len(list) == maxRows || size >= pageBytes {
			return list, true
		}
	}
	return list, false
}

// SampleSession returns a sample's session.
func (s *Store) SampleSession(ctx context.Context, tenant, sampleID string) (session.ID, bool, error) {
	type result struct {
		id    session.ID
		found bool
	}
	r, err := readTenant(ctx, s, tenant, func(c *conn, tenantNumber int64) (r result) {
		r.found = c.queryRow("SELECT s.id FROM samples m JOIN sessions s ON s.sid = m.sid WHERE m.k = ? AND m.tenant = ? ORDER BY m.rid LIMIT 1",
			hashKey(sampleID), tenantNumber).scan(&r.id)
		return r
	})
	return r.id, r.found, err
}

func (s *Store) unpack(c *conn, packed []byte) []byte {
	doc, err := s.packer.unpack(packed)
	c.fail(err)
	return doc
}

func (c *conn) decode(doc []byte, to any) {
	if err := json.Unmarshal(doc, to); err != nil {
		c.fail(wrapDamaged(err))
	}
}

func wrapDamaged(err error) error {
	return fmt.Errorf("%w: %w: a stored document does not parse: %w", ErrCorrupt, session.ErrDamaged, err)
}

// position is an entry's place in a list: the entry's time and row number.
type position struct{ at, rid int64 }

func (p position) String() string {
	return strconv.FormatInt(p.at, 36) + "." + strconv.FormatInt(p.rid, 36)
}

// parsePosition parses a position; "" means the start of a list in newest-first order.
func parsePosition(text string) (p position, err error) {
	if text == "" {
		return position{math.MaxInt64, math.MaxInt64}, nil
	}
	at, rid, ok := strings.Cut(text, ".")
	if p.at, err = strconv.ParseInt(at, 36, 64); err == nil {
		p.rid, err = strconv.ParseInt(rid, 36, 64)
	}
	if !ok || err != nil {
		return p, fmt.Errorf("sqlite: %w", session.ErrUnknownPosition)
	}
	return p, nil
}

// ListSessions returns a page of a tenant's sessions in start order, latest first unless OldestFirst is set.
func (s *Store) ListSessions(ctx context.Context, tenant string, within session.ListRange) (session.Page[session.ListedSession], error) {
	after, order := `<`, `ORDER BY s.started DESC, s.sid DESC`
	if within.OldestFirst {
		after, order = `>`, `ORDER BY s.started, s.sid`
	}
	return readPage(ctx, s, tenant, within, `SELECT s.started, s.sid, `+rowColumns+`, `+settledColumns+`
		FROM sessions s LEFT JOIN settled a ON a.sid = s.sid
		WHERE s.tenant = ? AND s.started >= ? AND s.started < ? AND (s.started, s.sid) `+after+` (?, ?) AND s.data IS NOT NULL
		`+order+` LIMIT ?`,
		func(_ *conn, r row) (session.ListedSession, int) {
			v := session.ListedSession{Row: session.Row{Tenant: tenant}}
			bytes := scanListed(r, &v)
			return v, bytes
		})
}

// ListSamples returns a page of a tenant's samples by CreatedAt, latest first.
func (s *Store) ListSamples(ctx context.Context, tenant string, within session.ListRange) (session.Page[session.StoredSample], error) {
	return readPage(ctx, s, tenant, within, `SELECT m.at, m.rid, `+sampleColumns+` FROM samples m JOIN sessions s ON s.sid = m.sid
		WHERE m.tenant = ? AND m.at >= ? AND m.at < ? AND (m.at, m.rid) < (?, ?)
		ORDER BY m.at DESC, m.rid DESC LIMIT ?`,
		func(c *conn, r row) (session.StoredSample, int) {
			m := session.StoredSample{Tenant: tenant}
			bytes := s.scanSample(c, r, &m)
			return m, bytes
		})
}

// readPage returns one list page. The query's first columns are an entry's time and row number. The query arguments are
// the tenant, the two range times, the time and the row number before the page, and the limit.
func readPage[T any](ctx context.Context, s *Store, tenant string, within session.ListRange, query string, scan scanner[T]) (session.Page[T], error) {
	after, err := parsePosition(within.After)
	if err != nil {
		return session.Page[T]{}, err
	}
	if within.OldestFirst && within.After == "" {
		after = position{math.MinInt64, math.MinInt64}
	}
	maxRows := min(max(within.Limit, 1), pageRows)
	return readTenant(ctx, s, tenant, func(c *conn, tenantNumber int64) (p session.Page[T]) {
		from, to := (&walkRange{since: within.Since, until: within.Until}).bounds()
		var last position
		list, more := scanPage(c, maxRows, scan, []any{&last.at, &last.rid}, query, tenantNumber, from, to, after.at, after.rid, maxRows)
		p.List = list
		if more {
			p.Next = last.String()
		}
		return p
	})
}
