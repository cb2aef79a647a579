package redis

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	goredis "github.com/redis/go-redis/v9"

	"precept/internal/session"
)

const (
	maxScannedRefs = 20_000 // entries examined for one page
	oldLayoutBatch = 500    // entries read per call from a store in the old layout (one shard for each tenant)
)

// ListSessions returns a page of a tenant's sessions, ordered by first write, newest first unless OldestFirst is set.
func (s *Store) ListSessions(ctx context.Context, tenant string, within session.ListRange) (session.Page[session.ListedSession], error) {
	return readPage(ctx, s, "list sessions", within, 1, s.readListed, func(c client, after string, count int) ([]ref, error) {
		keyspaces := s.tenantKeyspaces(tenant)
		pages, err := runPipelined(ctx, c, keyspaces, func(p goredis.Pipeliner, ks keyspace) *goredis.ZSliceCmd {
			if within.OldestFirst {
				by := &goredis.ZRangeBy{Min: cmp.Or(after, "-inf"), Max: "+inf", Count: int64(count)}
				return p.ZRangeByScoreWithScores(ctx, ks.base+"order", by)
			}
			by := &goredis.ZRangeBy{Min: "-inf", Max: cmp.Or(after, "+inf"), Count: int64(count)}
			return p.ZRevRangeByScoreWithScores(ctx, ks.base+"order", by)
		})
		if err != nil {
			return nil, err
		}
		lists := make([][]ref, len(pages))
		for i, page := range pages {
			lists[i] = sessionOrderRefs(tenant, page.Val())
		}
		compare := compareNewestFirst
		if within.OldestFirst {
			compare = comparePositions
		}
		refs := mergeLists(lists, count, compare)
		return refs, s.readStarts(ctx, c, refs)
	})
}

// ListSamples returns a page of a tenant's samples, ordered by first write, newest first.
func (s *Store) ListSamples(ctx context.Context, tenant string, within session.ListRange) (session.Page[session.StoredSample], error) {
	return readPage(ctx, s, "list samples", within, 2, s.readSamples, func(c client, after string, count int) ([]ref, error) {
		keyspaces := s.tenantKeyspaces(tenant)
		pages, err := runPipelined(ctx, c, keyspaces, func(p goredis.Pipeliner, ks keyspace) *goredis.XMessageSliceCmd {
			return p.XRevRangeN(ctx, ks.base+"samples", cmp.Or(after, "+"), "-", int64(count))
		})
		lists := make([][]ref, len(pages))
		for i, page := range pages {
			lists[i] = sampleRefs(tenant, page.Val())
		}
		return mergeLists(lists, count, compareNewestFirst), err
	})
}

func compareNewestFirst(a, b position) int { return comparePositions(b, a) }

// mergeLists merges lists, each ordered by compare. If a list has count references, more references can follow in the
// keyspace, so the result ends where the first such list ends. A result with fewer than count references is complete.
func mergeLists(lists [][]ref, count int, compare func(a, b position) int) (refs []ref) {
	var end *position
	for _, list := range lists {
		refs = append(refs, list...)
		if len(list) == count && (end == nil || compare(list[count-1].position, *end) < 0) {
			end = &list[count-1].position
		}
	}
	slices.SortStableFunc(refs, func(a, b ref) int { return compare(a.position, b.position) })
	if end == nil {
		return refs
	}
	return slices.DeleteFunc(refs, func(r ref) bool { return compare(r.position, *end) > 0 })
}

// readPage returns a list page. A position is written as numberCount integers. refsAfter returns at most count
// references after a position ("" means from the start). If there are fewer, no reference follows.
func readPage[T any](ctx context.Context, s *Store, op string, within session.ListRange, numberCount int,
	load func(ctx context.Context, c client, refs []ref) ([]T, error), refsAfter func(c client, after string, count int) ([]ref, error),
) (p session.Page[T], err error) {
	after := ""
	if within.After != "" {
		texts := strings.Split(within.After, "-")
		for _, text := range texts {
			if _, err := strconv.ParseUint(text, 10, 63); err != nil || len(texts) != numberCount {
				return p, fmt.Errorf("redis: %w", session.ErrUnknownPosition)
			}
		}
		after = "(" + within.After
	}
	builder := newPageBuilder(within)
	count := 4 // references from each shard; the count grows, because a narrow time range needs many
	err = s.do(ctx, op, func(c client) error {
		for !builder.isDone() {
			if s.shards.Load() == 1 {
				count = oldLayoutBatch
			}
			refs, err := refsAfter(c, after, count)
			if err != nil {
				return err
			}
			builder.add(refs, len(refs) < count)
			after = "(" + builder.last.String()
			count = min(4*count, 64)
		}
		p.List, err = load(ctx, c, builder.refs)
		return err
	})
	if builder.more {
		p.Next = builder.last.String()
	}
	return p, err
}

// pageBuilder collects a page's references with from <= at < to (in Unix microseconds).
type pageBuilder struct {
	from, to int64
	limit    int
	refs     []ref
	last     position
	scanned  int
	more     bool // more references can follow last
	atEnd    bool
}

func newPageBuilder(within session.ListRange) *pageBuilder {
	l := &pageBuilder{limit: min(max(within.Limit, 1), pageRefs), more: true}
	l.from, l.to = bounds(within.Since, within.Until)
	return l
}

func (b *pageBuilder) isDone() bool {
	return b.atEnd || len(b.refs) == b.limit || b.scanned >= maxScannedRefs
}

// add adds the references in the time range, until the page is full. complete means that no references follow.
func (b *pageBuilder) add(refs []ref, complete bool) {
	for i, r := range refs {
		b.last = r.position
		b.scanned++
		if r.at >= b.from && r.at < b.to {
			b.refs = append(b.refs, r)
		}
		if len(b.refs) == b.limit {
			b.more = !complete || i < len(refs)-1
			return
		}
	}
	if complete {
		b.more, b.atEnd = false, true
	}
}
