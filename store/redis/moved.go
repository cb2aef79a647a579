package redis

import (
	"context"
	"slices"
	"strconv"
	"sync"

	goredis "github.com/redis/go-redis/v9"

	"precept/internal/session"
)

// stands remembers the positions of tenants, so that a look reads the shards that have changed.
type stands struct {
	mu      sync.Mutex
	read    []seen               // of each shard; nil: no look has ended
	own     []map[int64]struct{} // by shard: numbers of own settlements after read; the caller of Settle has the deltas
	tenants map[string]*stand    // tenants that the reader follows
	changes int64                // number of changes of positions of counters
	bytes   int                  // size of all pending deltas
	looked  bool                 // a look at a store in the old layout has ended
}

// seen is the position up to which a shard was read.
type seen struct{ settled, order int64 }

// stand is the position of a tenant.
type stand struct {
	settled int64         // number of the last change of the counters, in stands.changes
	told    map[int]int64 // newest place of feedback in each shard; nil: not read
	places  string        // text of told
	counted []int64       // by shard: the settlements that the reader's counters contain; nil: unknown
	pending []logged      // settlements of other replicas after counted
}

// of returns the position of a tenant, nil before the first look. Lock mu.
func (s *stands) of(name string) *stand {
	if s.read == nil {
		return nil
	}
	if s.tenants[name] == nil {
		s.tenants[name] = &stand{}
		s.change(s.tenants[name])
	}
	return s.tenants[name]
}

// change gives the counters of a tenant a new position. Lock mu.
func (s *stands) change(at *stand) {
	s.changes++
	at.settled = s.changes
}

// keep drops all tenants except some. Lock mu.
func (s *stands) keep(names []string) {
	kept := make(map[string]*stand, len(names))
	for _, name := range names {
		if at := s.tenants[name]; at != nil {
			kept[name] = at
			delete(s.tenants, name)
		}
	}
	for _, at := range s.tenants {
		s.drop(at)
	}
	s.tenants = kept
}

// Moved returns the positions of the counters and of the feedback on open sessions of the tenants that
// the caller follows. A reader that has read a position need not read again. Moved returns other
// tenants, too, that have changed since the last call, without a position; at the first call all
// tenants with their positions. Moved reads the shards that have changed since the last call.
func (s *Store) Moved(ctx context.Context, follow []string) (map[string]session.Stand, error) {
	s.stands.mu.Lock()
	defer s.stands.mu.Unlock()
	out := map[string]session.Stand{}
	if err := s.do(ctx, "moved", func(client) error { return nil }); err != nil {
		return nil, err
	}
	if s.shards.Load() == 1 {
		return out, s.movedTenants(ctx, follow, out)
	}
	if s.stands.read != nil {
		s.stands.keep(follow)
	}
	err := s.do(ctx, "moved", func(c client) error {
		all, err := s.lists(ctx, c)
		if err != nil {
			return err
		}
		if err := s.readStands(ctx, c, all, out); err != nil {
			return err
		}
		return s.readPlaces(ctx, c, all, follow)
	})
	for name, at := range s.stands.tenants {
		out[name] = session.Stand{Counters: strconv.FormatInt(at.settled, 10), ProvisionalRewards: at.places}
	}
	return out, err
}

// movedTenants does the work of Moved in the old layout, in which each tenant has own positions. Lock
// s.stands.mu.
func (s *Store) movedTenants(ctx context.Context, follow []string, out map[string]session.Stand) error {
	followed := map[string]bool{}
	for _, name := range follow {
		followed[name] = true
	}
	parts := func(ctx context.Context, c client) (asked []part, err error) {
		all, err := s.lists(ctx, c)
		for _, in := range all {
			out[in.tenant] = session.Stand{}
			if !s.stands.looked || followed[in.tenant] {
				asked = append(asked, in)
			}
		}
		return asked, err
	}
	question := func(p goredis.Pipeliner, in part) *goredis.SliceCmd {
		return p.HMGet(ctx, in.lists+"t", "moved", "told")
	}
	err := askAll(ctx, s, "moved", parts, question, func(in part, cmd *goredis.SliceCmd) error {
		stand := session.Stand{}
		stand.Counters, _ = cmd.Val()[0].(string)
		if told := integer(cmd.Val()[1]); told > 0 {
			stand.ProvisionalRewards = formatPlaces(map[int]int64{0: told})
		}
		out[in.tenant] = stand
		return nil
	})
	s.stands.looked = s.stands.looked || err == nil
	return err
}

// look is a shard that has changed since the last look.
type look struct {
	shard    int
	from, to seen
}

// readStands reads the tenants that have changed in each shard, and adds the names to changed. Lock
// s.stands.mu.
func (s *Store) readStands(ctx context.Context, c client, all []part, changed map[string]session.Stand) error {
	latest, err := piped(ctx, c, all, func(p goredis.Pipeliner, in part) *goredis.SliceCmd { return p.HMGet(ctx, in.lists+"t", "moved", "q") })
	if err != nil {
		return err
	}
	st := &s.stands
	read := st.read
	if read == nil { // the first look, or a look after failed ones
		read, st.own, st.tenants = make([]seen, len(all)), make([]map[int64]struct{}, len(all)), map[string]*stand{}
	}
	var looks []look
	for i := range all {
		to, from := seen{integer(latest[i].Val()[0]), integer(latest[i].Val()[1])}, read[i]
		if to.settled < from.settled || to.order < from.order { // the server has lost data: read everything
			read[i], from = seen{}, seen{}
			st.forget()
			for _, at := range st.tenants {
				at.told = nil
			}
		}
		if to != from {
			looks = append(looks, look{i, from, to})
		}
	}
	if err := s.readChanges(ctx, c, all, looks, changed); err != nil {
		return err
	}
	for _, l := range looks {
		st.read[l.shard] = l.to
	}
	return nil
}

// readChanges reads the tenants and the settlements of the shards that have changed. Lock s.stands.mu.
func (s *Store) readChanges(ctx context.Context, c client, all []part, looks []look, changed map[string]session.Stand) error {
	after := func(n int64) *goredis.ZRangeBy {
		return &goredis.ZRangeBy{Min: "(" + strconv.FormatInt(n, 10), Max: "+inf"}
	}
	settled, err := piped(ctx, c, looks, func(p goredis.Pipeliner, l look) *goredis.ZSliceCmd {
		return p.ZRangeByScoreWithScores(ctx, all[l.shard].lists+"moved", after(l.from.settled))
	})
	if err != nil {
		return err
	}
	told, err := piped(ctx, c, looks, func(p goredis.Pipeliner, l look) *goredis.ZSliceCmd {
		return p.ZRangeByScoreWithScores(ctx, all[l.shard].lists+"told", after(l.from.order))
	})
	if err != nil {
		return err
	}
	gaps, err := s.readLogs(ctx, c, all, looks)
	if err != nil {
		return err
	}
	st := &s.stands
	first := st.read == nil
	if first {
		st.read = make([]seen, len(all))
	}
	tenant := func(z goredis.Z) *stand {
		name, _ := z.Member.(string)
		changed[name] = session.Stand{}
		if first {
			return st.of(name)
		}
		return st.tenants[name]
	}
	for i, l := range looks {
		for _, z := range settled[i].Val() {
			if at := tenant(z); at != nil {
				st.change(at)
				if gaps[i] {
					st.drop(at)
				}
			}
		}
		for _, z := range told[i].Val() {
			if at := tenant(z); at != nil && (first || at.told != nil) {
				at.tell(l.shard, int64(z.Score))
			}
		}
	}
	if first {
		for _, at := range st.tenants {
			if at.told == nil { // no feedback in any shard
				at.told = map[int]int64{}
			}
		}
	}
	return nil
}

// tell notes the place of the newest feedback in a shard.
func (at *stand) tell(shard int, place int64) {
	if at.told == nil {
		at.told = map[int]int64{}
	}
	at.told[shard], at.places = place, ""
}

// readPlaces reads the places of feedback of tenants that the reader follows since the last look, and
// writes changed places as text. Lock s.stands.mu.
func (s *Store) readPlaces(ctx context.Context, c client, all []part, follow []string) error {
	type question struct {
		at    *stand
		shard int
		name  string
	}
	var list []question
	for _, name := range follow {
		if at := s.stands.of(name); at.told == nil {
			for i := range all {
				list = append(list, question{at, i, name})
			}
		}
	}
	for some := range slices.Chunk(list, 4*len(all)) {
		scores, err := piped(ctx, c, some, func(p goredis.Pipeliner, q question) *goredis.FloatCmd {
			return p.ZScore(ctx, all[q.shard].lists+"told", q.name)
		})
		if err != nil {
			return err
		}
		for i, q := range some {
			if place := int64(scores[i].Val()); place > 0 {
				q.at.tell(q.shard, place)
			}
		}
		for _, q := range some {
			if q.at.told == nil {
				q.at.told = map[int]int64{}
			}
		}
	}
	for _, at := range s.stands.tenants {
		if at.places == "" && len(at.told) > 0 {
			at.places = formatPlaces(at.told)
		}
	}
	return nil
}
