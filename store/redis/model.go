package redis

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"precept/bandit/trial"
)

// Raise sets each maximum of a tenant to the given value where that is greater. It can be repeated
// and reordered at will.
func (s *Store) Raise(ctx context.Context, tenant string, maxima []trial.Delta) error {
	p := newPlan("raise")
	for _, m := range maxima {
		p.add(s.base(tenant), rowName(m.Scope, m.Day)+"\x00"+m.Field, ordered(m.Value))
	}
	return s.commit(ctx, "raise", p, tenant)
}

// Maxima lists what Raise has set, sorted by scope, field and day.
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

// Priors is what the replica that refits them published last; version 0 when none did.
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

// PutPriors publishes priors as version from+1, if from is still the version in force.
func (s *Store) PutPriors(ctx context.Context, tenant string, from int64, data []byte) (ok bool, err error) {
	err = s.change(ctx, "put priors", []string{tenant}, func(c client) error {
		ok, err = s.script(ctx, c, "priors", s.base(tenant), from, from+1, data).Bool()
		return err
	})
	return err == nil && ok, err
}

// Meta reads one of the program's own values.
func (s *Store) Meta(ctx context.Context, key string) (value []byte, ok bool, err error) {
	return s.value(ctx, "meta", s.shared("values"), key)
}

// value reads a field of a hash.
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

// InitMeta sets a value that all replicas must share (the coins' salt) unless one was faster, and
// returns what stands.
func (s *Store) InitMeta(ctx context.Context, key string, value []byte) ([]byte, error) {
	return ask(ctx, s, "init meta", func(c client) ([]byte, error) {
		if err := c.HSetNX(ctx, s.shared("values"), key, value).Err(); err != nil {
			return nil, err
		}
		return c.HGet(ctx, s.shared("values"), key).Bytes()
	})
}
