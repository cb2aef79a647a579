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

// The limits for one page keep the memory small in a long export with a slow reader.
const (
	pageRefs = 128 // references read per call, divided among the keyspaces
	pageDocs = 16  // documents read per call

	maxWalkTenants   = 256 // tenants in a round trip that reads keyspaces
	maxWalkKeyspaces = 512 // keyspaces in a merge, unless a single tenant has more
)

// position is a position in write order. A session's position is a sequence number in major, with minor -1. A sample's
// position has the two numbers in the stream entry's id.
type position struct{ major, minor int64 }

func lowestPosition() position { return position{-1, -1} }

// String returns the position in the form used by Redis and the list pages.
func (p position) String() string {
	text := strconv.FormatInt(p.major, 10)
	if p.minor >= 0 {
		text += "-" + strconv.FormatInt(p.minor, 10)
	}
	return text
}

func comparePositions(a, b position) int {
	return cmp.Or(cmp.Compare(a.major, b.major), cmp.Compare(a.minor, b.minor))
}

type ref struct {
	tenant   string
	position position
	at       int64          // start or creation in Unix microseconds; deletedAt for a deleted session
	fields   map[string]any // fields in a sample's stream entry; nil for a session
	id       session.ID
}

type walker[T any] struct {
	store      *Store
	op         string
	readRefs   func(ctx context.Context, c client, cursors []*cursor, limit int) error // appends the next references to each cursor, at most limit
	readValues func(ctx context.Context, c client, refs []ref) ([]T, error)            // returns the values for references, without deleted ones
}

type cursor struct {
	keyspace keyspace
	refs     []ref    // references read and not yet returned
	last     position // last reference read from the keyspace
	atEnd    bool
}

type merger struct {
	cursors    cursorHeap // cursors with references
	refillable []*cursor  // cursors with few references left, and possibly more in the keyspace
	emptyCount int        // cursors in refillable without references
	perCall    int        // references read per call from a keyspace
}

type cursorHeap []*cursor

func (h cursorHeap) Len() int { return len(h) }
func (h cursorHeap) Less(i, j int) bool {
	return comparePositions(h[i].refs[0].position, h[j].refs[0].position) < 0
}
func (h cursorHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }

// Push is part of heap.Interface.
func (h *cursorHeap) Push(x any) { *h = append(*h, x.(*cursor)) } //nolint:forcetypeassert // the heap holds cursors only

// Pop is part of heap.Interface.
func (h *cursorHeap) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}

func newMerger(keyspaces []keyspace) *merger {
	m := &merger{perCall: max(pageRefs/max(len(keyspaces), 1), 16), emptyCount: len(keyspaces)}
	for _, ks := range keyspaces {
		m.refillable = append(m.refillable, &cursor{keyspace: ks, last: lowestPosition()})
	}
	return m
}

// pop removes and returns the oldest reference. Call readMore first, so that every cursor has a reference if possible.
func (m *merger) pop() (r ref, ok bool) {
	if len(m.cursors) == 0 {
		return ref{}, false
	}
	cur := m.cursors[0]
	r, cur.refs = cur.refs[0], cur.refs[1:]
	if !cur.atEnd && len(cur.refs) == m.perCall/2 {
		m.refillable = append(m.refillable, cur)
	}
	if len(cur.refs) > 0 {
		heap.Fix(&m.cursors, 0)
		return r, true
	}
	heap.Pop(&m.cursors)
	if !cur.atEnd {
		m.emptyCount++
	}
	return r, true
}

// walk calls fn with each value of tenant ("" for all tenants), in position order. To limit the memory, it reads groups
// of keyspaces, and values are ordered only within a group.
func (w *walker[T]) walk(ctx context.Context, tenant string, since, until time.Time, fn func(T) error) error {
	names, err := []string{tenant}, error(nil)
	if tenant == "" {
		names, err = w.store.Tenants(ctx)
	}
	if err != nil {
		return err
	}
	from, to := bounds(since, until)
	var group []keyspace
	for chunk := range slices.Chunk(names, maxWalkTenants) {
		keyspaces, err := doValue(ctx, w.store, w.op, func(c client) ([][]keyspace, error) { return w.store.usedKeyspaces(ctx, c, chunk) })
		if err != nil {
			return err
		}
		for _, tenantKeyspaces := range keyspaces {
			if len(group)+len(tenantKeyspaces) > maxWalkKeyspaces && len(group) > 0 {
				if err := w.walkGroup(ctx, group, from, to, fn); err != nil {
					return err
				}
				group = nil
			}
			group = append(group, tenantKeyspaces...)
		}
	}
	return w.walkGroup(ctx, group, from, to, fn)
}

func (w *walker[T]) walkGroup(ctx context.Context, keyspaces []keyspace, from, to int64, fn func(T) error) error {
	m := newMerger(keyspaces)
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

// page returns the next merged values in the time range; more is false if none follow.
func (w *walker[T]) page(ctx context.Context, m *merger, from, to int64) (page []T, more bool, err error) {
	var refs []ref
	err = w.store.do(ctx, w.op, func(c client) error {
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
		page, err = w.readValues(ctx, c, refs)
		return err
	})
	return page, more, err
}

// readMore reads further references when a cursor has none left, for all cursors with few references, so that many
// keyspaces share a round trip.
func (w *walker[T]) readMore(ctx context.Context, c client, m *merger) error {
	for m.emptyCount > 0 {
		n := min(len(m.refillable), 256)
		cursors := m.refillable[:n]
		before := make([]int, n)
		for i, cur := range cursors {
			before[i] = len(cur.refs)
		}
		if err := w.readRefs(ctx, c, cursors, m.perCall); err != nil {
			return err
		}
		m.refillable = m.refillable[n:]
		for i, cur := range cursors {
			cur.atEnd = len(cur.refs)-before[i] < m.perCall
			if len(cur.refs) > 0 {
				cur.last = cur.refs[len(cur.refs)-1].position
			}
			if before[i] == 0 {
				m.emptyCount--
				if len(cur.refs) > 0 {
					heap.Push(&m.cursors, cur)
				}
			}
		}
	}
	return nil
}

// bounds converts a time range to stored times, from <= at < to. A zero time means no bound. No range contains
// deletedAt.
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

const deletedAt = math.MinInt64 // ref.at for a deleted session

// EachSample calls fn with each sample of tenant ("" for all tenants) created in [since, until); a zero time means no
// bound. Each tenant's samples are ordered by first write. The first error from fn ends the call.
func (s *Store) EachSample(ctx context.Context, tenant string, since, until time.Time, fn func(session.StoredSample) error) error {
	w := walker[session.StoredSample]{
		store: s, op: "walk over samples", readValues: s.readSamples,
		readRefs: func(ctx context.Context, c client, cursors []*cursor, count int) error {
			pages, err := runPipelined(ctx, c, cursors, func(p goredis.Pipeliner, cur *cursor) *goredis.XMessageSliceCmd {
				from := "-"
				if cur.last != lowestPosition() {
					from = "(" + cur.last.String()
				}
				return p.XRangeN(ctx, cur.keyspace.base+"samples", from, "+", int64(count))
			})
			for i := range pages {
				cursors[i].refs = append(cursors[i].refs, sampleRefs(cursors[i].keyspace.tenant, pages[i].Val())...)
			}
			return err
		},
	}
	return w.walk(ctx, tenant, since, until, fn)
}

func sampleRefs(tenant string, entries []goredis.XMessage) []ref {
	refs := make([]ref, len(entries))
	for i, e := range entries {
		major, minor, _ := strings.Cut(e.ID, "-")
		refs[i] = ref{tenant: tenant, position: position{parseInt(major), parseInt(minor)}, at: parseInt(e.Values["at"]), fields: e.Values}
		text, _ := e.Values["session"].(string)
		refs[i].id, _ = session.ParseID(text)
	}
	return refs
}

func (s *Store) readSamples(ctx context.Context, c client, refs []ref) (list []session.StoredSample, err error) {
	docs, err := runPipelined(ctx, c, refs, func(p goredis.Pipeliner, r ref) *goredis.StringCmd {
		id, _ := r.fields["session"].(string)
		name, _ := r.fields["sample_id"].(string)
		return p.HGet(ctx, s.key(sessionLocation(r.tenant, r.id), "m:"+id), name)
	})
	for i, d := range docs {
		if d.Val() == "" || err != nil {
			continue
		}
		var m session.StoredSample
		if m, err = decodeSample(refs[i].fields, d.Val()); err == nil {
			list = append(list, m)
		}
	}
	return list, err
}

// EachSession calls fn with each session of tenant ("" for all tenants) started in [since, until), and its last
// settlement. A zero time means no bound. Sessions are ordered by first write. The first error from fn ends the call.
func (s *Store) EachSession(ctx context.Context, tenant string, since, until time.Time, fn func(session.Row, session.SettledState) error) error {
	w := walker[session.ListedSession]{
		store: s, op: "walk over sessions", readValues: s.readListed,
		readRefs: func(ctx context.Context, c client, cursors []*cursor, count int) error {
			pages, err := runPipelined(ctx, c, cursors, func(p goredis.Pipeliner, cur *cursor) *goredis.ZSliceCmd {
				by := &goredis.ZRangeBy{Min: "(" + cur.last.String(), Max: "+inf", Count: int64(count)}
				return p.ZRangeByScoreWithScores(ctx, cur.keyspace.base+"order", by)
			})
			if err != nil {
				return err
			}
			var all []ref
			for i := range pages {
				all = append(all, sessionOrderRefs(cursors[i].keyspace.tenant, pages[i].Val())...)
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
	return w.walk(ctx, tenant, since, until, func(l session.ListedSession) error { return fn(l.Row, l.SettledState) })
}

func sessionOrderRefs(tenant string, list []goredis.Z) []ref {
	refs := make([]ref, len(list))
	for i, z := range list {
		id, _ := z.Member.(string)
		refs[i] = ref{tenant: tenant, position: position{int64(z.Score), -1}, at: deletedAt, id: idFromBytes(id)}
	}
	return refs
}

func (s *Store) readStarts(ctx context.Context, c client, refs []ref) error {
	heads, err := runPipelined(ctx, c, refs, func(p goredis.Pipeliner, r ref) *goredis.StringCmd {
		return p.HGet(ctx, s.sessionKey(r.tenant, r.id), "h")
	})
	for i := range heads {
		if h := heads[i].Val(); len(h) == 17 {
			refs[i].at = decodeOrdered(h[:8])
		}
	}
	return err
}

func (s *Store) readListed(ctx context.Context, c client, refs []ref) (list []session.ListedSession, err error) {
	values, err := runPipelined(ctx, c, refs, func(p goredis.Pipeliner, r ref) *goredis.SliceCmd {
		return p.HMGet(ctx, s.sessionKey(r.tenant, r.id), "h", "d", "i", "a")
	})
	for i, r := range refs[:len(values)] {
		row, ok := decodeRow(r.tenant, r.id, values[i].Val())
		if !ok {
			continue
		}
		l := session.ListedSession{Row: row}
		if text, ok := values[i].Val()[3].(string); ok {
			var decodeErr error
			l.SettledState, decodeErr = decodeSettledState(text)
			err = errors.Join(err, decodeErr)
		}
		list = append(list, l)
	}
	return list, err
}
