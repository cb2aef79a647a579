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

// A replica reads the settlements of other replicas from a change log. After an overflow of the log, the replica reads
// the counters again.
func TestChangesKeepCountersCurrent(t *testing.T) {
	server := storetest.StartRedis(t)
	replica, others := openWithShards(t, server.URL(), 4), []*redis.Store{openWithShards(t, server.URL(), 4), openWithShards(t, server.URL(), 4)}
	tenants := []string{testTenant, "other"}
	counters := map[string]map[trial.Key]int64{}
	add := func(tenant string, deltas []trial.Delta) {
		for _, d := range deltas {
			if counters[tenant][d.Key] += d.Value; counters[tenant][d.Key] == 0 {
				delete(counters[tenant], d.Key)
			}
		}
	}
	random := rand.New(rand.NewPCG(1, 2))
	sessions, fullReads, incrementalReads := 0, 0, 0
	settleSessions := func(s *redis.Store, count int) {
		for range count {
			sessions++
			tenant := tenants[random.IntN(2)]
			deltas := []trial.Delta{
				{Key: trial.Key{Scope: fmt.Sprint("arm", random.IntN(3)), Field: "n", Day: 7}, Value: 1}, {Key: trial.Key{Field: "sum"}, Value: random.Int64N(9) - 4},
			}
			accepted, err := s.Settle(t.Context(), []session.Settlement{{Tenant: tenant, ID: sessionID(sessions), Deltas: deltas}})
			if err != nil {
				t.Fatal(err)
			}
			if !accepted[0] {
				t.Fatal("Settle: accepted[0] = false, want true")
			}
			if s == replica && counters[tenant] != nil {
				add(tenant, deltas)
			}
		}
	}
	for range 120 {
		switch random.IntN(4) {
		case 0:
			settleSessions(replica, 1+random.IntN(3))
		case 1, 2:
			settleSessions(others[random.IntN(2)], 1+random.IntN(8))
		default:
			settleSessions(others[0], 200*random.IntN(2)*random.IntN(2)*random.IntN(2)) // 200 settlements overflow the change log
		}
		if _, err := replica.Positions(t.Context(), tenants); err != nil {
			t.Fatal(err)
		}
		for _, tenant := range tenants {
			want, err := others[1].Counters(t.Context(), tenant)
			if err != nil {
				t.Fatal(err)
			}
			if deltas, ok := replica.Changes(tenant); ok {
				incrementalReads++
				add(tenant, deltas)
			} else {
				fullReads++
				list, err := replica.Counters(t.Context(), tenant)
				if err != nil {
					t.Fatal(err)
				}
				counters[tenant] = map[trial.Key]int64{}
				add(tenant, list)
			}
			var got []trial.Delta
			for k, v := range counters[tenant] {
				got = append(got, trial.Delta{Key: k, Value: v})
			}
			slices.SortFunc(got, trial.Compare)
			if !slices.Equal(got, want) {
				t.Fatalf("Counters(%s) after %d sessions: got %v, want %v", tenant, sessions, got, want)
			}
		}
	}
	if fullReads < 4 {
		t.Errorf("calls of Counters = %d, want at least 4", fullReads)
	}
	if incrementalReads < 4*fullReads {
		t.Errorf("calls of Changes = %d, want at least %d", incrementalReads, 4*fullReads)
	}
}

func TestChangesReturnsFalseAfterLossOrError(t *testing.T) {
	server := storetest.StartRedis(t)
	s := openWithShards(t, server.URL(), 4)
	readChanges := func() bool {
		t.Helper()
		if _, err := s.Positions(t.Context(), []string{testTenant}); err != nil {
			t.Fatal(err)
		}
		_, ok := s.Changes(testTenant)
		if _, err := s.Counters(t.Context(), testTenant); err != nil {
			t.Fatal(err)
		}
		return ok
	}
	if _, err := s.Settle(t.Context(), newSettlement(1)); err != nil {
		t.Fatal(err)
	}
	if readChanges() {
		t.Error("Changes before the first call of Counters: got ok = true, want false")
	}
	if !readChanges() {
		t.Error("Changes after the first call of Counters: got ok = false, want true")
	}
	if _, err := s.Epoch(t.Context()); err != nil {
		t.Fatal(err)
	}
	server.MustDo(t, "DEL", "precept:{precept}:epoch")
	if _, err := s.Epoch(t.Context()); err != nil {
		t.Fatal(err)
	}
	if readChanges() {
		t.Error("Changes after a new epoch: got ok = true, want false")
	}
	for _, log := range listKeys(t, server, "*:all:log") {
		server.MustDo(t, "XSETID", log, "999999-1") // from now on, the log refuses entries with smaller ids
	}
	next := newSettlement(1)
	next[0].From = 1
	if _, err := s.Settle(t.Context(), next); err == nil {
		t.Fatal("Settle while the log refuses entries: got no error, want an error")
	}
	if readChanges() {
		t.Error("Changes after a failed settlement: got ok = true, want false")
	}
}

// newSettlement returns the first settlement of session n, which adds n to the counter "sum".
func newSettlement(n int) []session.Settlement {
	return []session.Settlement{{Tenant: testTenant, ID: sessionID(n), Deltas: []trial.Delta{{Key: trial.Key{Field: "sum"}, Value: int64(n)}}}}
}

// The reply to the second settlement is lost, but Redis applies the settlement: before the next call, after Positions,
// or after Counters.
func TestChangesReturnsSettlementsWithLostReplies(t *testing.T) {
	for _, applied := range []string{"applied before the next call", "applied after Positions", "applied after Counters"} {
		t.Run(applied, func(t *testing.T) {
			server := storetest.StartRedis(t)
			proxy := newFaultProxy(t, server.Addr)
			defer proxy.close()
			s := openWithShards(t, proxy.url(), 4)
			defer s.Close() //nolint:errcheck // the error does not matter, because nothing is lost
			readChanges := func() (sum int64) {
				t.Helper()
				if _, err := s.Positions(t.Context(), []string{testTenant}); err != nil {
					t.Fatal(err)
				}
				deltas, ok := s.Changes(testTenant)
				for _, d := range deltas {
					sum += d.Value
				}
				if !ok {
					t.Fatal("Changes: got ok = false, want true")
				}
				return sum
			}
			readCounters := func() (sum int64) {
				t.Helper()
				list, err := s.Counters(t.Context(), testTenant)
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
				proxy.setFault(0, injected)
				if _, err := s.Settle(t.Context(), newSettlement(n)); (err != nil) != (injected != "") {
					t.Fatalf("Settle with fault %q: got error %v, want an error if and only if there is a fault", injected, err)
				}
			}
			settleSessions(1, "")
			if _, err := s.Positions(t.Context(), nil); err != nil {
				t.Fatal(err)
			}
			got := readCounters()
			injected := cutAfter
			if applied != "applied before the next call" {
				injected = delayed
			}
			settleSessions(10, injected)
			for err := s.Ping(t.Context()); err != nil; err = s.Ping(t.Context()) { // wait until the circuit breaker permits calls again
				t.Log(err)
			}
			switch applied {
			case "applied after Positions":
				got += readChanges()
				if err := proxy.release(); err != nil {
					t.Fatal(err)
				}
			case "applied after Counters":
				readChanges()
				got = readCounters()
				if err := proxy.release(); err != nil {
					t.Fatal(err)
				}
			}
			settleSessions(100, "")
			got += 100
			got += readChanges()
			got += readChanges()
			if stored := readCounters(); got != stored {
				t.Errorf("sum from Changes = %d, want %d", got, stored)
			} else if stored != 111 {
				t.Errorf("sum in the store = %d, want 111", stored)
			}
		})
	}
}

// For a tenant that is missing in a call of Positions, Changes returns ok = false afterwards.
func TestPositionsDropsTenantsNotInCall(t *testing.T) {
	server := storetest.StartRedis(t)
	follower, other := openWithShards(t, server.URL(), 4), openWithShards(t, server.URL(), 4)
	tenants := []string{"a", "b", "c"}
	readPositions := func(follow ...string) map[string]session.Position {
		t.Helper()
		m, err := follower.Positions(t.Context(), follow)
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	n := 0
	settleSessions := func(tenant string) {
		t.Helper()
		n++
		step := newSettlement(n)
		step[0].Tenant = tenant
		if _, err := other.Settle(t.Context(), step); err != nil {
			t.Fatal(err)
		}
	}
	for _, tenant := range tenants {
		settleSessions(tenant)
	}
	if m := readPositions(); len(m) != 3 {
		t.Fatalf("first call of Positions = %+v, want 3 items", m)
	} else if m["a"].Counters == "" {
		t.Fatal(`first call of Positions: ["a"].Counters is empty`)
	}
	for _, tenant := range tenants {
		if _, err := follower.Counters(t.Context(), tenant); err != nil {
			t.Fatal(err)
		}
	}
	settleSessions("b")
	settleSessions("c")
	m := readPositions("a", "b")
	if m["a"].Counters == "" {
		t.Error(`Positions(a, b): ["a"].Counters is empty`)
	}
	if m["b"].Counters == "" {
		t.Error(`Positions(a, b): ["b"].Counters is empty`)
	}
	if m["c"] != (session.Position{}) {
		t.Errorf(`Positions(a, b)["c"] = %+v, want %+v`, m["c"], (session.Position{}))
	}
	if len(m) != 3 {
		t.Errorf("Positions(a, b) = %+v, want 3 items", m)
	}
	if _, ok := follower.Changes("c"); ok {
		t.Error("Changes(c) after Positions without c: got ok = true, want false")
	}
	if deltas, ok := follower.Changes("b"); !ok {
		t.Error("Changes(b): ok = false, want true")
	} else if len(deltas) != 1 {
		t.Errorf("Changes(b): deltas = %+v, want 1 delta", deltas)
	}
	if m := readPositions("a"); len(m) != 1 {
		t.Errorf("Positions(a): got %v, want only a", m)
	}
	if m := readPositions("b"); m["b"].Counters == "" {
		t.Errorf("Positions(b): got %v, want a position for b", m)
	}
	if _, ok := follower.Changes("b"); ok {
		t.Error("Changes(b) after Positions without b: got ok = true, want false")
	}
}
