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
	v, err := packEntry(e)
	if err != nil {
		return fmt.Errorf("redis: park: %w", err)
	}
	p := newPlan(&s.scripts.park)
	k := echoBytes(key)
	run1 := p.add(s.base(tenant), strconv.Itoa(s.opt.MaxParked), k, hex.EncodeToString([]byte(k)), digest(e.ID), score(e.At), v)
	return s.do(ctx, "park", func(c goredis.UniversalClient) error {
		if err := s.register(ctx, c, tenant); err != nil {
			return err
		}
		if err := run(ctx, c, p.calls); err != nil {
			return err
		}
		if run1.number() == 0 {
			return fmt.Errorf("%w (%d entries)", ErrParkingFull, s.opt.MaxParked)
		}
		return nil
	})
}

// Unpark takes out what waits for the keys, by time, then id. What is taken out when the connection
// breaks is lost; Join does not have that gap.
func (s *Store) Unpark(ctx context.Context, tenant string, keys []session.EchoKey) (map[session.EchoKey][]feedback.Entry, error) {
	out := map[session.EchoKey][]feedback.Entry{}
	owners := map[session.EchoKey]string{}
	for _, k := range keys {
		owners[k] = ""
	}
	err := s.unpark(ctx, "unpark", tenant, owners, func(k session.EchoKey, reply any) error {
		values, _ := reply.([]any)
		texts := make([]string, len(values))
		for i := range values {
			texts[i], _ = values[i].(string)
		}
		list, err := unpackEntries(texts)
		if len(list) > 0 {
			out[k] = list
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// Join moves what waits for the keys to the sessions that have them, each key in one step. It tells
// how many entries changed each session's set, as AddFeedbackAll does.
func (s *Store) Join(ctx context.Context, tenant string, owners map[session.EchoKey]session.ID) (map[session.ID]int, error) {
	added := map[session.ID]int{}
	texts := make(map[session.EchoKey]string, len(owners))
	for k, id := range owners {
		texts[k] = string(id[:])
	}
	err := s.unpark(ctx, "join feedback", tenant, texts, func(k session.EchoKey, reply any) error {
		if n, _ := reply.(int64); n > 0 {
			added[owners[k]] += int(n)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return added, nil
}

// unpark runs join.lua for the keys, if anything waits at all, and hands each key's answer to take.
func (s *Store) unpark(ctx context.Context, op, tenant string, owners map[session.EchoKey]string, take func(session.EchoKey, any) error) error {
	if len(owners) == 0 {
		return ctx.Err()
	}
	base := s.base(tenant)
	p := newPlan(&s.scripts.join)
	of := map[*call][]session.EchoKey{}
	return s.do(ctx, op, func(c goredis.UniversalClient) error {
		waiting, err := c.ZCard(ctx, base+"parked").Result()
		if err != nil || waiting == 0 {
			return err
		}
		for _, k := range slices.Sorted(maps.Keys(owners)) {
			b := echoBytes(k)
			one := p.add(base, b, hex.EncodeToString([]byte(b)), owners[k])
			of[one] = append(of[one], k)
		}
		if err := run(ctx, c, p.calls); err != nil {
			return err
		}
		for _, one := range p.calls {
			replies, _ := one.reply.([]any)
			for i, k := range of[one] {
				if i < len(replies) {
					if err := take(k, replies[i]); err != nil {
						return err
					}
				}
			}
		}
		return nil
	})
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
