package redis

import (
	"context"
	"strconv"
	"sync"

	goredis "github.com/redis/go-redis/v9"

	"precept/internal/session"
)

// stands remembers the positions of all tenants, so that a look reads the shards that have changed.
type stands struct {
	mu      sync.Mutex
	read    map[string][2]int64 // by lists of a shard: the last settlement and the last place of feedback that were read
	tenants map[string]*stand
	lost    int // number of shards that lost data
}

// stand is the position of a tenant.
type stand struct {
	settled int64         // sum of the changes of counters
	told    map[int]int64 // newest place of feedback in each shard
}

// Moved returns, for each tenant, the position of the counters and of the feedback on open sessions. A
// reader that has read a position need not read again. Moved reads the shards that have changed since
// the last call.
func (s *Store) Moved(ctx context.Context) (map[string]session.Stand, error) {
	s.stands.mu.Lock()
	defer s.stands.mu.Unlock()
	out := map[string]session.Stand{}
	if err := s.do(ctx, "moved", func(client) error { return nil }); err != nil {
		return nil, err
	}
	if s.shards.Load() == 1 {
		question := func(p goredis.Pipeliner, in part) *goredis.SliceCmd {
			return p.HMGet(ctx, in.lists+"t", "moved", "told")
		}
		return out, askAll(ctx, s, "moved", s.lists, question, func(in part, cmd *goredis.SliceCmd) error {
			stand := session.Stand{}
			stand.Counters, _ = cmd.Val()[0].(string)
			if told := integer(cmd.Val()[1]); told > 0 {
				stand.ProvisionalRewards = formatPlaces(map[int]int64{0: told})
			}
			out[in.tenant] = stand
			return nil
		})
	}
	if err := s.do(ctx, "moved", func(c client) error { return s.readStands(ctx, c) }); err != nil {
		return nil, err
	}
	for name, at := range s.stands.tenants {
		out[name] = session.Stand{Counters: strconv.Itoa(s.stands.lost) + " " + strconv.FormatInt(at.settled, 10), ProvisionalRewards: formatPlaces(at.told)}
	}
	return out, nil
}

// readStands reads the tenants that have changed in each shard. Lock s.stands.mu.
func (s *Store) readStands(ctx context.Context, c client) error {
	all, err := s.lists(ctx, c)
	if err != nil {
		return err
	}
	latest, err := piped(ctx, c, all, func(p goredis.Pipeliner, in part) *goredis.SliceCmd { return p.HMGet(ctx, in.lists+"t", "moved", "q") })
	if err != nil {
		return err
	}
	if s.stands.tenants == nil {
		s.stands.tenants, s.stands.read = map[string]*stand{}, map[string][2]int64{}
	}
	type look struct {
		shard    int
		from, to [2]int64
	}
	var looks []look
	for i, in := range all {
		to, from := [2]int64{integer(latest[i].Val()[0]), integer(latest[i].Val()[1])}, s.stands.read[in.lists]
		if to[0] < from[0] || to[1] < from[1] { // the server has lost data: read everything
			s.stands.lost++
			from = [2]int64{}
			for _, at := range s.stands.tenants {
				delete(at.told, i)
			}
		}
		if to != from {
			looks = append(looks, look{i, from, to})
		}
	}
	after := func(n int64) *goredis.ZRangeBy {
		return &goredis.ZRangeBy{Min: "(" + strconv.FormatInt(n, 10), Max: "+inf"}
	}
	settled, err := piped(ctx, c, looks, func(p goredis.Pipeliner, l look) *goredis.ZSliceCmd {
		return p.ZRangeByScoreWithScores(ctx, all[l.shard].lists+"moved", after(l.from[0]))
	})
	if err != nil {
		return err
	}
	told, err := piped(ctx, c, looks, func(p goredis.Pipeliner, l look) *goredis.ZSliceCmd {
		return p.ZRangeByScoreWithScores(ctx, all[l.shard].lists+"told", after(l.from[1]))
	})
	if err != nil {
		return err
	}
	of := func(z goredis.Z) *stand {
		name, _ := z.Member.(string)
		if s.stands.tenants[name] == nil {
			s.stands.tenants[name] = &stand{told: map[int]int64{}}
		}
		return s.stands.tenants[name]
	}
	for i, l := range looks {
		for _, z := range settled[i].Val() {
			of(z).settled++
		}
		for _, z := range told[i].Val() {
			of(z).told[l.shard] = int64(z.Score)
		}
		s.stands.read[all[l.shard].lists] = l.to
	}
	return nil
}
