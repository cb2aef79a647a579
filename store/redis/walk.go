package redis

import (
	"cmp"
	"context"
	"errors"
	"math"
	"strconv"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"precept/internal/session"
)

// The page sizes bound the memory of a long export with a slow reader.
const (
	pageRefs = 128 // references of a tenant that one call reads
	pageDocs = 16  // documents that one call reads
)

// place is a position in the order of writes: one number for a session, the two numbers of the
// stream entry for a sample.
type place struct{ major, minor int64 }

// top returns the place before all others.
func top() place { return place{-1, -1} }

// String returns the place as Redis and the pages of lists write it.
func (p place) String() string {
	text := strconv.FormatInt(p.major, 10)
	if p.minor >= 0 {
		text += "-" + strconv.FormatInt(p.minor, 10)
	}
	return text
}

func comparePlaces(a, b place) int {
	return cmp.Or(cmp.Compare(a.major, b.major), cmp.Compare(a.minor, b.minor))
}

// ref is a reference of a walk: place, time, and the key of the document.
type ref struct {
	tenant string
	place  place
	at     int64
	fields map[string]any
	id     session.ID
}

// walker lists and loads one kind of values.
type walker[T any] struct {
	s    *Store
	op   string
	list func(ctx context.Context, c client, tenant string, after place) ([]ref, error)
	load func(ctx context.Context, c client, refs []ref) ([]T, error) // deleted values are left out
}

// cursor is the progress of a walk within one tenant.
type cursor struct {
	tenant string
	refs   []ref
	last   place
	ended  bool
}

// walk merges the lists of the tenants by place, oldest first.
func (w *walker[T]) walk(ctx context.Context, tenant string, since, until time.Time, fn func(T) error) error {
	from, to := bounds(since, until)
	names := []string{tenant}
	if tenant == "" {
		var err error
		if names, err = w.s.Tenants(ctx); err != nil {
			return err
		}
	}
	cursors := make([]*cursor, len(names))
	for i, name := range names {
		cursors[i] = &cursor{tenant: name, last: top()}
	}
	for {
		page, more, err := w.page(ctx, cursors, from, to)
		if err != nil {
			return err
		}
		for _, v := range page {
			if err := fn(v); err != nil {
				return err
			}
		}
		if !more {
			return nil
		}
	}
}

// page reads the next documents.
func (w *walker[T]) page(ctx context.Context, cursors []*cursor, from, to int64) (page []T, more bool, err error) {
	var refs []ref
	err = w.s.do(ctx, w.op, func(c client) error {
		for more = true; more && len(refs) < pageDocs; {
			r, ok, err := w.next(ctx, c, cursors)
			if err != nil {
				return err
			}
			if more = ok; ok && r.at >= from && r.at < to {
				refs = append(refs, r)
			}
		}
		if len(refs) == 0 {
			return nil
		}
		page, err = w.load(ctx, c, refs)
		return err
	})
	return page, more, err
}

// next returns the oldest reference of all tenants. A tenant at its end is not asked again.
func (w *walker[T]) next(ctx context.Context, c client, cursors []*cursor) (ref, bool, error) {
	var first *cursor
	for _, k := range cursors {
		if len(k.refs) == 0 && !k.ended {
			refs, err := w.list(ctx, c, k.tenant, k.last)
			if err != nil {
				return ref{}, false, err
			}
			if k.ended = len(refs) < pageRefs; len(refs) > 0 {
				k.refs, k.last = refs, refs[len(refs)-1].place
			}
		}
		if len(k.refs) > 0 && (first == nil || comparePlaces(k.refs[0].place, first.refs[0].place) < 0) {
			first = k
		}
	}
	if first == nil {
		return ref{}, false, nil
	}
	r := first.refs[0]
	first.refs = first.refs[1:]
	return r, true, nil
}

// bounds returns a time range as stored times: from <= at < to. A deleted session has the smallest
// of all numbers, which is outside of every range.
func bounds(since, until time.Time) (from, to int64) {
	from, to = gone+1, math.MaxInt64
	if !since.IsZero() {
		from = micros(since)
	}
	if !until.IsZero() {
		to = micros(until)
	}
	return from, to
}

const gone = math.MinInt64

// EachSample calls fn with the samples of a tenant ("": all tenants) with since <= CreatedAt <
// until (zero: no bound), in the order of their first write. Samples that are written meanwhile may
// be included. EachSample stops at an error of fn, and returns that error.
func (s *Store) EachSample(ctx context.Context, tenant string, since, until time.Time, fn func(session.StoredSample) error) error {
	w := walker[session.StoredSample]{
		s: s, op: "walk over samples", load: s.sampleDocs,
		list: func(ctx context.Context, c client, tenant string, after place) ([]ref, error) {
			from := "-"
			if after != top() {
				from = "(" + after.String()
			}
			entries, err := c.XRangeN(ctx, s.base(tenant)+"samples", from, "+", pageRefs).Result()
			return sampleRefs(tenant, entries), err
		},
	}
	return w.walk(ctx, tenant, since, until, fn)
}

// sampleRefs returns references to the entries of a tenant's stream of samples.
func sampleRefs(tenant string, entries []goredis.XMessage) []ref {
	refs := make([]ref, len(entries))
	for i, e := range entries {
		major, minor, _ := strings.Cut(e.ID, "-")
		refs[i] = ref{tenant: tenant, place: place{integer(major), integer(minor)}, at: integer(e.Values["at"]), fields: e.Values}
	}
	return refs
}

// sampleDocs returns the samples of references.
func (s *Store) sampleDocs(ctx context.Context, c client, refs []ref) (list []session.StoredSample, err error) {
	docs, err := piped(ctx, c, refs, func(p goredis.Pipeliner, r ref) *goredis.StringCmd {
		id, _ := r.fields["session"].(string)
		name, _ := r.fields["sample_id"].(string)
		return p.HGet(ctx, s.base(r.tenant)+"m:"+id, name)
	})
	for i, d := range docs {
		if d.Val() == "" || err != nil {
			continue
		}
		var m session.StoredSample
		if m, err = toSample(refs[i].fields, d.Val()); err == nil {
			list = append(list, m)
		}
	}
	return list, err
}

// EachSession calls fn with sessions in the same way, by start, each with the settlement.
func (s *Store) EachSession(ctx context.Context, tenant string, since, until time.Time, fn func(session.Row, session.Applied) error) error {
	w := walker[session.Listed]{
		s: s, op: "walk over sessions", load: s.readListed,
		list: func(ctx context.Context, c client, tenant string, after place) ([]ref, error) {
			list, err := c.ZRangeByScoreWithScores(ctx, s.base(tenant)+"order", &goredis.ZRangeBy{Min: "(" + after.String(), Max: "+inf", Count: pageRefs}).Result()
			if err != nil {
				return nil, err
			}
			return s.sessionRefs(ctx, c, tenant, list)
		},
	}
	return w.walk(ctx, tenant, since, until, func(l session.Listed) error { return fn(l.Row, l.Applied) })
}

// sessionRefs returns references to sessions, with the start of each session. Only the heads of the
// sessions are read.
func (s *Store) sessionRefs(ctx context.Context, c client, tenant string, list []goredis.Z) ([]ref, error) {
	refs := make([]ref, len(list))
	for i, z := range list {
		id, _ := z.Member.(string)
		refs[i] = ref{tenant: tenant, place: place{int64(z.Score), -1}, at: gone, id: toID(id)}
	}
	heads, err := piped(ctx, c, refs, func(p goredis.Pipeliner, r ref) *goredis.StringCmd {
		return p.HGet(ctx, s.sessionKey(r.tenant, r.id), "h")
	})
	for i := range heads {
		if h := heads[i].Val(); len(h) == 17 {
			refs[i].at = fromOrdered(h[:8])
		}
	}
	return refs, err
}

// readListed returns the sessions of references.
func (s *Store) readListed(ctx context.Context, c client, refs []ref) (list []session.Listed, err error) {
	values, err := piped(ctx, c, refs, func(p goredis.Pipeliner, r ref) *goredis.SliceCmd {
		return p.HMGet(ctx, s.sessionKey(r.tenant, r.id), "h", "d", "i", "a")
	})
	for i, r := range refs[:len(values)] {
		row, ok := toRow(r.tenant, r.id, values[i].Val())
		if !ok {
			continue
		}
		l := session.Listed{Row: row}
		if text, ok := values[i].Val()[3].(string); ok {
			var bad error
			l.Applied, bad = toApplied(text)
			err = errors.Join(err, bad)
		}
		list = append(list, l)
	}
	return list, err
}
