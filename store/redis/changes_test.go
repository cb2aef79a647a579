package redis_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"precept/bandit/trial"
	"precept/internal/session"
	"precept/store/redis"
	"precept/store/storetest"
)

// A replica reads the counters of a tenant once, and then adds its own settlements and the changes of other replicas.
// The sums equal the counters of the store, for any order of settlements and calls of Moved. After few settlements the
// changes are complete, and the replica need not read the counters again.
func TestChangesKeepCountersCurrent(t *testing.T) {
	server := storetest.StartRedis(t)
	follower, others := openWithShards(t, server.URL(), 4), []*redis.Store{openWithShards(t, server.URL(), 4), openWithShards(t, server.URL(), 4)}
	tenants := []string{ourTenant, "other"}
	have := map[string]map[trial.Key]int64{}
	add := func(tenant string, deltas []trial.Delta) {
		for _, d := range deltas {
			if have[tenant][d.Key] += d.Value; have[tenant][d.Key] == 0 {
				delete(have[tenant], d.Key)
			}
		}
	}
	random := rand.New(rand.NewPCG(1, 2))
	sessions, complete, changed := 0, 0, 0
	settleSessions := func(s *redis.Store, count int) {
		for range count {
			sessions++
			tenant := tenants[random.IntN(2)]
			deltas := []trial.Delta{
				{Key: trial.Key{Scope: fmt.Sprint("arm", random.IntN(3)), Field: "n", Day: 7}, Value: 1}, {Key: trial.Key{Field: "sum"}, Value: random.Int64N(9) - 4},
			}
			taken, err := s.Settle(t.Context(), []session.Settlement{{Tenant: tenant, ID: sid(sessions), Deltas: deltas}})
			if err != nil || !taken[0] {
				t.Fatalf("Settle: got accepted %v, error %v, want true, nil", taken, err)
			}
			if s == follower && have[tenant] != nil {
				add(tenant, deltas)
			}
		}
	}
	for range 120 {
		switch random.IntN(4) {
		case 0:
			settleSessions(follower, 1+random.IntN(3))
		case 1, 2:
			settleSessions(others[random.IntN(2)], 1+random.IntN(8))
		default:
			settleSessions(others[0], 200*random.IntN(2)*random.IntN(2)*random.IntN(2)) // more than the logs hold
		}
		if _, err := follower.Moved(t.Context(), tenants); err != nil {
			t.Fatal(err)
		}
		for _, tenant := range tenants {
			want, err := others[1].Counters(t.Context(), tenant)
			if err != nil {
				t.Fatal(err)
			}
			if deltas, ok := follower.Changes(tenant); ok {
				changed++
				add(tenant, deltas)
			} else {
				complete++
				list, err := follower.Counters(t.Context(), tenant)
				if err != nil {
					t.Fatal(err)
				}
				have[tenant] = map[trial.Key]int64{}
				add(tenant, list)
			}
			var got []trial.Delta
			for k, v := range have[tenant] {
				got = append(got, trial.Delta{Key: k, Value: v})
			}
			slices.SortFunc(got, trial.Compare)
			if !slices.Equal(got, want) {
				t.Fatalf("counters of %s after %d sessions: got %v, want %v", tenant, sessions, got, want)
			}
		}
	}
	if complete < 4 || changed < 4*complete {
		t.Errorf("the counters were read %d times as a whole and %d times as changes, want at least 4, and four times as many changes", complete, changed)
	}
}

// The changes are incomplete after a loss of data, and after an error inside of the script, so that the counters are
// read again.
func TestUncertainChangesAreIncomplete(t *testing.T) {
	server := storetest.StartRedis(t)
	s := openWithShards(t, server.URL(), 4)
	readChanges := func() bool {
		t.Helper()
		if _, err := s.Moved(t.Context(), []string{ourTenant}); err != nil {
			t.Fatal(err)
		}
		_, ok := s.Changes(ourTenant)
		if _, err := s.Counters(t.Context(), ourTenant); err != nil {
			t.Fatal(err)
		}
		return ok
	}
	if _, err := s.Settle(t.Context(), oneStep(1)); err != nil {
		t.Fatal(err)
	}
	if readChanges() {
		t.Error("Changes before the first read of the counters: got complete = true, want false")
	}
	if !readChanges() {
		t.Error("Changes after the first read of the counters: got complete = false, want true")
	}
	if _, err := s.Epoch(t.Context()); err != nil {
		t.Fatal(err)
	}
	server.Must(t, "DEL", "precept:{precept}:epoch")
	if _, err := s.Epoch(t.Context()); err != nil {
		t.Fatal(err)
	}
	if readChanges() {
		t.Error("Changes after a new epoch: got complete = true, want false")
	}
	server.Must(t, "ACL", "SETUSER", "default", "-xadd")
	if _, err := s.Settle(t.Context(), oneStep(2)); err == nil {
		t.Fatal("Settle without the permission for xadd: got no error, want an error inside of the script")
	}
	server.Must(t, "ACL", "SETUSER", "default", "+xadd")
	if readChanges() {
		t.Error("Changes after a failed settlement: got complete = true, want false")
	}
}

// oneStep is the settlement of a session that adds its number to a counter.
func oneStep(n int) []session.Settlement {
	return []session.Settlement{{Tenant: ourTenant, ID: sid(n), Deltas: []trial.Delta{{Key: trial.Key{Field: "sum"}, Value: int64(n)}}}}
}

// A settlement whose answer was lost is among the changes once, whether Redis executes the settlement at once, after
// the next call of Moved, or after the next read of all counters.
func TestChangesHaveSettlementsWithoutAnAnswer(t *testing.T) {
	for _, order := range []string{"at once", "after Moved", "after Counters"} {
		t.Run(order, func(t *testing.T) {
			server := storetest.StartRedis(t)
			proxy := newFaultProxy(t, server.Addr)
			defer proxy.close()
			s := openWithShards(t, proxy.url(), 4)
			defer s.Close() //nolint:errcheck // nothing is lost
			readChanges := func() (sum int64) {
				t.Helper()
				if _, err := s.Moved(t.Context(), []string{ourTenant}); err != nil {
					t.Fatal(err)
				}
				deltas, ok := s.Changes(ourTenant)
				for _, d := range deltas {
					sum += d.Value
				}
				if !ok {
					t.Fatal("Changes: got complete = false, want true")
				}
				return sum
			}
			read := func() (sum int64) {
				t.Helper()
				list, err := s.Counters(t.Context(), ourTenant)
				if err != nil {
					t.Fatal(err)
				}
				for _, d := range list {
					sum += d.Value
				}
				return sum
			}
			settleSessions := func(n int, injected fault) {
				t.Helper()
				proxy.next(0, injected)
				if _, err := s.Settle(t.Context(), oneStep(n)); (err != nil) != (injected != "") {
					t.Fatalf("settlement with fault %q: err = %v, want an error only with a fault", injected, err)
				}
			}
			settleSessions(1, "")
			if _, err := s.Moved(t.Context(), nil); err != nil {
				t.Fatal(err)
			}
			got := read()
			injected := cutBehind
			if order != "at once" {
				injected = late
			}
			settleSessions(10, injected)
			for err := s.Ping(t.Context()); err != nil; err = s.Ping(t.Context()) { // closes the breaker
				t.Log(err)
			}
			switch order {
			case "after Moved":
				got += readChanges()
				if err := proxy.release(); err != nil {
					t.Fatal(err)
				}
			case "after Counters":
				readChanges()
				got = read()
				if err := proxy.release(); err != nil {
					t.Fatal(err)
				}
			}
			settleSessions(100, "")
			got += 100
			got += readChanges()
			got += readChanges()
			if want := read(); got != want || want != 111 {
				t.Errorf("sum of the counters: got %d from the changes and %d from the store, want 111 from both", got, want)
			}
		})
	}
}

// The store keeps no deltas and no position of a tenant that the last call of Moved did not name.
func TestStoreForgetsTenantsThatNoReaderFollows(t *testing.T) {
	server := storetest.StartRedis(t)
	follower, other := openWithShards(t, server.URL(), 4), openWithShards(t, server.URL(), 4)
	tenants := []string{"a", "b", "c"}
	moved := func(follow ...string) map[string]session.Position {
		t.Helper()
		m, err := follower.Moved(t.Context(), follow)
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	n := 0
	settleSessions := func(tenant string) {
		t.Helper()
		n++
		step := oneStep(n)
		step[0].Tenant = tenant
		if _, err := other.Settle(t.Context(), step); err != nil {
			t.Fatal(err)
		}
	}
	for _, tenant := range tenants {
		settleSessions(tenant)
	}
	if m := moved(); len(m) != 3 || m["a"].Counters == "" {
		t.Fatalf("the first Moved: got %v, want all tenants with positions", m)
	}
	for _, tenant := range tenants {
		if _, err := follower.Counters(t.Context(), tenant); err != nil {
			t.Fatal(err)
		}
	}
	settleSessions("b")
	settleSessions("c")
	m := moved("a", "b")
	if m["a"].Counters == "" || m["b"].Counters == "" || m["c"] != (session.Position{}) || len(m) != 3 {
		t.Errorf("Moved of a and b: got %v, want positions of a and b, and c without a position", m)
	}
	if _, ok := follower.Changes("c"); ok {
		t.Error("Changes of c, which the reader does not follow: got complete = true, want false")
	}
	if deltas, ok := follower.Changes("b"); !ok || len(deltas) != 1 {
		t.Errorf("Changes of b: got %v, complete %v, want one delta, true", deltas, ok)
	}
	if m := moved("a"); len(m) != 1 {
		t.Errorf("Moved of a: got %v, want a alone", m)
	}
	if m := moved("b"); m["b"].Counters == "" {
		t.Errorf("Moved of b: got %v, want a position of b", m)
	}
	if _, ok := follower.Changes("b"); ok {
		t.Error("Changes of b, which the reader did not follow in between: got complete = true, want false")
	}
}
