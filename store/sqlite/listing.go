package sqlite

import (
	"context"
	"database/sql/driver"
	"fmt"
	"math"
	"strconv"
	"strings"

	"precept/session"
)

// place is where a list goes on: the time and the row number of the last entry that was handed out.
type place struct{ at, rid int64 }

func (p place) String() string {
	return strconv.FormatInt(p.at, 36) + "." + strconv.FormatInt(p.rid, 36)
}

// placeOf reads a place; "" is the top of the list.
func placeOf(text string) (m place, err error) {
	if text == "" {
		return place{math.MaxInt64, math.MaxInt64}, nil
	}
	at, rid, ok := strings.Cut(text, ".")
	if m.at, err = strconv.ParseInt(at, 36, 64); err == nil {
		m.rid, err = strconv.ParseInt(rid, 36, 64)
	}
	if !ok || err != nil {
		return m, fmt.Errorf("sqlite: %w", session.ErrPlace)
	}
	return m, nil
}

// Newest lists a tenant's sessions by their start, the latest first. It asks the index for them:
// however many there are, no more are read than are asked for.
func (s *Store) Newest(ctx context.Context, tenant string, of session.Stretch) (session.Page[session.Listed], error) {
	return listed(ctx, s, tenant, of, `SELECT s.started, s.sid, `+rowColumns+`, a.version, a.told, a.reward, a.tier, a.frozen
		FROM sessions s LEFT JOIN settled a ON a.sid = s.sid
		WHERE s.tenant = ? AND s.started >= ? AND s.started < ? AND (s.started, s.sid) < (?, ?) AND s.data IS NOT NULL
		ORDER BY s.started DESC, s.sid DESC LIMIT ?`,
		func(row []driver.Value) (session.Listed, int, error) {
			return session.Listed{Row: toRow(tenant, row[2:]), Applied: toApplied(row[8:])}, len(blob(row[6])) + len(blob(row[12])), nil
		})
}

// NewestSamples lists a tenant's samples likewise, by their CreatedAt.
func (s *Store) NewestSamples(ctx context.Context, tenant string, of session.Stretch) (session.Page[session.StoredSample], error) {
	return listed(ctx, s, tenant, of, `SELECT m.at, m.rid, m.data, m.agent, s.id FROM samples m JOIN sessions s ON s.sid = m.sid
		WHERE m.tenant = ? AND m.at >= ? AND m.at < ? AND (m.at, m.rid) < (?, ?)
		ORDER BY m.at DESC, m.rid DESC LIMIT ?`,
		func(row []driver.Value) (session.StoredSample, int, error) {
			m := session.StoredSample{Tenant: tenant, Agent: text(row[3]), ID: toID(blob(row[4]))}
			doc, err := s.packer.unpack(blob(row[2]))
			if err == nil {
				err = decode(doc, &m.Sample)
			}
			return m, len(doc), err
		})
}

// listed reads a page. The query takes the tenant, the two times, the time and the row number of
// the place, and the limit; its first two columns are an entry's place. A page ends early where its
// entries weigh much.
func listed[T any](ctx context.Context, s *Store, tenant string, of session.Stretch, query string, scan scanner[T]) (session.Page[T], error) {
	var none session.Page[T]
	after, err := placeOf(of.After)
	if err != nil {
		return none, err
	}
	most := min(max(of.Most, 1), pageRows)
	return readOf(ctx, s, tenant, func(c *conn, n int64) (p session.Page[T], err error) {
		from, to := (&span{since: of.Since, until: of.Until}).bounds()
		size := 0
		err = c.query(query, func(row []driver.Value) error {
			v, bytes, err := scan(row)
			if err != nil {
				return err
			}
			p.List = append(p.List, v)
			if size += bytes; len(p.List) == most || size >= pageBytes {
				p.Next = place{integer(row[0]), integer(row[1])}.String()
				return errStop
			}
			return ctx.Err()
		}, n, from, to, after.at, after.rid, int64(most))
		return p, err
	})
}
