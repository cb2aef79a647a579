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

// findSlot returns the slot of session 1, the node that has this slot, another node, and the keys in the slot.
func findSlot(t *testing.T, c *storetest.Cluster) (slot string, from, to *storetest.Redis, keys []string) {
	t.Helper()
	for i, n := range c.Nodes {
		for _, key := range listKeys(t, n, "*:s:"+sessionID(1).String()) {
			base, _, _ := strings.Cut(key, "}")
			return fmt.Sprint(n.MustDo(t, "CLUSTER", "KEYSLOT", key)), n, c.Nodes[(i+1)%len(c.Nodes)], listKeys(t, n, base+"}:*")
		}
	}
	t.Fatal("no node has a key of session 1, want one")
	return "", nil, nil, nil
}

func nodeID(t *testing.T, n *storetest.Redis) string {
	t.Helper()
	return fmt.Sprint(n.MustDo(t, "CLUSTER", "MYID"))
}

func TestSessionKeysShareOneSlot(t *testing.T) {
	cluster := storetest.StartCluster(t)
	s := open(t, cluster.URL())
	fillStore(t, s)
	slot, home, _, keys := findSlot(t, cluster)
	sessionKeyKinds := map[string]bool{}
	for _, key := range keys {
		if got := fmt.Sprint(home.MustDo(t, "CLUSTER", "KEYSLOT", key)); got != slot {
			t.Errorf("slot(%s): got %s, want %s", key, got, slot)
		}
		sessionKeyKinds[strings.Split(key, ":")[3]] = true
	}
	// The kinds are session rows (s), exchanges (x), samples (m), feedback (f), index entries (k), counters (c and
	// counters) and lists (samples, order and seen).
	for _, kind := range []string{"s", "x", "m", "f", "k", "c", "counters", "samples", "order", "seen"} {
		if !sessionKeyKinds[kind] {
			t.Errorf("the session's slot has no key of kind %s", kind)
		}
	}
}

// While a slot is being moved, Redis refuses a write entirely instead of applying a part.
func TestSlotMigrationLosesNoWrite(t *testing.T) {
	cluster := storetest.StartCluster(t)
	s := openWithLongTimeout(t, cluster.URL())
	if err := s.Write(t.Context(), newBatch(1)); err != nil {
		t.Fatal(err)
	}
	settle := []session.Settlement{{Tenant: testTenant, ID: sessionID(1), Deltas: []trial.Delta{{Key: trial.Key{Scope: "arm", Field: "n"}, Value: 1}}}}
	slot, from, to, keys := findSlot(t, cluster)
	to.MustDo(t, "CLUSTER", "SETSLOT", slot, "IMPORTING", nodeID(t, from))
	from.MustDo(t, "CLUSTER", "SETSLOT", slot, "MIGRATING", nodeID(t, to))
	host, port, _ := net.SplitHostPort(to.Addr)
	for _, key := range append([]string{""}, keys...) { // the empty key stands for the moment before the first key is moved
		if key != "" {
			from.MustDo(t, "MIGRATE", host, port, key, "0", "5000")
		}
		checkUnavailable(t, "Write to a moving slot", s.Write(t.Context(), newBatch(1)), redis.ErrBusy)
		_, err := s.Settle(t.Context(), settle)
		checkUnavailable(t, "Settle in a moving slot", err, redis.ErrBusy)
	}
	for _, n := range []*storetest.Redis{to, from, cluster.Nodes[0], cluster.Nodes[1], cluster.Nodes[2]} {
		n.MustDo(t, "CLUSTER", "SETSLOT", slot, "NODE", nodeID(t, to))
	}
	for n := range 3 {
		eventually(t, "write", func() error { return s.Write(t.Context(), newBatch(n)) })
	}
	for i, want := range []bool{true, false} {
		if accepted, err := s.Settle(t.Context(), settle); err != nil {
			t.Errorf("Settle %d: %v", i, err)
		} else if accepted[0] != want {
			t.Errorf("Settle %d: accepted[0] = %v, want %v", i, accepted[0], want)
		}
	}
	if list, err := s.Counters(t.Context(), testTenant); err != nil {
		t.Error(err)
	} else if len(list) != 1 {
		t.Errorf("Counters after two settlements = %+v, want 1 delta", list)
	} else if list[0].Value != 1 {
		t.Errorf("Counters after two settlements: Value = %d, want 1", list[0].Value)
	}
	checkStored(t, s, 3)
	if left := listKeys(t, from, "*:s:"+sessionID(1).String()); len(left) > 0 {
		t.Errorf("row of session 1 on the old node: got the keys %q, want none", left)
	}
	if _, ok, err := s.Session(t.Context(), testTenant, sessionID(1)); err != nil {
		t.Error(err)
	} else if !ok {
		t.Error("Session after the migration: ok = false, want true")
	}
}
