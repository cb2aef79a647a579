package redis

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"precept/session"
)

// asideHead is what stands of a mark before its document: whether it is left alone, and how often
// it was set aside.
const asideHead = 7

// asideDoc is what stands of a mark in its document.
type asideDoc struct {
	Step string    `json:"step"`
	Why  string    `json:"why"`
	At   time.Time `json:"at"`
}

// SetAside marks sessions and exchanges at which a step panicked. A session is neither due nor
// unsettled from then on, until Readmit lets it in again or a settlement of it goes through.
func (s *Store) SetAside(ctx context.Context, list []session.Aside) error {
	byTenant := map[string][]any{}
	var names []string
	for i := range list {
		a := &list[i]
		doc, err := json.Marshal(asideDoc{a.Step, a.Why, a.At.UTC()})
		if err != nil {
			return fmt.Errorf("redis: set aside: %w: %w", session.ErrInvalid, err)
		}
		if byTenant[a.Tenant] == nil {
			names = append(names, a.Tenant)
			byTenant[a.Tenant] = []any{"out"}
		}
		byTenant[a.Tenant] = append(byTenant[a.Tenant], string(a.ID[:]), a.Exchange, string(doc), score(a.At))
	}
	if len(names) == 0 {
		return ctx.Err()
	}
	calls := make([]*call, 0, len(names))
	for _, name := range names {
		calls = append(calls, &call{script: &s.scripts.aside, base: s.base(name), args: byTenant[name]})
	}
	return s.do(ctx, "set aside", func(c goredis.UniversalClient) error {
		if err := s.register(ctx, c, names...); err != nil {
			return err
		}
		return run(ctx, c, calls)
	})
}

// Readmit lets those sessions be tried again that were set aside fewer times than most, and those
// that a release before closed without settling them. It says how many they are.
func (s *Store) Readmit(ctx context.Context, most int) (n int, err error) {
	err = s.do(ctx, "readmit", func(c goredis.UniversalClient) error {
		if n, err = s.reopen(ctx, c); err != nil {
			return err
		}
		names, err := s.withAside(ctx, c)
		if err != nil {
			return err
		}
		calls := make([]*call, 0, len(names))
		for _, name := range names {
			calls = append(calls, &call{script: &s.scripts.aside, base: s.base(name), args: []any{"in", strconv.Itoa(most)}})
		}
		err = run(ctx, c, calls)
		for _, k := range calls {
			n += k.number()
		}
		return err
	})
	return n, err
}

// withAside are the tenants of whom something is set aside.
func (s *Store) withAside(ctx context.Context, c goredis.UniversalClient) (out []string, err error) {
	names, err := s.tenants(ctx, c)
	if err != nil {
		return nil, err
	}
	many := func(p goredis.Pipeliner, base string) *goredis.IntCmd { return p.HLen(ctx, base+"aside") }
	err = ask(ctx, c, s, names, many, func(name string, n *goredis.IntCmd) error {
		if n.Val() > 0 {
			out = append(out, name)
		}
		return nil
	})
	return out, err
}

// Aside lists the marks, the latest first, at most limit of them, and says how many there are.
func (s *Store) Aside(ctx context.Context, limit int) (list []session.Aside, total int, err error) {
	err = s.do(ctx, "aside", func(c goredis.UniversalClient) error {
		names, err := s.withAside(ctx, c)
		for _, name := range names {
			var all map[string]string
			if all, err = c.HGetAll(ctx, s.base(name)+"aside").Result(); err != nil {
				break
			}
			for field, value := range all {
				a, err := toAside(name, field, value)
				if err != nil {
					return err
				}
				list = append(list, a)
			}
		}
		return err
	})
	slices.SortFunc(list, func(a, b session.Aside) int { return cmp.Or(b.At.Compare(a.At), cmp.Compare(a.Exchange, b.Exchange)) })
	total = len(list)
	return list[:min(limit, total)], total, err
}

func toAside(tenant, field, value string) (session.Aside, error) {
	const size = len(session.ID{})
	if len(field) < size || len(value) < asideHead {
		return session.Aside{}, fmt.Errorf("%w: a mark is cut", ErrCorrupt)
	}
	var doc asideDoc
	if err := json.Unmarshal([]byte(value[asideHead:]), &doc); err != nil {
		return session.Aside{}, fmt.Errorf("%w: a mark does not parse: %w", ErrCorrupt, err)
	}
	tries, _ := strconv.Atoi(value[1:asideHead])
	return session.Aside{
		Tenant: tenant, ID: toID(field), Exchange: field[size:], Step: doc.Step, Why: doc.Why, At: doc.At, Tries: tries,
	}, nil
}

// Unsampled counts the exchanges that no sample knows although their session was settled, or will
// not be because it was set aside.
func (s *Store) Unsampled(ctx context.Context) (n int64, err error) {
	err = s.do(ctx, "unsampled", func(c goredis.UniversalClient) error {
		names, err := s.tenants(ctx, c)
		if err != nil {
			return err
		}
		for part := range slices.Chunk(names, 500) {
			pipe := c.Pipeline()
			late := make([]*goredis.StringCmd, len(part))
			marks := make([]*goredis.MapStringStringCmd, len(part))
			for i, name := range part {
				late[i] = pipe.HGet(ctx, s.base(name)+"t", "late")
				marks[i] = pipe.HGetAll(ctx, s.base(name)+"aside")
			}
			if err := each(ctx, pipe); err != nil {
				return err
			}
			for i, name := range part {
				n += integer(late[i].Val())
				left, err := s.left(ctx, c, name, marks[i].Val())
				if err != nil {
					return err
				}
				n += left
			}
		}
		return nil
	})
	return n, err
}

// left counts the exchanges of open sessions that are left alone.
func (s *Store) left(ctx context.Context, c goredis.UniversalClient, tenant string, marks map[string]string) (n int64, err error) {
	for field, value := range marks {
		if len(value) == 0 || value[0] != '1' {
			continue
		}
		id := toID(field)
		settled, err := c.HExists(ctx, s.sessionKey(tenant, id), "a").Result()
		if err != nil {
			return n, err
		}
		if settled {
			continue
		}
		k, err := c.HLen(ctx, s.base(tenant)+"x:"+id.String()).Result()
		if err != nil {
			return n, err
		}
		n += k
	}
	return n, nil
}
