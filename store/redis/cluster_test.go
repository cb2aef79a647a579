package redis_test

import (
	"fmt"
	"net"
	"strings"
	"testing"

	"precept/bandit/trial"
	"precept/internal/session"
	"precept/store/redis"
	"precept/store/storetest"
)

// slotOf returns the slot of the test's session, the node of the slot, another node, and the keys in the slot.
func slotOf(t *testing.T, c *storetest.Cluster) (slot string, from, to *storetest.Redis, keys []string) {
	t.Helper()
	for i, n := range c.Nodes {
		for _, key := range keysOf(t, n, "*:s:"+sid(1).String()) {
			base, _, _ := strings.Cut(key, "}")
			return fmt.Sprint(n.Must(t, "CLUSTER", "KEYSLOT", key)), n, c.Nodes[(i+1)%len(c.Nodes)], keysOf(t, n, base+"}:*")
		}
	}
	t.Fatal("no slot has a key of the session")
	return "", nil, nil, nil
}

// nodeID returns the id of a node of the Cluster.
func nodeID(t *testing.T, n *storetest.Redis) string {
	t.Helper()
	return fmt.Sprint(n.Must(t, "CLUSTER", "MYID"))
}

// All keys of one session are in one slot, with the counters that a settlement changes.
func TestSessionKeysShareOneSlot(t *testing.T) {
	cluster := storetest.StartCluster(t)
	s := open(t, cluster.URL())
	fillStore(t, s)
	slot, home, _, keys := slotOf(t, cluster)
	kinds := map[string]bool{}
	for _, key := range keys {
		if at := fmt.Sprint(home.Must(t, "CLUSTER", "KEYSLOT", key)); at != slot {
			t.Errorf("key %s is in slot %s, want slot %s", key, at, slot)
		}
		kinds[strings.Split(key, ":")[3]] = true
	}
	for _, kind := range []string{"s", "x", "m", "f", "k", "c", "counters", "samples", "order", "seen"} {
		if !kinds[kind] {
			t.Errorf("no key of kind %s is in the slot of the session, want at least one", kind)
		}
	}
}

// The slot of a shard moves to another node. Redis refuses each write to the slot in transit as a whole. A client with
// the old slot table repeats the writes after the move, and each write is stored once.
func TestSlotMigrationLosesNothing(t *testing.T) {
	cluster := storetest.StartCluster(t)
	s := openWithLongTimeout(t, cluster.URL())
	if err := s.Write(t.Context(), batch(1)); err != nil {
		t.Fatal(err)
	}
	settle := []session.Settlement{{Tenant: ourTenant, ID: sid(1), Deltas: []trial.Delta{{Key: trial.Key{Scope: "arm", Field: "n"}, Value: 1}}}}
	slot, from, to, keys := slotOf(t, cluster)
	to.Must(t, "CLUSTER", "SETSLOT", slot, "IMPORTING", nodeID(t, from))
	from.Must(t, "CLUSTER", "SETSLOT", slot, "MIGRATING", nodeID(t, to))
	host, port, _ := net.SplitHostPort(to.Addr)
	for _, key := range append([]string{""}, keys...) { // before, between and after the keys
		if key != "" {
			from.Must(t, "MIGRATE", host, port, key, "0", "5000")
		}
		checkUnavailable(t, "a write to a slot in transit", s.Write(t.Context(), batch(1)), redis.ErrBusy)
		_, err := s.Settle(t.Context(), settle)
		checkUnavailable(t, "a settlement in a slot in transit", err, redis.ErrBusy)
	}
	for _, n := range []*storetest.Redis{to, from, cluster.Nodes[0], cluster.Nodes[1], cluster.Nodes[2]} {
		n.Must(t, "CLUSTER", "SETSLOT", slot, "NODE", nodeID(t, to))
	}
	for n := range 3 {
		eventually(t, "write", func() error { return s.Write(t.Context(), batch(n)) })
	}
	for i, want := range []bool{true, false} {
		if taken, err := s.Settle(t.Context(), settle); err != nil || taken[0] != want {
			t.Errorf("settlement %d: got accepted %v, error %v, want %v", i, taken, err, want)
		}
	}
	if list, err := s.Counters(t.Context(), ourTenant); err != nil || len(list) != 1 || list[0].Value != 1 {
		t.Errorf("counters after two settlements: got %v, error %v, want one of value 1", list, err)
	}
	checkStored(t, s, 3)
	if left := keysOf(t, from, "*:s:"+sid(1).String()); len(left) > 0 {
		t.Errorf("the old node has keys %q, want none", left)
	}
	if _, ok, err := s.Session(t.Context(), ourTenant, sid(1)); !ok || err != nil {
		t.Errorf("Session after the migration: found = %v, err = %v, want true, nil", ok, err)
	}
}
