package redis

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	goredis "github.com/redis/go-redis/v9"

	"precept/bandit/trial"
	"precept/internal/session"
)

// counterReads is the number of times that the counters are read while other replicas change them.
const counterReads = 4

// Counters returns the non-zero counters of a tenant, sorted by scope, field and day. Rows are read
// one after the other, and all again after a concurrent settlement. If settlements never pause, the
// last sessions may be counted in some rows only.
func (s *Store) Counters(ctx context.Context, tenant string) (list []trial.Delta, err error) {
	err = s.do(ctx, "counters", func(c client) error {
		before, err := s.counterPosition(ctx, c, tenant)
		for range counterReads {
			if err != nil {
				return err
			}
			if list, err = s.counters(ctx, c, tenant); err != nil {
				return err
			}
			var after string
			if after, err = s.counterPosition(ctx, c, tenant); err == nil && after == before {
				break
			}
			before = after
		}
		return err
	})
	slices.SortFunc(list, trial.Compare)
	return list, err
}

func (s *Store) counterPosition(ctx context.Context, c client, tenant string) (string, error) {
	v, err := c.HGet(ctx, s.base(tenant)+"t", "moved").Result()
	if absent(err) {
		return "", nil
	}
	return v, err
}

// Moved returns, for each tenant, the position of the counters and of the feedback on open
// sessions. A reader that has read a position need not read again.
func (s *Store) Moved(ctx context.Context) (map[string]session.Stand, error) {
	out := map[string]session.Stand{}
	stand := func(p goredis.Pipeliner, base string) *goredis.SliceCmd {
		return p.HMGet(ctx, base+"t", "moved", "told")
	}
	err := askAll(ctx, s, "moved", stand, func(name string, cmd *goredis.SliceCmd) error {
		var stand session.Stand
		if v := cmd.Val(); len(v) == 2 {
			stand.Counters, _ = v[0].(string)
			stand.ProvisionalRewards = integer(v[1])
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
	names := map[string]string{} // every row holds the same few dozen names
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

// Raise sets each maximum of a tenant to the given value if the given value is greater. Calls may
// be repeated and reordered.
func (s *Store) Raise(ctx context.Context, tenant string, maxima []trial.Delta) error {
	p := newPlan("raise")
	for _, m := range maxima {
		p.add(s.base(tenant), rowName(m.Key.Scope, m.Key.Day)+"\x00"+m.Key.Field, ordered(m.Value))
	}
	return s.commit(ctx, "raise", p, tenant)
}

// Maxima returns the values that Raise has set, sorted by scope, field and day.
func (s *Store) Maxima(ctx context.Context, tenant string) (list []trial.Delta, err error) {
	all, err := ask(ctx, s, "maxima", func(c client) (map[string]string, error) {
		return c.HGetAll(ctx, s.base(tenant)+"maxima").Result()
	})
	for name, v := range all {
		i := strings.LastIndexByte(name, 0)
		if i < 0 || len(v) != 8 {
			return nil, fmt.Errorf("redis: %w: the maximum %q", ErrCorrupt, name)
		}
		k, err := fromRowName(name[:i])
		if err != nil {
			return nil, fmt.Errorf("redis: maxima: %w", err)
		}
		k.Field = name[i+1:]
		list = append(list, trial.Delta{Key: k, Value: fromOrdered(v)})
	}
	slices.SortFunc(list, trial.Compare)
	return list, err
}

// Priors returns the newest priors and the version of the priors; 0: none.
func (s *Store) Priors(ctx context.Context, tenant string) (version int64, data []byte, err error) {
	v, err := ask(ctx, s, "priors", func(c client) ([]any, error) { return c.HMGet(ctx, s.base(tenant)+"priors", "v", "d").Result() })
	if err != nil || len(v) != 2 || v[0] == nil {
		return 0, nil, err
	}
	if version, err = strconv.ParseInt(fmt.Sprint(v[0]), 10, 64); err != nil {
		return 0, nil, fmt.Errorf("redis: %w: the version of the priors is %q", ErrCorrupt, v[0])
	}
	text, _ := v[1].(string)
	return version, []byte(text), nil
}

// PutPriors publishes priors as version from+1, if from is still the current version.
func (s *Store) PutPriors(ctx context.Context, tenant string, from int64, data []byte) (ok bool, err error) {
	err = s.change(ctx, "put priors", []string{tenant}, func(c client) error {
		ok, err = s.script(ctx, c, "priors", s.base(tenant), from, from+1, data).Bool()
		return err
	})
	return err == nil && ok, err
}

// Meta returns one of precept's own values.
func (s *Store) Meta(ctx context.Context, key string) (value []byte, ok bool, err error) {
	return s.value(ctx, "meta", s.commonKey("values"), key)
}

// value returns a field of a hash.
func (s *Store) value(ctx context.Context, op, key, field string) (value []byte, ok bool, err error) {
	err = s.do(ctx, op, func(c client) error {
		text, err := c.HGet(ctx, key, field).Result()
		if err == nil {
			value, ok = []byte(text), true
		}
		return err
	})
	return value, ok, err
}

// InitMeta sets a value that all replicas share, such as the salt of the coins, unless another
// replica has set the value. InitMeta returns the active value.
func (s *Store) InitMeta(ctx context.Context, key string, value []byte) ([]byte, error) {
	return ask(ctx, s, "init meta", func(c client) ([]byte, error) {
		if err := c.HSetNX(ctx, s.commonKey("values"), key, value).Err(); err != nil {
			return nil, err
		}
		return c.HGet(ctx, s.commonKey("values"), key).Bytes()
	})
}
