package redis

import (
	"context"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"precept/bandit/feedback"
	"precept/internal/session"
)

// Park keeps feedback for a key that has not gone by yet. Versions of one entry fold as in
// AddFeedback. The exchange may land between the caller's look-up and Park: look the key up once
// more afterwards.
func (s *Store) Park(ctx context.Context, tenant string, key session.EchoKey, e feedback.Entry) error {
	v, err := packEntry(&e)
	if err != nil {
		return fmt.Errorf("redis: park: %w", err)
	}
	k, n := echoBytes(key), 0
	err = s.change(ctx, "park", []string{tenant}, func(c client) error {
		n, err = s.script(ctx, c, "park", s.base(tenant), s.opt.MaxParked, s.opt.MaxFeedback, k, hex.EncodeToString([]byte(k)), digest(e.ID), score(e.At), v).Int()
		return err
	})
	if err == nil && n == 0 {
		err = fmt.Errorf("redis: park: %w", session.ErrParkingFull)
	}
	return err
}

// Join moves what waits for the keys to the sessions that have them, each key in one step. It tells
// how many entries changed each session's set, as AddFeedback does.
func (s *Store) Join(ctx context.Context, tenant string, owners map[session.EchoKey]session.ID) (map[session.ID]int, error) {
	if len(owners) == 0 {
		return map[session.ID]int{}, ctx.Err()
	}
	p, base := newPlan("join"), s.base(tenant)
	var of []session.ID
	for _, k := range slices.Sorted(maps.Keys(owners)) {
		b, id := echoBytes(k), owners[k]
		p.add(base, b, hex.EncodeToString([]byte(b)), string(id[:]), strconv.Itoa(s.opt.MaxFeedback))
		of = append(of, id)
	}
	err := s.do(ctx, "join feedback", func(c client) error {
		waiting, err := c.ZCard(ctx, base+"parked").Result()
		if err != nil || waiting == 0 {
			p.calls = nil // which is nearly always so
			return err
		}
		return s.run(ctx, c, p)
	})
	if err != nil {
		return nil, err
	}
	return tally(p, of)
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
	for gone := callItems; gone == callItems; n += gone {
		gone, err = ask(ctx, s, "purge parked feedback", func(c client) (int, error) {
			return s.script(ctx, c, "purge", s.base(tenant), bound, callItems).Int()
		})
		if err != nil {
			return n, err
		}
	}
	return n, nil
}
