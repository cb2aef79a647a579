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
	// Each node has keys: the tags of the tenants are distributed over the nodes.
	for _, n := range cluster.Nodes {
		if keys, _ := n.Must(t, "DBSIZE").(int64); keys == 0 {
			t.Errorf("%s holds nothing", n.Addr)
		}
	}
}

// opener opens stores on one server, each with its own keys.
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

// permissions returns the permissions of precept's Redis user, as docs/OPERATIONS.md lists them.
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
		other[0]++ // a session that does not exist
		err := errors.Join(s.PutAnswer(t.Context(), ourTenant, id, "report", "text"), s.PutAnswer(t.Context(), ourTenant, other, "report", "text"),
			s.KeepOptOuts(t.Context(), map[session.ID]session.OptOutMark{id: {Turns: 1, Items: 2}}))
		if err != nil {
			t.Fatal(err)
		}
	}, func() map[string]int64 { return sizes(t, server) })
}

// sizes returns the bytes of each key without an expiry.
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
