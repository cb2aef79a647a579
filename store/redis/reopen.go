package redis

import (
	"context"

	goredis "github.com/redis/go-redis/v9"
)

// reopenedField of a tenant's totals says that its sessions were looked through.
const reopenedField = "reopened"

// reopen makes those sessions due again that a release before called closed although they were
// never settled: nothing of them was learned. Each tenant is looked through once in its life, by
// whichever replica comes first; twice does no harm.
func (s *Store) reopen(ctx context.Context, c goredis.UniversalClient) (n int, err error) {
	names, err := s.tenants(ctx, c)
	if err != nil {
		return 0, err
	}
	for _, name := range names {
		base := s.base(name)
		pipe := c.Pipeline()
		looked := pipe.HExists(ctx, base+"t", reopenedField)
		pipe.Del(ctx, base+"exchanges") // releases before kept the order of exchanges there, for nobody
		if err := each(ctx, pipe); err != nil {
			return n, err
		}
		done := looked.Val()
		for from := int64(0); !done; from += callItems {
			ids, err := c.ZRevRange(ctx, base+"order", from, from+callItems-1).Result()
			if err != nil {
				return n, err
			}
			k := &call{script: &s.scripts.reopen, base: base}
			for _, id := range ids {
				k.args = append(k.args, id)
			}
			if err := run(ctx, c, []*call{k}); err != nil {
				return n, err
			}
			n += k.number()
			if done = len(ids) < callItems; done {
				err = c.HSet(ctx, base+"t", reopenedField, 1).Err()
			}
			if err != nil {
				return n, err
			}
		}
	}
	return n, nil
}
