package redis

import (
	"context"
	"slices"
	"strconv"

	goredis "github.com/redis/go-redis/v9"

	"precept/bandit/feedback"
	"precept/internal/session"
)

// OpenFeedback lists open sessions of a tenant that got feedback, the one that got some longest ago
// first, at most limit of them, beginning behind a place in that order: 0, or the place that the
// previous call returned. Beside each session stands all that was said of it.
func (s *Store) OpenFeedback(ctx context.Context, tenant string, after int64, limit int) (rows []session.Row, said [][]feedback.Entry, last int64, err error) {
	err = s.do(ctx, "feedback of open sessions", func(c client) error {
		key := s.base(tenant) + "told"
		last = after
		pipe := c.Pipeline()
		latest := pipe.HGet(ctx, s.base(tenant)+"t", "told")
		page := pipe.ZRangeByScoreWithScores(ctx, key, openBehind(after, limit))
		if err := each(ctx, pipe); err != nil {
			return err
		}
		list := page.Val()
		if integer(latest.Val()) < after { // the server has lost data: its places begin anew, below ours
			last = 0
			if list, err = c.ZRangeByScoreWithScores(ctx, key, openBehind(0, limit)).Result(); err != nil {
				return err
			}
		}
		rows, said, err = s.openFeedback(ctx, c, tenant, list)
		switch {
		case err != nil:
		case len(list) < limit: // this was the last page: the places up to the newest are of sessions that left the list
			last = integer(latest.Val())
		default:
			last = int64(list[len(list)-1].Score)
		}
		return err
	})
	return rows, said, last, err
}

func openBehind(after int64, limit int) *goredis.ZRangeBy {
	return &goredis.ZRangeBy{Min: "(" + strconv.FormatInt(after, 10), Max: "+inf", Count: int64(limit)}
}

// openFeedback reads what the listed sessions are, and what was said of them. Left out are those
// that have no row, and those whose feedback cannot be read: their closing tells of it, and the
// others must not wait for it.
func (s *Store) openFeedback(ctx context.Context, c client, tenant string, list []goredis.Z) (rows []session.Row, said [][]feedback.Entry, err error) {
	ids := make([]session.ID, len(list))
	heads := make([]*goredis.SliceCmd, len(list))
	values := make([]*goredis.StringSliceCmd, len(list))
	pipe := c.Pipeline()
	for i, z := range list {
		member, _ := z.Member.(string)
		ids[i] = toID(member)
		heads[i] = pipe.HMGet(ctx, s.sessionKey(tenant, ids[i]), "h", "d", "i")
		values[i] = pipe.HVals(ctx, s.base(tenant)+"f:"+ids[i].String())
	}
	if len(list) == 0 {
		return nil, nil, nil
	}
	if err := each(ctx, pipe); err != nil {
		return nil, nil, err
	}
	for i, id := range ids {
		r, ok := toRow(tenant, id, heads[i].Val())
		if !ok {
			continue
		}
		if entries, err := unpackEntries(values[i].Val()); err == nil {
			rows, said = append(rows, r), append(said, entries)
		}
	}
	return rows, said, nil
}

// Settled says which of a tenant's sessions the counters know.
func (s *Store) Settled(ctx context.Context, tenant string, ids []session.ID) ([]bool, error) {
	out := make([]bool, 0, len(ids))
	err := s.do(ctx, "settled", func(c client) error {
		for part := range slices.Chunk(ids, 500) {
			cmds, err := piped(ctx, c, part, func(p goredis.Pipeliner, id session.ID) *goredis.BoolCmd {
				return p.HExists(ctx, s.sessionKey(tenant, id), "a")
			})
			if err != nil {
				return err
			}
			for _, cmd := range cmds {
				out = append(out, cmd.Val())
			}
		}
		return nil
	})
	return out, err
}
