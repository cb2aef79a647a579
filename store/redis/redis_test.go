package redis_test

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"precept/internal/session"
	"precept/store/redis"
	"precept/store/storetest"
)

func TestStoreConforms(t *testing.T) {
	server := storetest.StartRedis(t)
	storetest.Run(t, opener(func(prefix string) string { return server.URL() + "?prefix=" + prefix }))
}

func TestStoreConformsInACluster(t *testing.T) {
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

// No test leaves a goroutine behind.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// permissions are what a user of precept's needs, as docs/OPERATIONS.md tells operators.
func permissions() []string {
	return strings.Fields("-@all +@connection +@read +@hash +@set +@sortedset +@string +@list +@stream +@pubsub " +
		"+eval +evalsha +append +del +exists +pexpire +incr +incrby +time +info +cluster|slots +cluster|shards +cluster|nodes +command -@dangerous +info")
}

func TestPermissionsAreDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/OPERATIONS.md")
	if err != nil {
		t.Fatal(err)
	}
	flat := regexp.MustCompile(`\s+`).ReplaceAllString(string(text), " ")
	if !strings.Contains(flat, strings.Join(permissions(), " ")) {
		t.Errorf("docs/OPERATIONS.md does not list the permissions that are tested: %s", strings.Join(permissions(), " "))
	}
}

func TestForgottenSessionsLeaveNoKeys(t *testing.T) {
	server := storetest.StartRedis(t)
	s := open(t, server.URL())
	storetest.RunGrowth(t, s, func(id session.ID, _ time.Time) {
		other := id
		other[0]++ // which is not there
		err := errors.Join(s.PutAnswer(t.Context(), isClassified, id, "report", "text"), s.PutAnswer(t.Context(), isClassified, other, "report", "text"),
			s.KeepOptOuts(t.Context(), map[session.ID]session.OptOutMark{id: {Turns: 1, Items: 2}}))
		if err != nil {
			t.Fatal(err)
		}
	}, func() map[string]int64 { return sizes(t, server) })
}

// sizes are the bytes of every key that does not end by itself.
func sizes(t *testing.T, server *storetest.Redis) map[string]int64 {
	t.Helper()
	out := map[string]int64{}
	keys, _ := server.Must(t, "KEYS", "*").([]any)
	for _, k := range keys {
		key, _ := k.(string)
		if ttl, _ := server.Must(t, "PTTL", key).(int64); ttl < 0 {
			out[key], _ = server.Must(t, "MEMORY", "USAGE", key).(int64)
		}
	}
	return out
}
