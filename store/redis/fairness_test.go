package redis_test

import (
	"fmt"
	"regexp"
	"strconv"
	"testing"
	"time"

	"precept/bandit/feedback"
	"precept/internal/session"
	"precept/store/storetest"
)

// Unsettled returns sessions of all shards in a random order, within the limit, and as many as the limit even if one
// shard has all of them.
func TestUnsettledSessionsComeFromAllShards(t *testing.T) {
	server := storetest.StartRedis(t)
	s := openWithShards(t, server.URL(), 8)
	const sessions, limit = 60, 10
	late := map[session.ID][]feedback.Entry{}
	for n := range sessions {
		if _, err := s.Settle(t.Context(), oneStep(n)); err != nil {
			t.Fatal(err)
		}
		late[sid(n)] = []feedback.Entry{entryOf("late")}
	}
	if _, err := s.AddFeedback(t.Context(), ourTenant, late); err != nil {
		t.Fatal(err)
	}
	list := func(limit int) (ids []session.ID) {
		t.Helper()
		rows, err := s.Unsettled(t.Context(), limit)
		if err != nil {
			t.Fatal(err)
		}
		seen := map[session.ID]bool{}
		for _, u := range rows {
			if ids = append(ids, u.ID); seen[u.ID] {
				t.Fatalf("session %v is twice in the list", u.ID)
			}
			seen[u.ID] = true
		}
		return ids
	}
	seen, firsts := map[session.ID]bool{}, map[session.ID]bool{}
	for range 300 {
		ids := list(limit)
		if len(ids) != limit {
			t.Fatalf("Unsettled: got %d sessions, want the limit %d", len(ids), limit)
		}
		for _, id := range ids {
			seen[id] = true
		}
		firsts[ids[0]] = true
	}
	if len(seen) != sessions || len(firsts) < sessions/4 {
		t.Errorf("300 calls returned %d sessions with %d different first sessions, want %d sessions and at least %d first sessions", len(seen), len(firsts), sessions, sessions/4)
	}
	if n := len(list(1000)); n != sessions {
		t.Errorf("Unsettled with the limit 1000: got %d sessions, want %d", n, sessions)
	}
	if n := len(list(sessions - 1)); n != sessions-1 {
		t.Errorf("Unsettled with the limit %[2]d: got %[1]d sessions, want %[2]d", n, sessions-1)
	}
}

// OpenFeedback returns at most the limit over all shards, and a reader that continues at the last positions reads each
// session once.
func TestOpenFeedbackBoundsAllShardsTogether(t *testing.T) {
	server := storetest.StartRedis(t)
	s := openWithShards(t, server.URL(), 8)
	const sessions = 40
	for n := range sessions {
		if err := s.Write(t.Context(), batch(n)); err != nil {
			t.Fatal(err)
		}
		postScore(t, s, n, "a", 1)
	}
	for _, limit := range []int{1, 3, 8, 20, 100} {
		seen := map[session.ID]int{}
		after := ""
		for {
			rows, _, last, err := s.OpenFeedback(t.Context(), ourTenant, after, limit)
			if err != nil {
				t.Fatal(err)
			}
			if len(rows) > limit {
				t.Fatalf("OpenFeedback: got %d sessions on a page, want at most %d", len(rows), limit)
			}
			for i := range rows {
				seen[rows[i].ID]++
			}
			if last == after {
				break
			}
			after = last
		}
		for id, n := range seen {
			if n != 1 {
				t.Errorf("limit %d: session %v was read %d times, want once", limit, id, n)
			}
		}
		if len(seen) != sessions {
			t.Errorf("limit %d: got %d sessions, want %d", limit, len(seen), sessions)
		}
	}
}

// A complete read of a tenant's counters costs few commands for shards in which the tenant has none.
func TestCountersReadFewCommandsForEmptyShards(t *testing.T) {
	server := storetest.StartRedis(t)
	s := open(t, server.URL())
	for n := range 3 {
		if _, err := s.Settle(t.Context(), oneStep(n+1)); err != nil {
			t.Fatal(err)
		}
	}
	before := commandsOf(t, server)
	list, err := s.Counters(t.Context(), ourTenant)
	if err != nil || len(list) != 1 || list[0].Value != 6 {
		t.Fatalf("counters: got %v, error %v, want one with the sum 6", list, err)
	}
	if n := commandsOf(t, server) - before; n > 256+3*4+5 {
		t.Errorf("the read cost %d commands, want at most %d: one for each shard, four for each of 3 shards with counters, and 5", n, 256+3*4+5)
	}
}

// A shard forgets a tenant without further sessions, so that retention and walks do not visit the pair, and knows the
// tenant again after the next session. The counters stay.
func TestShardForgetsTenantsWithoutSessions(t *testing.T) {
	server := storetest.StartRedis(t)
	s := openWithShards(t, server.URL(), 2)
	pairs := func() (n int64) { // of shard and tenant
		for _, key := range keysOf(t, server, "precept:{*}:all:tenants") {
			size, _ := server.Must(t, "SCARD", key).(int64)
			n += size
		}
		return n
	}
	const sessions = 12
	for n := range sessions {
		if err := s.Write(t.Context(), batch(n)); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Settle(t.Context(), oneStep(n)); err != nil {
			t.Fatal(err)
		}
	}
	if n := pairs(); n != 2 {
		t.Fatalf("pairs of shard and tenant: got %d, want 2", n)
	}
	want, err := s.Counters(t.Context(), ourTenant)
	if err != nil || len(want) == 0 {
		t.Fatalf("counters before the deletion: got %v, error %v, want some", want, err)
	}
	if _, err := s.Forget(t.Context(), ourTenant, sid(0)); err != nil {
		t.Fatal(err)
	}
	if n := pairs(); n != 2 {
		t.Errorf("pairs of shard and tenant after the deletion of one session: got %d, want 2", n)
	}
	if n, err := s.Retain(t.Context(), time.Date(2040, 1, 1, 0, 0, 0, 0, time.UTC)); n != sessions-1 || err != nil {
		t.Fatalf("deleted %d sessions, error %v, want %d", n, err, sessions-1)
	}
	if n := pairs(); n != 0 {
		t.Errorf("pairs of shard and tenant without sessions: got %d, want 0", n)
	}
	have, err := s.Counters(t.Context(), ourTenant)
	if err != nil || fmt.Sprint(have) != fmt.Sprint(want) {
		t.Errorf("counters after the deletion: got %v, error %v, want %v", have, err, want)
	}
	if err := s.Write(t.Context(), batch(50)); err != nil {
		t.Fatal(err)
	}
	found := 0
	err = s.EachSession(t.Context(), "", time.Time{}, time.Time{}, func(session.Row, session.Applied) error { found++; return nil })
	if err != nil || found != 1 || pairs() != 1 {
		t.Errorf("after the next session: got %d sessions in %d pairs of shard and tenant, error %v, want one of each", found, pairs(), err)
	}
}

// commandsOf returns the number of commands that a server has processed.
func commandsOf(t *testing.T, server *storetest.Redis) int {
	t.Helper()
	found := regexp.MustCompile(`total_commands_processed:(\d+)`).FindStringSubmatch(fmt.Sprint(server.Must(t, "INFO", "stats")))
	n, err := strconv.Atoi(found[1])
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// The numbers of rows and the deletion of old parked feedback are regular calls of a server. They cost the same number
// of commands whatever the number of tenants, and see the parked feedback of each tenant.
func TestRegularCallsDoNotVisitAllTenants(t *testing.T) {
	server := storetest.StartRedis(t)
	s := openWithShards(t, server.URL(), 4)
	fill := func(from, to int) {
		for n := from; n < to; n++ {
			if err := s.Write(t.Context(), session.Batch{Rows: []session.Row{{Tenant: fmt.Sprint("tenant", n), ID: sid(n), Data: []byte("{}")}}}); err != nil {
				t.Fatal(err)
			}
		}
	}
	parked := func() int64 {
		t.Helper()
		m, err := s.Stats(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return m["parked"]
	}
	purge := func(before time.Time) int {
		t.Helper()
		n, err := s.PurgeParked(t.Context(), before)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	cost := func() int {
		before := commandsOf(t, server)
		parked()
		purge(time.Unix(0, 0))
		return commandsOf(t, server) - before
	}
	fill(0, 10)
	cost()
	small := cost()
	fill(10, 200)
	if large := cost(); large > small+5 {
		t.Errorf("the calls cost %d commands with 200 tenants, want at most 5 more than %d with 10", large, small)
	}
	for n := range 5 {
		if err := s.Park(t.Context(), fmt.Sprint("tenant", n), session.EchoKey(n), entryOf("e")); err != nil {
			t.Fatal(err)
		}
	}
	if n := parked(); n != 5 {
		t.Errorf("parked entries: got %d, want 5", n)
	}
	if added, err := s.Join(t.Context(), "tenant0", map[session.EchoKey]session.ID{0: sid(0)}); err != nil || added[sid(0)] != 1 {
		t.Fatalf("joined %v, error %v, want one entry", added, err)
	}
	if n := purge(time.Date(2040, 1, 1, 0, 0, 0, 0, time.UTC)); n != 4 || parked() != 0 {
		t.Errorf("deleted %d entries, and %d are left; want 4 and none", n, parked())
	}
	if large := cost(); large > small+5 {
		t.Errorf("the calls cost %d commands after the feedback has left, want at most 5 more than %d before", large, small)
	}
}
