package redis

import (
	"context"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"precept/feedback"
	"precept/session"
)

// Park keeps feedback for a key that has not gone by yet. Versions of one entry fold as in
// AddFeedback. The exchange may land between the caller's look-up and Park: look the key up once
// more afterwards.
func (s *Store) Park(ctx context.Context, tenant string, key session.EchoKey, e feedback.Entry) error {
	v, err := packEntry(&e)
	if err != nil {
		return fmt.Errorf("redis: park: %w", err)
	}
	p := newPlan(&s.scripts.park)
	k := echoBytes(key)
	run1 := p.add(s.base(tenant), strconv.Itoa(s.opt.MaxParked), strconv.Itoa(s.opt.MaxFeedback), k, hex.EncodeToString([]byte(k)), digest(e.ID), score(e.At), v)
	if err := s.commit(ctx, "park", p, tenant); err != nil || run1.number() > 0 {
		return err
	}
	return fmt.Errorf("redis: park: %w", session.ErrParkingFull)
}

// Join moves what waits for the keys to the sessions that have them, each key in one step. It tells
// how many entries changed each session's set, as AddFeedback does.
func (s *Store) Join(ctx context.Context, tenant string, owners map[session.EchoKey]session.ID) (map[session.ID]int, error) {
	added := map[session.ID]int{}
	if len(owners) == 0 {
		return added, ctx.Err()
	}
	base := s.base(tenant)
	p := newPlan(&s.scripts.join)
	of := map[*call][]session.ID{}
	err := s.do(ctx, "join feedback", func(c goredis.UniversalClient) error {
		waiting, err := c.ZCard(ctx, base+"parked").Result()
		if err != nil || waiting == 0 {
			return err
		}
		for _, k := range slices.Sorted(maps.Keys(owners)) {
			b, id := echoBytes(k), owners[k]
			one := p.add(base, b, hex.EncodeToString([]byte(b)), string(id[:]), strconv.Itoa(s.opt.MaxFeedback))
			of[one] = append(of[one], id)
		}
		return run(ctx, c, p.calls)
	})
	if err != nil {
		return nil, err
	}
	return added, p.tally(of, added)
}

// PurgeParked gives up on feedback from before the given time and says on how much.
func (s *Store) PurgeParked(ctx context.Context, before time.Time) (n int, err error) {
	names, err := s.Tenants(ctx)
	if err != nil {
		return 0, err
	}
	for _, name := range names {
		gone, err := s.purge(ctx, name, "("+score(before))
		n += gone
		if err != nil {
			return n, err
		}
	}
	return n, nil
}

// purge gives up on a tenant's feedback up to a bound, in steps.
func (s *Store) purge(ctx context.Context, tenant, bound string) (n int, err error) {
	for gone := callItems; gone == callItems; {
		p := newPlan(&s.scripts.purge)
		one := p.add(s.base(tenant), bound, strconv.Itoa(callItems))
		err := s.do(ctx, "purge parked feedback", func(c goredis.UniversalClient) error { return run(ctx, c, p.calls) })
		if err != nil {
			return n, err
		}
		gone = one.number()
		n += gone
	}
	return n, nil
}
