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
)

const (
	// maxCounterReads limits how often a shard's counters are read again because other replicas change them.
	maxCounterReads = 4
	// shardsPerGroup is the number of shards with rows in memory at the same time. With 2,000 lessons a shard has 2,000
	// rows or more.
	shardsPerGroup = 16
)

type counterRow struct {
	name   string
	fields map[string]string
}

// Counters returns a tenant's non-zero counters, summed over all shards, and sorted by scope, field and day. A shard
// that gets a settlement during the read is read again, up to maxCounterReads times. If settlements arrive during every
// read, some rows might lack the newest settlements.
func (s *Store) Counters(ctx context.Context, tenant string) (list []trial.Delta, err error) {
	err = s.do(ctx, "counters", func(c client) error {
		keyspaces := s.tenantKeyspaces(tenant)
		// settlementsByShard holds the newest settlement included in the result, by shard. For a shard without
		// counters, this is the settlement that Positions read last.
		settlementsByShard := s.progress.lastRead(len(keyspaces))
		used, err := s.shardsWithCounters(ctx, c, keyspaces)
		if err != nil {
			return err
		}
		sums, exact := newRowSums(), true
		groups := (len(used) + shardsPerGroup - 1) / shardsPerGroup
		for g := range groups {
			var group []int // shards far apart, so that a group uses all nodes of a Cluster
			for i := g; i < len(used); i += groups {
				group = append(group, used[i])
			}
			rows, numbers, ok, err := s.readGroup(ctx, c, keyspaces, group)
			if err == nil {
				err = sums.add(rows)
			}
			if err != nil {
				return err
			}
			exact = exact && ok
			for i, number := range numbers {
				settlementsByShard[i] = parseInt(number)
			}
		}
		if !exact {
			settlementsByShard = nil
		}
		s.recordCounters(tenant, settlementsByShard)
		list, err = sums.deltas()
		return err
	})
	return list, err
}

func (s *Store) shardsWithCounters(ctx context.Context, c client, keyspaces []keyspace) (shards []int, err error) {
	sizes, err := runPipelined(ctx, c, keyspaces, func(p goredis.Pipeliner, ks keyspace) *goredis.IntCmd { return p.HLen(ctx, ks.base+"counters") })
	for i := range sizes {
		if sizes[i].Val() > 0 {
			shards = append(shards, i)
		}
	}
	return shards, err
}

// readGroup reads the rows and the last settlement in some shards. If exact is true, the rows contain exactly the
// settlements so far.
func (s *Store) readGroup(ctx context.Context, c client, keyspaces []keyspace, shards []int) (rows map[int][]counterRow, numbers map[int]string, exact bool, err error) {
	rows = map[int][]counterRow{}
	pending := slices.Clone(shards)
	numbers, err = s.lastSettlements(ctx, c, keyspaces, pending)
	for range maxCounterReads {
		if err == nil {
			err = s.readCounters(ctx, c, keyspaces, pending, rows)
		}
		var latest map[int]string
		if err == nil {
			latest, err = s.lastSettlements(ctx, c, keyspaces, pending)
		}
		if err != nil {
			return nil, nil, false, err
		}
		if pending = slices.DeleteFunc(pending, func(i int) bool { return latest[i] == numbers[i] }); len(pending) == 0 {
			return rows, numbers, true, nil
		}
		maps.Copy(numbers, latest)
	}
	return rows, numbers, false, nil
}

// rowSums holds the sums of counter rows over shards. A tenant can have hundreds of thousands of rows with the same few
// dozen fields, so a row is a list, not a map.
type rowSums struct {
	fields  []string
	indexes map[string]int // index in fields, by field
	rows    map[string][]int64
}

func newRowSums() *rowSums { return &rowSums{indexes: map[string]int{}, rows: map[string][]int64{}} }

func (r *rowSums) add(rows map[int][]counterRow) error {
	for _, list := range rows {
		for _, row := range list {
			sum := r.rows[row.name]
			for field, text := range row.fields {
				v, err := strconv.ParseInt(text, 10, 64)
				if err != nil {
					return fmt.Errorf("%w: counter %s in %q is %q", ErrCorrupt, field, row.name, text)
				}
				index, ok := r.indexes[field]
				if !ok {
					index = len(r.fields)
					r.indexes[field] = index
					r.fields = append(r.fields, field)
				}
				if n := index + 1 - len(sum); n > 0 {
					sum = append(slices.Grow(sum, max(n, len(row.fields))), make([]int64, n)...)
				}
				sum[index] += v
			}
			r.rows[row.name] = sum
		}
	}
	return nil
}

// deltas returns the non-zero sums, sorted by scope, field and day.
func (r *rowSums) deltas() (list []trial.Delta, err error) {
	type row struct {
		key  trial.Key
		sums []int64
	}
	byScope := map[string][]row{}
	for name, sums := range r.rows {
		key, err := parseRowName(name)
		if err != nil {
			return nil, err
		}
		byScope[key.Scope] = append(byScope[key.Scope], row{key, sums})
	}
	for _, scope := range slices.Sorted(maps.Keys(byScope)) {
		from := len(list)
		for _, row := range byScope[scope] {
			for index, v := range row.sums {
				if v != 0 {
					row.key.Field = r.fields[index]
					list = append(list, trial.Delta{Key: row.key, Value: v})
				}
			}
		}
		slices.SortFunc(list[from:], trial.Compare)
	}
	return list, nil
}

func (s *Store) lastSettlements(ctx context.Context, c client, keyspaces []keyspace, shards []int) (map[int]string, error) {
	cmds, err := runPipelined(ctx, c, shards, func(p goredis.Pipeliner, i int) *goredis.StringCmd {
		return p.HGet(ctx, keyspaces[i].listPrefix+"t", "moved")
	})
	out := map[int]string{}
	for n, cmd := range cmds {
		out[shards[n]] = cmd.Val()
	}
	return out, err
}

// readCounters reads the counter rows in some shards into rows, by shard.
func (s *Store) readCounters(ctx context.Context, c client, keyspaces []keyspace, shards []int, rows map[int][]counterRow) error {
	type counterHash struct {
		shard     int
		key, name string
	}
	indexes, err := runPipelined(ctx, c, shards, func(p goredis.Pipeliner, i int) *goredis.MapStringStringCmd {
		return p.HGetAll(ctx, keyspaces[i].base+"counters")
	})
	if err != nil {
		return err
	}
	var hashes []counterHash
	for n, index := range indexes {
		rows[shards[n]] = nil
		for k, name := range index.Val() {
			hashes = append(hashes, counterHash{shards[n], k, name})
		}
	}
	for chunk := range slices.Chunk(hashes, 1000) {
		cmds, err := runPipelined(ctx, c, chunk, func(p goredis.Pipeliner, hash counterHash) *goredis.MapStringStringCmd {
			return p.HGetAll(ctx, keyspaces[hash.shard].base+"c:"+hash.key)
		})
		if err != nil {
			return err
		}
		for i, hash := range chunk {
			rows[hash.shard] = append(rows[hash.shard], counterRow{hash.name, cmds[i].Val()})
		}
	}
	return nil
}

// RaiseMaxima raises a tenant's stored maxima to the given values, where these are greater. Repeated and reordered
// calls have the same result.
func (s *Store) RaiseMaxima(ctx context.Context, tenant string, maxima []trial.Delta) error {
	p := newPlan("raise")
	for _, m := range maxima {
		p.add(tenantLocation(tenant), rowName(m.Key.Scope, m.Key.Day)+"\x00"+m.Key.Field, encodeOrdered(m.Value))
	}
	return s.writePlan(ctx, "store maxima", p, tenant)
}

// Maxima returns the values set by RaiseMaxima, sorted by scope, field and day.
func (s *Store) Maxima(ctx context.Context, tenant string) (list []trial.Delta, err error) {
	all, err := doValue(ctx, s, "maxima", func(c client) (map[string]string, error) {
		return c.HGetAll(ctx, s.key(tenantLocation(tenant), "maxima")).Result()
	})
	for name, v := range all {
		i := strings.LastIndexByte(name, 0)
		if i < 0 || len(v) != 8 {
			return nil, fmt.Errorf("redis: %w: the maximum %q", ErrCorrupt, name)
		}
		k, err := parseRowName(name[:i])
		if err != nil {
			return nil, fmt.Errorf("redis: maxima: %w", err)
		}
		k.Field = name[i+1:]
		list = append(list, trial.Delta{Key: k, Value: decodeOrdered(v)})
	}
	slices.SortFunc(list, trial.Compare)
	return list, err
}

// Priors returns a tenant's newest priors and the version; 0 means there are none.
func (s *Store) Priors(ctx context.Context, tenant string) (version int64, data []byte, err error) {
	v, err := doValue(ctx, s, "priors", func(c client) ([]any, error) {
		return c.HMGet(ctx, s.key(tenantLocation(tenant), "priors"), "v", "d").Result()
	})
	if err != nil || len(v) != 2 || v[0] == nil {
		return 0, nil, err
	}
	if version, err = strconv.ParseInt(fmt.Sprint(v[0]), 10, 64); err != nil {
		return 0, nil, fmt.Errorf("redis: %w: the priors' version is %q", ErrCorrupt, v[0])
	}
	text, _ := v[1].(string)
	return version, []byte(text), nil
}

// PutPriors stores priors as version from+1 if from is the current version.
func (s *Store) PutPriors(ctx context.Context, tenant string, from int64, data []byte) (ok bool, err error) {
	err = s.withTenants(ctx, "put priors", []string{tenant}, func(c client) error {
		ok, err = s.script(ctx, c, "priors", tenantLocation(tenant), from, from+1, data).Bool()
		return err
	})
	return err == nil && ok, err
}

// Meta returns a value that all replicas share, such as the salt for random decisions.
func (s *Store) Meta(ctx context.Context, key string) (value []byte, ok bool, err error) {
	return s.readField(ctx, "meta", location{}, "values", key)
}

func (s *Store) readField(ctx context.Context, op string, loc location, key, field string) (value []byte, ok bool, err error) {
	err = s.do(ctx, op, func(c client) error {
		text, err := c.HGet(ctx, s.key(loc, key), field).Result()
		if err == nil {
			value, ok = []byte(text), true
		}
		return err
	})
	return value, ok, err
}

// InitMeta sets a shared value unless it exists, and returns the stored value.
func (s *Store) InitMeta(ctx context.Context, key string, value []byte) ([]byte, error) {
	return doValue(ctx, s, "init meta", func(c client) ([]byte, error) {
		if err := c.HSetNX(ctx, s.commonKey("values"), key, value).Err(); err != nil {
			return nil, err
		}
		return c.HGet(ctx, s.commonKey("values"), key).Bytes()
	})
}
