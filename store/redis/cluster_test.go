package redis_test

import (
	"fmt"
	"net"
	"strings"
	"testing"

	"precept/store/redis"
	"precept/store/storetest"
)

// slotOf returns the slot of all keys of the test's tenant, and the node of the slot.
func slotOf(t *testing.T, c *storetest.Cluster) (slot string, from, to *storetest.Redis, keys []string) {
	t.Helper()
	for i, n := range c.Nodes {
		for _, key := range keysOf(t, n, "*:s:"+sid(1).String()) {
			base, _, _ := strings.Cut(key, "}")
			return fmt.Sprint(n.Must(t, "CLUSTER", "KEYSLOT", key)), n, c.Nodes[(i+1)%len(c.Nodes)], keysOf(t, n, base+"}:*")
		}
	}
	t.Fatal("the session is nowhere")
	return "", nil, nil, nil
}

func name(t *testing.T, n *storetest.Redis) string {
	t.Helper()
	return fmt.Sprint(n.Must(t, "CLUSTER", "MYID"))
}

// All keys of one tenant are in one slot.
func TestTenantKeysShareOneSlot(t *testing.T) {
	cluster := storetest.StartCluster(t)
	s := open(t, cluster.URL())
	lived(t, s)
	slot, home, _, keys := slotOf(t, cluster)
	if len(keys) < 15 {
		t.Errorf("there are but %q", keys)
	}
	for _, key := range keys {
		if at := fmt.Sprint(home.Must(t, "CLUSTER", "KEYSLOT", key)); at != slot {
			t.Errorf("%s is in %s, want %s", key, at, slot)
		}
	}
}

// The slot of a tenant moves to another node while replicas write. An operation that fails halfway is repeated later;
// afterwards everything is stored once, also for a client with the old slot table.
func TestSlotMigrationLosesNothing(t *testing.T) {
	cluster := storetest.StartCluster(t)
	s := faulty(t, cluster.URL())
	if err := s.Write(t.Context(), batch(1)); err != nil {
		t.Fatal(err)
	}
	slot, from, to, keys := slotOf(t, cluster)
	to.Must(t, "CLUSTER", "SETSLOT", slot, "IMPORTING", name(t, from))
	from.Must(t, "CLUSTER", "SETSLOT", slot, "MIGRATING", name(t, to))
	host, port, _ := net.SplitHostPort(to.Addr)
	move := func(key string) { from.Must(t, "MIGRATE", host, port, key, "0", "5000") }
	last := "" // key by which a script finds the node
	for _, key := range keys {
		if strings.HasSuffix(key, "}:t") {
			last = key
			continue
		}
		move(key)
	}
	err := s.Write(t.Context(), batch(1))
	unavailable(t, "a write with half of it there", err, redis.ErrBusy)
	move(last)
	for _, n := range []*storetest.Redis{to, from, cluster.Nodes[0], cluster.Nodes[1], cluster.Nodes[2]} {
		n.Must(t, "CLUSTER", "SETSLOT", slot, "NODE", name(t, to))
	}
	for n := range 3 {
		eventually(t, "write", func() error { return s.Write(t.Context(), batch(n)) })
	}
	stored(t, s, 3)
	if left := keysOf(t, from, "*:s:*"); len(left) > 0 {
		t.Errorf("where it lay there are %q", left)
	}
	if _, ok, err := s.Session(t.Context(), ourTenant, sid(1)); !ok || err != nil {
		t.Errorf("a look-up: %v, %v", ok, err)
	}
}
