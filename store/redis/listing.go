package redis

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"precept/session"
)

// A page looks at this many entries at most, and asks for this many of them at a time.
const (
	listedScan  = 20_000
	listedBatch = 500
)

// Newest lists a tenant's sessions in the order in which they were first written, the latest first.
// Of sessions that are out of the stretch's time only the head is read.
func (s *Store) Newest(ctx context.Context, tenant string, of session.Stretch) (p session.Page[session.Listed], err error) {
	l := newList(of)
	max := "+inf"
	if of.After != "" {
		n, err := strconv.ParseInt(of.After, 10, 64)
		if err != nil {
			return p, fmt.Errorf("redis: %w", session.ErrPlace)
		}
		max = "(" + strconv.FormatInt(n, 10)
	}
	err = s.do(ctx, "list sessions", func(c goredis.UniversalClient) error {
		for !l.done() {
			part, err := c.ZRevRangeByScoreWithScores(ctx, s.base(tenant)+"order", &goredis.ZRangeBy{Min: "-inf", Max: max, Count: listedBatch}).Result()
			if err != nil {
				return err
			}
			refs := make([]ref, len(part))
			for i, z := range part {
				id, _ := z.Member.(string)
				refs[i] = ref{tenant: tenant, place: place{major: int64(z.Score)}, id: toID(id)}
			}
			if err := s.heads(ctx, c, refs); err != nil {
				return err
			}
			l.add(refs, len(part) < listedBatch)
			if len(part) > 0 {
				max = "(" + strconv.FormatInt(int64(part[len(part)-1].Score), 10)
			}
		}
		list, err := s.loadBoth(ctx, c, l.chosen)
		for i := range list {
			p.List = append(p.List, session.Listed{Row: list[i].row, Applied: list[i].applied})
		}
		return err
	})
	if l.more {
		p.Next = strconv.FormatInt(l.last.major, 10)
	}
	return p, err
}

// heads reads when each of the sessions began.
func (s *Store) heads(ctx context.Context, c goredis.UniversalClient, refs []ref) error {
	pipe := c.Pipeline()
	cmds := make([]*goredis.StringCmd, len(refs))
	for i, r := range refs {
		cmds[i] = pipe.HGet(ctx, s.sessionKey(r.tenant, r.id), "h")
	}
	if len(refs) == 0 {
		return nil
	}
	if err := each(ctx, pipe); err != nil {
		return err
	}
	for i := range cmds {
		refs[i].at = math.MinInt64 // gone meanwhile
		if h := cmds[i].Val(); len(h) == 17 {
			refs[i].at = fromOrdered(h[:8])
		}
	}
	return nil
}

// NewestSamples lists a tenant's samples likewise.
func (s *Store) NewestSamples(ctx context.Context, tenant string, of session.Stretch) (p session.Page[session.StoredSample], err error) {
	l := newList(of)
	max := "+"
	if of.After != "" {
		major, minor, ok := strings.Cut(of.After, "-")
		_, err1 := strconv.ParseInt(major, 10, 64)
		_, err2 := strconv.ParseInt(minor, 10, 64)
		if !ok || errors.Join(err1, err2) != nil {
			return p, fmt.Errorf("redis: %w", session.ErrPlace)
		}
		max = "(" + of.After
	}
	err = s.do(ctx, "list samples", func(c goredis.UniversalClient) error {
		for !l.done() {
			entries, err := c.XRevRangeN(ctx, s.base(tenant)+"samples", max, "-", listedBatch).Result()
			if err != nil {
				return err
			}
			refs := streamRefs(tenant, entries)
			l.add(refs, len(refs) < listedBatch)
			if len(refs) > 0 {
				max = "(" + refs[len(refs)-1].place.String()
			}
		}
		p.List, err = s.sampleDocs(ctx, c, l.chosen)
		return err
	})
	if l.more {
		p.Next = l.last.String()
	}
	return p, err
}

// list gathers the references of a page.
type list struct {
	from, to int64
	most     int
	chosen   []ref
	last     place // of the last one that was looked at
	looked   int
	more     bool // there may be more behind last
	ended    bool
}

func newList(of session.Stretch) *list {
	l := &list{from: math.MinInt64 + 1, to: math.MaxInt64, most: min(max(of.Most, 1), pageRefs), more: true}
	bound := func(t time.Time, n *int64) {
		if !t.IsZero() {
			*n = micros(t)
		}
	}
	bound(of.Since, &l.from)
	bound(of.Until, &l.to)
	return l
}

func (l *list) done() bool { return l.ended || len(l.chosen) == l.most || l.looked >= listedScan }

// add goes through further references; all says that there are none behind them.
func (l *list) add(refs []ref, all bool) {
	for i, r := range refs {
		l.last = r.place
		l.looked++
		if r.at >= l.from && r.at < l.to {
			l.chosen = append(l.chosen, r)
		}
		if len(l.chosen) == l.most {
			l.more = !all || i < len(refs)-1
			return
		}
	}
	if all {
		l.more, l.ended = false, true
	}
}
