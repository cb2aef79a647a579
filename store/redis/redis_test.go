package redis_test

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"precept/internal/session"
	"precept/store/redis"
	"precept/store/storetest"
)

func TestStoreContract(t *testing.T) {
	server := storetest.StartRedis(t)
	storetest.Run(t, opener(func(prefix string) string { return server.URL() + "?prefix=" + prefix }))
}

func TestStoreContractInACluster(t *testing.T) {
	cluster := storetest.StartCluster(t)
	storetest.Run(t, opener(func(prefix string) string { return cluster.URL("prefix=" + prefix) }))
	for _, n := range cluster.Nodes {
		if keys, _ := n.MustDo(t, "DBSIZE").(int64); keys == 0 {
			t.Errorf("node %s has no keys", n.Addr)
		}
	}
}

// opener returns a function that opens stores on the same server, each with its own key prefix.
func opener(url func(prefix string) string) func(t *testing.T) storetest.Store {
	var n atomic.Int64
	return func(t *testing.T) storetest.Store {
		t.Helper()
		return open(t, url(fmt.Sprint("t", n.Add(1))))
	}
}

func open(t *testing.T, url string) *redis.Store {
	t.Helper()
	s, err := redis.Open(redis.Options{URL: url, Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// openWithShards opens a store. If the store is new, it divides its sessions into the given number of shards.
func openWithShards(t *testing.T, url string, shards int) *redis.Store {
	t.Helper()
	s, err := redis.Open(redis.Options{URL: url, Now: time.Now, Shards: shards})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func TestStoreContractWithOneShard(t *testing.T) {
	server := storetest.StartRedis(t)
	var n atomic.Int64
	storetest.Run(t, func(t *testing.T) storetest.Store {
		t.Helper()
		return openWithShards(t, fmt.Sprint(server.URL(), "?prefix=t", n.Add(1)), 1)
	})
}

// A store keeps the number of shards with which it was created. A store from an earlier release keeps one shard for
// each tenant.
func TestShardCountIsFixedAtCreation(t *testing.T) {
	server := storetest.StartRedis(t)
	readShardCount := func(prefix string, s *redis.Store) string {
		t.Helper()
		if _, err := s.Tenants(t.Context()); err != nil {
			t.Fatal(err)
		}
		return fmt.Sprint(server.MustDo(t, "GET", prefix+":{precept}:shards"))
	}
	server.MustDo(t, "SADD", "old:{precept}:tenants", testTenant)
	if n := readShardCount("old", open(t, server.URL()+"?prefix=old")); n != "1" {
		t.Errorf("shards of a store from an earlier release: got %s, want 1", n)
	}
	if n := readShardCount("four", openWithShards(t, server.URL()+"?prefix=four", 4)); n != "4" {
		t.Errorf("shards of a store created with 4 shards: got %s, want 4", n)
	}
	s := open(t, server.URL()+"?prefix=new")
	if n := readShardCount("new", s); n != "256" {
		t.Errorf("shards of a new store: got %s, want 256", n)
	}
	if n := readShardCount("four", open(t, server.URL()+"?prefix=four")); n != "4" {
		t.Errorf("shards of a store with 4 shards, opened by another replica: got %s, want 4", n)
	}
	server.MustDo(t, "DEL", "four:{precept}:shards")
	server.MustDo(t, "SADD", "four:{precept}:tenants", testTenant)
	if c, err := open(t, server.URL()+"?prefix=four").Counters(t.Context(), testTenant); err != nil {
		t.Error(err)
	} else if len(c) != 0 {
		t.Errorf("Counters without a stored shard count = %+v, want none", c)
	}
	if n := server.MustDo(t, "GET", "four:{precept}:shardscopy"); n != "4" {
		t.Errorf("copied shard count: got %v, want 4", n)
	}
	if n, _ := server.MustDo(t, "EXISTS", "four:{precept}:shards").(int64); n != 0 {
		t.Error("a new replica wrote a shard count after the count was lost")
	}
	server.MustDo(t, "FLUSHALL")
	server.MustDo(t, "CLIENT", "KILL", "TYPE", "normal")
	eventually(t, "restored shard count", func() error {
		err := s.Write(t.Context(), newBatch(1))
		if n := fmt.Sprint(server.MustDo(t, "GET", "new:{precept}:shards")); n != "256" {
			err = errors.Join(err, fmt.Errorf("got %s shards, want 256", n))
		}
		return err
	})
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestForgottenSessionsLeaveNoKeys(t *testing.T) {
	server := storetest.StartRedis(t)
	s := openWithShards(t, server.URL(), 2)
	storetest.RunGrowth(t, s, func(id session.ID, _ time.Time) {
		other := id
		other[0]++ // the id of a session that does not exist
		err := errors.Join(s.PutAnswer(t.Context(), testTenant, id, "report", "text"), s.PutAnswer(t.Context(), testTenant, other, "report", "text"),
			s.PutOptOutMarks(t.Context(), map[session.ID]session.OptOutMark{id: {Turns: 1, Items: 2}}))
		if err != nil {
			t.Fatal(err)
		}
	}, func() map[string]int64 { return keySizes(t, server) })
}

// keySizes returns how much memory each key uses that does not expire. For the log of settlements, the value is instead
// by how many entries the log is longer than 32.
func keySizes(t *testing.T, server *storetest.Redis) map[string]int64 {
	t.Helper()
	out := map[string]int64{}
	keys, _ := server.MustDo(t, "KEYS", "*").([]any)
	for _, k := range keys {
		key, _ := k.(string)
		if ttl, _ := server.MustDo(t, "PTTL", key).(int64); ttl < 0 {
			out[key], _ = server.MustDo(t, "MEMORY", "USAGE", key).(int64)
			if strings.HasSuffix(key, ":all:log") {
				out[key], _ = server.MustDo(t, "XLEN", key).(int64)
				out[key] = max(0, out[key]-32)
			}
		}
	}
	return out
}
