package redis_test

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"precept/inject/bank"
	"precept/store/redis"
	"precept/store/storetest"
)

// startReplica starts a Redis replica of a server, and waits until the replica has the server's data.
func startReplica(t *testing.T, server *storetest.Redis) *storetest.Redis {
	t.Helper()
	host, port, err := net.SplitHostPort(server.Addr)
	if err != nil {
		t.Fatal(err)
	}
	replica := storetest.StartRedis(t, "--replicaof", host, port)
	eventually(t, "a connected replica", func() error {
		if info := fmt.Sprint(replica.MustDo(t, "INFO", "replication")); !strings.Contains(info, "master_link_status:up") {
			return errors.New("the link to the master is down")
		}
		return nil
	})
	return replica
}

// AwaitReplicas must return no error if the server has no replica, because there is nothing to wait for. A frozen
// replica acknowledges no write, so AwaitReplicas must return an error.
func TestAwaitReplicasReportsUnreplicatedWrites(t *testing.T) {
	t.Parallel()
	server := storetest.StartRedis(t)
	s := openWithLongTimeout(t, server.URL())
	check := func(replicas string, want error) {
		t.Helper()
		if err := s.Write(t.Context(), newBatch(1)); err != nil {
			t.Fatal(err)
		}
		if err := s.AwaitReplicas(t.Context()); !errors.Is(err, want) {
			t.Errorf("AwaitReplicas with %s: got error %v, want %v", replicas, err, want)
		}
	}
	check("no replica", nil)
	replica := startReplica(t, server)
	check("a replica", nil)
	if n := len(listKeys(t, replica, "*:s:"+sessionID(1).String())); n != 1 {
		t.Errorf("rows of the session on the replica after AwaitReplicas: got %d, want 1", n)
	}
	replica.Freeze(t)
	check("a frozen replica", redis.ErrUnreplicated)
	replica.Thaw(t)
	check("a resumed replica", nil)
}

// AwaitReplicas must ask each master of a cluster for its replicas. Without replicas, AwaitReplicas does not wait.
func TestAwaitReplicasAsksEachClusterMaster(t *testing.T) {
	t.Parallel()
	cluster := storetest.StartCluster(t)
	s := open(t, cluster.URL())
	if err := s.AwaitReplicas(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i, n := range cluster.Nodes {
		if info := fmt.Sprint(n.MustDo(t, "INFO", "commandstats")); !strings.Contains(info, "cmdstat_info:") {
			t.Errorf("AwaitReplicas did not ask node %d for its replicas", i)
		}
	}
}

func TestLessonChangeWithoutReplicationIsReported(t *testing.T) {
	t.Parallel()
	server := storetest.StartRedis(t)
	var reports []error
	b, err := redis.OpenBank(redis.Options{URL: server.URL(), Now: time.Now, OnUnreplicated: func(err error) { reports = append(reports, err) }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	setLesson := func(name string, want int) {
		t.Helper()
		if err := setText(t.Context(), b, name, []byte(lessonText)); err != nil {
			t.Fatal(err)
		}
		if len(reports) != want {
			t.Errorf("reports after the change to %s: got %v, want %d reports", name, reports, want)
		}
	}
	setLesson("a.md", 0)
	replica := startReplica(t, server)
	setLesson("b.md", 0)
	replica.Freeze(t)
	setLesson("c.md", 1)
	if err := b.Commit(t.Context(), bank.Change{Version: "unknown"}); err == nil {
		t.Error("Commit from an unknown version: got no error, want an error")
	}
	if len(reports) != 1 {
		t.Fatalf("reports after a refused change = %+v, want 1 item", reports)
	}
	if !errors.Is(reports[0], redis.ErrUnreplicated) {
		t.Errorf("reports after a refused change: error = %v, want redis.ErrUnreplicated", reports[0])
	}
	replica.Thaw(t)
}
