package redis

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"

	goredis "github.com/redis/go-redis/v9"

	"precept/bandit/trial"
	"precept/internal/session"
)

// counterReads is how often the counters are read again when another replica moved them meanwhile.
const counterReads = 4

// Counters lists a tenant's counters, sorted by scope, field and day; counters that are zero are
// left out. Rows are read one after the other, and all of them again when somebody settled
// meanwhile; on a Redis where that never rests, the last sessions may be counted in some rows and
// not yet in others.
func (s *Store) Counters(ctx context.Context, tenant string) (list []trial.Delta, err error) {
	err = s.do(ctx, "counters", func(c client) error {
		before, err := s.moved(ctx, c, tenant)
		for range counterReads {
			if err != nil {
				return err
			}
			if list, err = s.counters(ctx, c, tenant); err != nil {
				return err
			}
			var after string
			if after, err = s.moved(ctx, c, tenant); err == nil && after == before {
				break
			}
			before = after
		}
		return err
	})
	slices.SortFunc(list, trial.Compare)
	return list, err
}

func (s *Store) moved(ctx context.Context, c client, tenant string) (string, error) {
	v, err := c.HGet(ctx, s.base(tenant)+"t", "moved").Result()
	if absent(err) {
		return "", nil
	}
	return v, err
}

// Moved says of each tenant how far its counters, and what open sessions told, have come, by
// whomever: who has read them need not read them again while that stands.
func (s *Store) Moved(ctx context.Context) (map[string]session.Stand, error) {
	out := map[string]session.Stand{}
	stand := func(p goredis.Pipeliner, base string) *goredis.SliceCmd {
		return p.HMGet(ctx, base+"t", "moved", "told")
	}
	err := askAll(ctx, s, "moved", stand, func(name string, cmd *goredis.SliceCmd) error {
		var stand session.Stand
		if v := cmd.Val(); len(v) == 2 {
			stand.Counters, _ = v[0].(string)
			stand.Told = integer(v[1])
		}
		out[name] = stand
		return nil
	})
	return out, err
}

func (s *Store) counters(ctx context.Context, c client, tenant string) (list []trial.Delta, err error) {
	base := s.base(tenant)
	index, err := c.HGetAll(ctx, base+"counters").Result()
	if err != nil {
		return nil, err
	}
	rows := slices.Collect(maps.Keys(index))
	names := map[string]string{} // a few dozen names stand in every row
	for part := range slices.Chunk(rows, 200) {
		cmds, err := piped(ctx, c, part, func(p goredis.Pipeliner, k string) *goredis.MapStringStringCmd { return p.HGetAll(ctx, base+"c:"+k) })
		if err != nil {
			return nil, err
		}
		for i, k := range part {
			row, err := fromRowName(index[k])
			if err != nil {
				return nil, err
			}
			if list, err = addRow(list, row, cmds[i].Val(), names); err != nil {
				return nil, err
			}
		}
	}
	return list, nil
}

func addRow(list []trial.Delta, row trial.Key, fields, names map[string]string) ([]trial.Delta, error) {
	for field, text := range fields {
		v, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("%w: counter %s of %q is %q", ErrCorrupt, field, row.Scope, text)
		}
		name, ok := names[field]
		if !ok {
			name = field
			names[name] = name
		}
		row.Field = name
		list = append(list, trial.Delta{Key: row, Value: v})
	}
	return list, nil
}
