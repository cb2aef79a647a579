package redis

import "context"

// reopenedField of a tenant's totals says that its sessions were looked through.
const reopenedField = "reopened"

// reopen makes those sessions of a tenant due again that a release before called closed although
// they were never settled: nothing of them was learned. They are looked through once in a tenant's
// life, by whichever replica comes first; twice does no harm.
func (s *Store) reopen(ctx context.Context, c client, tenant string) (n int, err error) {
	base := s.base(tenant)
	pipe := c.Pipeline()
	looked := pipe.HExists(ctx, base+"t", reopenedField)
	pipe.Del(ctx, base+"exchanges") // releases before kept the order of exchanges there, for nobody
	if err := each(ctx, pipe); err != nil || looked.Val() {
		return 0, err
	}
	for from := int64(0); ; from += callItems {
		ids, err := c.ZRevRange(ctx, base+"order", from, from+callItems-1).Result()
		if err != nil {
			return n, err
		}
		opened, err := s.script(ctx, c, "reopen", base, anys(ids)...).Int()
		if n += opened; err != nil {
			return n, err
		}
		if len(ids) < callItems {
			return n, c.HSet(ctx, base+"t", reopenedField, 1).Err()
		}
	}
}
