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

// Unsettled returns closed sessions with feedback after their settlement, in a random order and from all shards, the
// parts into which a store divides its sessions. The number of sessions is the limit, or the number of all such
// sessions if that is lower.
func TestUnsettledSessionsComeFromAllShards(t *testing.T) {
	server := storetest.StartRedis(t)
	s := openWithShards(t, server.URL(), 8)
	const sessions, limit = 60, 10
	newFeedback := map[session.ID][]feedback.Entry{}
	for n := range sessions {
		if _, err := s.Settle(t.Context(), oneStep(n)); err != nil {
			t.Fatal(err)
		}
		newFeedback[sid(n)] = []feedback.Entry{entryOf("late")}
	}
	if _, err := s.AddFeedback(t.Context(), ourTenant, newFeedback); err != nil {
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
				t.Fatalf("Unsettled with limit %d: got session %v twice, want each session once", limit, u.ID)
			}
			seen[u.ID] = true
		}
		return ids
	}
	seen, firsts := map[session.ID]bool{}, map[session.ID]bool{}
	for range 300 {
		ids := list(limit)
		if len(ids) != limit {
			t.Fatalf("Unsettled with limit %[2]d: got %[1]d sessions, want %[2]d", len(ids), limit)
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
		t.Errorf("Unsettled with limit %[2]d: got %[1]d sessions, want %[2]d", n, sessions-1)
	}
}

// OpenFeedback returns at most limit sessions of all shards together. If each call continues at the position that the
// call before returned, the calls return each session once.
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
				t.Fatalf("sessions of one call of OpenFeedback: got %d, want at most %d", len(rows), limit)
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

// A complete read of a tenant's counters sends one command to each shard in which the tenant has no counters.
func TestCountersCostFewCommandsForEmptyShards(t *testing.T) {
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
		t.Fatalf("counters: got %v, error %v, want one counter with the value 6", list, err)
	}
	if n := commandsOf(t, server) - before; n > 256+3*4+5 {
		t.Errorf("the read cost %d commands, want at most %d: one for each shard, four for each of 3 shards with counters, and 5", n, 256+3*4+5)
	}
}

// A shard removes a tenant from its list of tenants with the tenant's last session, so that the retention and reads of
// all sessions skip the tenant in the shard. The next session adds the tenant again. The counters stay.
func TestShardForgetsTenantsWithoutSessions(t *testing.T) {
	server := storetest.StartRedis(t)
	s := openWithShards(t, server.URL(), 2)
	listed := func() (n int64) { // sum of the tenants in the lists of all shards
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
	if n := listed(); n != 2 {
		t.Fatalf("tenants in the lists of both shards: got %d, want 2", n)
	}
	want, err := s.Counters(t.Context(), ourTenant)
	if err != nil || len(want) == 0 {
		t.Fatalf("counters before the deletion: got %v, error %v, want some", want, err)
	}
	if _, err := s.Forget(t.Context(), ourTenant, sid(0)); err != nil {
		t.Fatal(err)
	}
	if n := listed(); n != 2 {
		t.Errorf("tenants in the lists of both shards after the deletion of one session: got %d, want 2", n)
	}
	if n, err := s.Retain(t.Context(), time.Date(2040, 1, 1, 0, 0, 0, 0, time.UTC)); n != sessions-1 || err != nil {
		t.Fatalf("Retain of all sessions: got %d deleted sessions, error %v, want %d", n, err, sessions-1)
	}
	if n := listed(); n != 0 {
		t.Errorf("tenants in the lists of both shards after the deletion of all sessions: got %d, want 0", n)
	}
	got, err := s.Counters(t.Context(), ourTenant)
	if err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("counters after the deletion: got %v, error %v, want %v", got, err, want)
	}
	if err := s.Write(t.Context(), batch(50)); err != nil {
		t.Fatal(err)
	}
	found := 0
	err = s.EachSession(t.Context(), "", time.Time{}, time.Time{}, func(session.Row, session.Applied) error { found++; return nil })
	if err != nil || found != 1 || listed() != 1 {
		t.Errorf("after the next session: got %d sessions, and %d tenants in the lists of both shards, error %v, want one of each", found, listed(), err)
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

// A server regularly calls Stats, which counts rows, and PurgeParked, which deletes old feedback whose session is not
// known yet. The number of commands of both calls does not depend on the number of tenants, and both calls cover the
// parked feedback of all tenants.
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
		t.Errorf("commands of Stats and PurgeParked with 200 tenants: got %d, want at most 5 more than the %d with 10 tenants", large, small)
	}
	for n := range 5 {
		if err := s.Park(t.Context(), fmt.Sprint("tenant", n), session.EchoKey(n), entryOf("e")); err != nil {
			t.Fatal(err)
		}
	}
	if n := parked(); n != 5 {
		t.Errorf("parked feedback in Stats: got %d entries, want 5", n)
	}
	if added, err := s.Join(t.Context(), "tenant0", map[session.EchoKey]session.ID{0: sid(0)}); err != nil || added[sid(0)] != 1 {
		t.Fatalf("Join of the parked feedback of one session: got %v, error %v, want one entry", added, err)
	}
	if n := purge(time.Date(2040, 1, 1, 0, 0, 0, 0, time.UTC)); n != 4 || parked() != 0 {
		t.Errorf("PurgeParked: deleted %d entries and left %d, want 4 and 0", n, parked())
	}
	if large := cost(); large > small+5 {
		t.Errorf("commands of Stats and PurgeParked after the deletion of the parked feedback: got %d, want at most 5 more than the %d with 10 tenants", large, small)
	}
}
