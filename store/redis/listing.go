package redis

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"

	goredis "github.com/redis/go-redis/v9"

	"precept/internal/session"
)

const (
	listedScan  = 20_000 // entries that one page looks at
	listedBatch = 500    // entries that one call reads
)

// Newest returns a page of a tenant's sessions in the order of their first write, newest first.
// Only the heads of sessions outside of the time range are read.
func (s *Store) Newest(ctx context.Context, tenant string, of session.Stretch) (session.Page[session.Listed], error) {
	return newest(ctx, s, "list sessions", of, 1, s.readListed, func(c client, before string) ([]ref, error) {
		by := &goredis.ZRangeBy{Min: "-inf", Max: cmp.Or(before, "+inf"), Count: listedBatch}
		list, err := c.ZRevRangeByScoreWithScores(ctx, s.base(tenant)+"order", by).Result()
		if err != nil {
			return nil, err
		}
		return s.sessionRefs(ctx, c, tenant, list)
	})
}

// NewestSamples returns a page of a tenant's samples likewise.
func (s *Store) NewestSamples(ctx context.Context, tenant string, of session.Stretch) (session.Page[session.StoredSample], error) {
	return newest(ctx, s, "list samples", of, 2, s.sampleDocs, func(c client, before string) ([]ref, error) {
		entries, err := c.XRevRangeN(ctx, s.base(tenant)+"samples", cmp.Or(before, "+"), "-", listedBatch).Result()
		return sampleRefs(tenant, entries), err
	})
}

// newest reads a page of a list. A place in the list consists of the given number of integers.
// refsBefore returns the references before a place ("": the newest), load the values of references.
func newest[T any](ctx context.Context, s *Store, op string, of session.Stretch, numbers int,
	load func(ctx context.Context, c client, refs []ref) ([]T, error), refsBefore func(c client, before string) ([]ref, error),
) (p session.Page[T], err error) {
	before := ""
	if of.After != "" {
		parts := strings.Split(of.After, "-")
		for _, part := range parts {
			if _, err := strconv.ParseUint(part, 10, 63); err != nil || len(parts) != numbers {
				return p, fmt.Errorf("redis: %w", session.ErrPlace)
			}
		}
		before = "(" + of.After
	}
	l := newList(of)
	err = s.do(ctx, op, func(c client) error {
		for !l.done() {
			refs, err := refsBefore(c, before)
			if err != nil {
				return err
			}
			l.add(refs, len(refs) < listedBatch)
			before = "(" + l.last.String()
		}
		p.List, err = load(ctx, c, l.chosen)
		return err
	})
	if l.more {
		p.Next = l.last.String()
	}
	return p, err
}

// list collects the references of a page.
type list struct {
	from, to int64
	most     int
	chosen   []ref
	last     place // position of the last entry
	scanned  int
	more     bool // more entries may follow last
	atEnd    bool
}

func newList(of session.Stretch) *list {
	l := &list{most: min(max(of.Most, 1), pageRefs), more: true}
	l.from, l.to = bounds(of.Since, of.Until)
	return l
}

func (l *list) done() bool { return l.atEnd || len(l.chosen) == l.most || l.scanned >= listedScan }

// add adds references that are in the time range. all reports that no references follow.
func (l *list) add(refs []ref, all bool) {
	for i, r := range refs {
		l.last = r.place
		l.scanned++
		if r.at >= l.from && r.at < l.to {
			l.chosen = append(l.chosen, r)
		}
		if len(l.chosen) == l.most {
			l.more = !all || i < len(refs)-1
			return
		}
	}
	if all {
		l.more, l.atEnd = false, true
	}
}
