package redis_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"precept/store/redis"
	"precept/store/storetest"
)

func TestStore(t *testing.T) {
	server := storetest.StartRedis(t)
	storetest.Run(t, opener(func(prefix string) string { return server.URL() + "?prefix=" + prefix }))
}

func TestStoreInACluster(t *testing.T) {
	cluster := storetest.StartCluster(t)
	storetest.Run(t, opener(func(prefix string) string { return cluster.URL("prefix=" + prefix) }))
	// Each node holds something: the tenants' tags spread them.
	for _, n := range cluster.Nodes {
		if keys, _ := n.Must(t, "DBSIZE").(int64); keys == 0 {
			t.Errorf("%s holds nothing", n.Addr)
		}
	}
}

// opener opens stores beside each other on one server, each with keys of its own.
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
