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
	storetest.Run(t, opener(server.URL()))
}

// opener opens stores beside each other on one server, each with keys of its own.
func opener(url string) func(t *testing.T) storetest.Store {
	var n atomic.Int64
	return func(t *testing.T) storetest.Store {
		t.Helper()
		return open(t, fmt.Sprintf("%s?prefix=t%d", url, n.Add(1)))
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
