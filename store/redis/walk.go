package redis

import (
	"cmp"
	"container/heap"
	"context"
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"precept/internal/session"
)

// The page sizes bound the memory of a long export with a slow reader.
const (
	pageRefs = 128 // references of one call, divided among the keyspaces
	pageDocs = 16  // documents of one call

	walkNames     = 256 // maximum number of tenants whose keyspaces one round trip reads
	walkKeyspaces = 512 // maximum number of keyspaces of one merge, unless a single tenant has more
)

// place is a position in the order of writes: one number for a session, the two numbers of the
// stream entry for a sample.
type place struct{ major, minor int64 }

// lowestPlace returns a place before the places of all values.
func lowestPlace() place { return place{-1, -1} }

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

// ref is a reference of a walk to a session or a sample.
type ref struct {
	tenant string
	place  place
	at     int64          // start of the session, or creation of the sample; deletedAt for a deleted session
	fields map[string]any // of a sample: fields of the stream entry
	id     session.ID
}

// walker lists and loads one kind of values.
type walker[T any] struct {
	s    *Store
	op   string
	list func(ctx context.Context, c client, cursors []*cursor, limit int) error // appends references to the cursors
	load func(ctx context.Context, c client, refs []ref) ([]T, error)            // deleted values are left out
}

// cursor is the progress of a walk within one keyspace.
type cursor struct {
	in    keyspace
	refs  []ref
	last  place
	ended bool // the keyspace has no further references
}

// merge merges the cursors of a walk by place. Its cost per reference grows with the logarithm of the
// number of keyspaces.
type merge struct {
	first   byFirst   // heap of the cursors with references
	few     []*cursor // cursors that have few references left, and may have more to read
	starved int       // cursors in few without references
	perCall int       // references that one call reads
}

// byFirst is a heap of cursors by their first reference.
type byFirst []*cursor

func (h byFirst) Len() int { return len(h) }
func (h byFirst) Less(i, j int) bool {
	return comparePlaces(h[i].refs[0].place, h[j].refs[0].place) < 0
}
func (h byFirst) Swap(i, j int) { h[i], h[j] = h[j], h[i] }

// Push is part of heap.Interface.
func (h *byFirst) Push(x any) { *h = append(*h, x.(*cursor)) } //nolint:forcetypeassert // the heap holds cursors only

// Pop is part of heap.Interface.
func (h *byFirst) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}

func newMerge(keyspaces []keyspace) *merge {
	m := &merge{perCall: max(pageRefs/max(len(keyspaces), 1), 16), starved: len(keyspaces)}
	for _, ks := range keyspaces {
		m.few = append(m.few, &cursor{in: ks, last: lowestPlace()})
	}
	return m
}

// pop removes and returns the oldest reference. Call readMore before, so that each cursor has references.
func (m *merge) pop() (r ref, ok bool) {
	if len(m.first) == 0 {
		return ref{}, false
	}
	k := m.first[0]
	r, k.refs = k.refs[0], k.refs[1:]
	if !k.ended && len(k.refs) == m.perCall/2 {
		m.few = append(m.few, k)
	}
	if len(k.refs) > 0 {
		heap.Fix(&m.first, 0)
		return r, true
	}
	heap.Pop(&m.first)
	if !k.ended {
		m.starved++
	}
	return r, true
}

// walk calls fn with the values of a tenant ("" means all tenants) in the order of their places. A walk over all
// tenants reads one group of tenants after another, so that the memory does not grow with the number of tenants. The
// values are then in the order of their places within each group only.
func (w *walker[T]) walk(ctx context.Context, tenant string, since, until time.Time, fn func(T) error) error {
	names, err := []string{tenant}, error(nil)
	if tenant == "" {
		names, err = w.s.Tenants(ctx)
	}
	if err != nil {
		return err
	}
	from, to := bounds(since, until)
	var group []keyspace
	for chunk := range slices.Chunk(names, walkNames) {
		keyspaces, err := ask(ctx, w.s, w.op, func(c client) ([][]keyspace, error) { return w.s.usedKeyspaces(ctx, c, chunk) })
		if err != nil {
			return err
		}
		for _, ofTenant := range keyspaces {
			if len(group)+len(ofTenant) > walkKeyspaces && len(group) > 0 {
				if err := w.merge(ctx, group, from, to, fn); err != nil {
					return err
				}
				group = nil
			}
			group = append(group, ofTenant...)
		}
	}
	return w.merge(ctx, group, from, to, fn)
}

// merge merges the lists of some keyspaces by place, oldest first.
func (w *walker[T]) merge(ctx context.Context, keyspaces []keyspace, from, to int64, fn func(T) error) error {
	m := newMerge(keyspaces)
	for {
		page, more, err := w.page(ctx, m, from, to)
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

// page returns the next values. more is false after the last value.
func (w *walker[T]) page(ctx context.Context, m *merge, from, to int64) (page []T, more bool, err error) {
	var refs []ref
	err = w.s.do(ctx, w.op, func(c client) error {
		for more = true; more && len(refs) < pageDocs; {
			if err := w.readMore(ctx, c, m); err != nil {
				return err
			}
			r, ok := m.pop()
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

// readMore reads further references in all keyspaces that have few, as soon as one keyspace has none, so
// that many keyspaces share a round trip. A keyspace without further references is not read again.
func (w *walker[T]) readMore(ctx context.Context, c client, m *merge) error {
	for m.starved > 0 {
		n := min(len(m.few), 256)
		cursors := m.few[:n]
		before := make([]int, n)
		for i, k := range cursors {
			before[i] = len(k.refs)
		}
		if err := w.list(ctx, c, cursors, m.perCall); err != nil {
			return err
		}
		m.few = m.few[n:]
		for i, k := range cursors {
			k.ended = len(k.refs)-before[i] < m.perCall
			if len(k.refs) > 0 {
				k.last = k.refs[len(k.refs)-1].place
			}
			if before[i] == 0 {
				m.starved--
				if len(k.refs) > 0 {
					heap.Push(&m.first, k)
				}
			}
		}
	}
	return nil
}

// bounds returns a time range as stored times: from <= at < to. No range contains deletedAt.
func bounds(since, until time.Time) (from, to int64) {
	from, to = deletedAt+1, math.MaxInt64
	if !since.IsZero() {
		from = micros(since)
	}
	if !until.IsZero() {
		to = micros(until)
	}
	return from, to
}

// deletedAt is the time of a reference to a deleted session.
const deletedAt = math.MinInt64

// EachSample calls fn with the samples of a tenant ("" means all tenants) with since <= CreatedAt <
// until (zero means no bound). The samples of each tenant are in the order of their first write. Samples that
// are written meanwhile may be included. EachSample stops at an error of fn, and returns that error.
func (s *Store) EachSample(ctx context.Context, tenant string, since, until time.Time, fn func(session.StoredSample) error) error {
	w := walker[session.StoredSample]{
		s: s, op: "walk over samples", load: s.sampleDocs,
		list: func(ctx context.Context, c client, cursors []*cursor, count int) error {
			pages, err := piped(ctx, c, cursors, func(p goredis.Pipeliner, k *cursor) *goredis.XMessageSliceCmd {
				from := "-"
				if k.last != lowestPlace() {
					from = "(" + k.last.String()
				}
				return p.XRangeN(ctx, k.in.base+"samples", from, "+", int64(count))
			})
			for i := range pages {
				cursors[i].refs = append(cursors[i].refs, sampleRefs(cursors[i].in.tenant, pages[i].Val())...)
			}
			return err
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
		text, _ := e.Values["session"].(string)
		refs[i].id, _ = session.ParseID(text)
	}
	return refs
}

// sampleDocs returns the samples of references.
func (s *Store) sampleDocs(ctx context.Context, c client, refs []ref) (list []session.StoredSample, err error) {
	docs, err := piped(ctx, c, refs, func(p goredis.Pipeliner, r ref) *goredis.StringCmd {
		id, _ := r.fields["session"].(string)
		name, _ := r.fields["sample_id"].(string)
		return p.HGet(ctx, s.key(sessionLocation(r.tenant, r.id), "m:"+id), name)
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

// EachSession calls fn with the sessions of a tenant ("" means all tenants) with since <= Started < until (zero means
// no bound), in the order of their first write, each with its settlement. EachSession stops at an error of fn, and
// returns that error.
func (s *Store) EachSession(ctx context.Context, tenant string, since, until time.Time, fn func(session.Row, session.Applied) error) error {
	w := walker[session.Listed]{
		s: s, op: "walk over sessions", load: s.readListed,
		list: func(ctx context.Context, c client, cursors []*cursor, count int) error {
			pages, err := piped(ctx, c, cursors, func(p goredis.Pipeliner, k *cursor) *goredis.ZSliceCmd {
				by := &goredis.ZRangeBy{Min: "(" + k.last.String(), Max: "+inf", Count: int64(count)}
				return p.ZRangeByScoreWithScores(ctx, k.in.base+"order", by)
			})
			if err != nil {
				return err
			}
			var all []ref
			for i := range pages {
				all = append(all, orderRefs(cursors[i].in.tenant, pages[i].Val())...)
			}
			if err := s.readStarts(ctx, c, all); err != nil {
				return err
			}
			for i := range pages {
				n := len(pages[i].Val())
				cursors[i].refs, all = append(cursors[i].refs, all[:n]...), all[n:]
			}
			return nil
		},
	}
	return w.walk(ctx, tenant, since, until, func(l session.Listed) error { return fn(l.Row, l.Applied) })
}

// orderRefs returns references to entries of the order of writes.
func orderRefs(tenant string, list []goredis.Z) []ref {
	refs := make([]ref, len(list))
	for i, z := range list {
		id, _ := z.Member.(string)
		refs[i] = ref{tenant: tenant, place: place{int64(z.Score), -1}, at: deletedAt, id: toID(id)}
	}
	return refs
}

// readStarts reads the start of each session. Only the heads of the sessions are read.
func (s *Store) readStarts(ctx context.Context, c client, refs []ref) error {
	heads, err := piped(ctx, c, refs, func(p goredis.Pipeliner, r ref) *goredis.StringCmd {
		return p.HGet(ctx, s.sessionKey(r.tenant, r.id), "h")
	})
	for i := range heads {
		if h := heads[i].Val(); len(h) == 17 {
			refs[i].at = fromOrdered(h[:8])
		}
	}
	return err
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
