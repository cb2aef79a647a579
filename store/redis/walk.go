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

	"precept/session"
)

// A walk reads this many references at a time from each tenant, and this many documents: a slow
// reader of a long export holds no more in memory.
const (
	pageRefs = 128
	pageDocs = 16
)

// place is where something stands in the order of writing.
type place struct{ major, minor int64 }

func (p place) String() string {
	return strconv.FormatInt(p.major, 10) + "-" + strconv.FormatInt(p.minor, 10)
}

func comparePlaces(a, b place) int {
	return cmp.Or(cmp.Compare(a.major, b.major), cmp.Compare(a.minor, b.minor))
}

// ref is one thing of a walk: where it stands, when it was, and what its document is found by.
type ref struct {
	tenant string
	place  place
	at     int64
	fields map[string]any
	id     session.ID
}

// walker is how one kind of things is walked over.
type walker[T any] struct {
	s    *Store
	op   string
	list func(ctx context.Context, c goredis.UniversalClient, tenant string, after place) ([]ref, error)
	load func(ctx context.Context, c goredis.UniversalClient, refs []ref) ([]T, error) // what is gone is left out
}

// cursor is a walk within one tenant.
type cursor struct {
	tenant string
	refs   []ref
	last   place
	ended  bool
}

// walk merges the tenants' lists by place, oldest first.
func (w *walker[T]) walk(ctx context.Context, tenant string, since, until time.Time, fn func(T) error) error {
	from, to := int64(math.MinInt64), int64(math.MaxInt64)
	if !since.IsZero() {
		from = micros(since)
	}
	if !until.IsZero() {
		to = micros(until)
	}
	var cursors []*cursor
	err := w.s.do(ctx, w.op, func(c goredis.UniversalClient) error {
		names, err := w.s.some(ctx, c, tenant)
		for _, name := range names {
			cursors = append(cursors, &cursor{tenant: name, last: place{-1, 0}})
		}
		return err
	})
	if err != nil {
		return err
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
	err = w.s.do(ctx, w.op, func(c goredis.UniversalClient) error {
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

// next takes the oldest reference of all tenants. Those that have no more are asked no more.
func (w *walker[T]) next(ctx context.Context, c goredis.UniversalClient, cursors []*cursor) (ref, bool, error) {
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

// stream lists the entries of a tenant's stream of samples behind a place.
func (s *Store) stream(ctx context.Context, c goredis.UniversalClient, tenant string, after place) ([]ref, error) {
	from := "-"
	if after.major >= 0 {
		from = "(" + after.String()
	}
	entries, err := c.XRangeN(ctx, s.base(tenant)+"samples", from, "+", pageRefs).Result()
	return streamRefs(tenant, entries), err
}

func streamRefs(tenant string, entries []goredis.XMessage) []ref {
	refs := make([]ref, len(entries))
	for i, e := range entries {
		major, minor, _ := strings.Cut(e.ID, "-")
		p := place{integer(major), integer(minor)}
		refs[i] = ref{tenant: tenant, place: p, at: integer(e.Values["at"]), fields: e.Values}
	}
	return refs
}

// EachSample walks over the samples of a tenant ("" for all) with since <= CreatedAt < until (zero:
// no bound), in the order in which they were first written. What is written meanwhile may be seen.
// An error of fn ends the walk and is returned.
func (s *Store) EachSample(ctx context.Context, tenant string, since, until time.Time, fn func(session.StoredSample) error) error {
	w := walker[session.StoredSample]{
		s: s, op: "walk over samples",
		list: func(ctx context.Context, c goredis.UniversalClient, tenant string, after place) ([]ref, error) {
			return s.stream(ctx, c, tenant, after)
		},
		load: s.sampleDocs,
	}
	return w.walk(ctx, tenant, since, until, fn)
}

// sampleDocs reads the samples of references.
func (s *Store) sampleDocs(ctx context.Context, c goredis.UniversalClient, refs []ref) (list []session.StoredSample, err error) {
	docs, err := docs(ctx, c, refs, func(r ref) (key, field string) {
		id, _ := r.fields["session"].(string)
		name, _ := r.fields["sample_id"].(string)
		return s.base(r.tenant) + "m:" + id, name
	})
	for i, d := range docs {
		if d == "" || err != nil {
			continue
		}
		var m session.StoredSample
		if m, err = toSample(refs[i].fields, d); err == nil {
			list = append(list, m)
		}
	}
	return list, err
}

// docs reads one field of a hash for each reference; "" is one that is gone.
func docs(ctx context.Context, c goredis.UniversalClient, refs []ref, where func(ref) (key, field string)) ([]string, error) {
	pipe := c.Pipeline()
	cmds := make([]*goredis.StringCmd, len(refs))
	for i, r := range refs {
		key, field := where(r)
		cmds[i] = pipe.HGet(ctx, key, field)
	}
	if err := each(ctx, pipe); err != nil {
		return nil, err
	}
	out := make([]string, len(refs))
	for i := range cmds {
		out[i] = cmds[i].Val()
	}
	return out, nil
}

// both is a session with what the counters hold for it.
type both struct {
	row     session.Row
	applied session.Applied
}

// EachSession walks over the sessions likewise, by their start, each with what the counters hold
// for it.
func (s *Store) EachSession(ctx context.Context, tenant string, since, until time.Time, fn func(session.Row, session.Applied) error) error {
	w := walker[both]{
		s: s, op: "walk over sessions",
		list: func(ctx context.Context, c goredis.UniversalClient, tenant string, after place) ([]ref, error) {
			list, err := c.ZRangeByScoreWithScores(ctx, s.base(tenant)+"order", &goredis.ZRangeBy{
				Min: "(" + strconv.FormatInt(after.major, 10), Max: "+inf", Count: pageRefs,
			}).Result()
			refs := make([]ref, len(list))
			for i, z := range list {
				id, _ := z.Member.(string)
				refs[i] = ref{tenant: tenant, place: place{major: int64(z.Score)}, id: toID(id)}
			}
			return refs, err
		},
		load: s.loadBoth,
	}
	inside := func(b both) bool {
		return (since.IsZero() || !b.row.Started.Before(since)) && (until.IsZero() || b.row.Started.Before(until))
	}
	return w.walk(ctx, tenant, time.Time{}, time.Time{}, func(b both) error {
		if !inside(b) {
			return nil
		}
		return fn(b.row, b.applied)
	})
}

func (s *Store) loadBoth(ctx context.Context, c goredis.UniversalClient, refs []ref) (list []both, err error) {
	pipe := c.Pipeline()
	cmds := make([]*goredis.SliceCmd, len(refs))
	for i, r := range refs {
		cmds[i] = pipe.HMGet(ctx, s.sessionKey(r.tenant, r.id), "h", "d", "i", "a")
	}
	if err := each(ctx, pipe); err != nil {
		return nil, err
	}
	for i, r := range refs {
		v := cmds[i].Val()
		row, ok := toRow(r.tenant, r.id, v)
		if !ok {
			continue
		}
		b := both{row: row}
		if text, ok := v[3].(string); ok {
			a, e := toApplied(text)
			b.applied, err = a, errors.Join(err, e)
		}
		list = append(list, b)
	}
	return list, err
}
