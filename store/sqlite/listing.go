package sqlite

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"strings"

	"precept/internal/session"
)

// place is where a list goes on: the time and the row number of the last entry that was handed out.
type place struct{ at, rid int64 }

func (p place) String() string {
	return strconv.FormatInt(p.at, 36) + "." + strconv.FormatInt(p.rid, 36)
}

// placeOf reads a place; "" is the top of the list.
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

// Newest lists a tenant's sessions by their start, the latest first. It asks the index for them:
// however many there are, no more are read than are asked for.
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

// NewestSamples lists a tenant's samples likewise, by their CreatedAt.
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

// listed reads a page. The query takes the tenant, the two times, the time and the row number of
// the place, and the limit; its first two columns are an entry's place.
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
