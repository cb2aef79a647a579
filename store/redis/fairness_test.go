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

// With a random order, replicas begin with different sessions.
func TestUnsettledSessionsReadsAllShardsInRandomOrder(t *testing.T) {
	server := storetest.StartRedis(t)
	s := openWithShards(t, server.URL(), 8)
	const sessions, limit = 60, 10
	newFeedback := map[session.ID][]feedback.Entry{}
	for n := range sessions {
		if _, err := s.Settle(t.Context(), newSettlement(n)); err != nil {
			t.Fatal(err)
		}
		newFeedback[sessionID(n)] = []feedback.Entry{newEntry("late")}
	}
	if _, err := s.AddFeedback(t.Context(), testTenant, newFeedback); err != nil {
		t.Fatal(err)
	}
	unsettledIDs := func(limit int) (ids []session.ID) {
		t.Helper()
		rows, err := s.UnsettledSessions(t.Context(), limit)
		if err != nil {
			t.Fatal(err)
		}
		seen := map[session.ID]bool{}
		for _, u := range rows {
			if ids = append(ids, u.ID); seen[u.ID] {
				t.Fatalf("UnsettledSessions(%d): session %v is listed twice, want each session once", limit, u.ID)
			}
			seen[u.ID] = true
		}
		return ids
	}
	seen, seenFirst := map[session.ID]bool{}, map[session.ID]bool{}
	for range 300 {
		ids := unsettledIDs(limit)
		if len(ids) != limit {
			t.Fatalf("UnsettledSessions(%[2]d): got %[1]d sessions, want %[2]d", len(ids), limit)
		}
		for _, id := range ids {
			seen[id] = true
		}
		seenFirst[ids[0]] = true
	}
	if len(seen) != sessions {
		t.Fatalf("sessions in 300 calls = %d, want %d", len(seen), sessions)
	}
	if len(seenFirst) < sessions/4 {
		t.Errorf("sessions at the first place = %d, want at least %d", len(seenFirst), sessions/4)
	}
	if n := len(unsettledIDs(1000)); n != sessions {
		t.Errorf("UnsettledSessions(1000): got %d sessions, want %d", n, sessions)
	}
	if n := len(unsettledIDs(sessions - 1)); n != sessions-1 {
		t.Errorf("UnsettledSessions(%[2]d): got %[1]d sessions, want %[2]d", n, sessions-1)
	}
}

func TestRatedOpenSessionsLimitsPageOverAllShards(t *testing.T) {
	server := storetest.StartRedis(t)
	s := openWithShards(t, server.URL(), 8)
	const sessions = 40
	for n := range sessions {
		if err := s.Write(t.Context(), newBatch(n)); err != nil {
			t.Fatal(err)
		}
		postScore(t, s, n, "a", 1)
	}
	for _, limit := range []int{1, 3, 8, 20, 100} {
		seen := map[session.ID]int{}
		after := ""
		for {
			rows, _, last, err := s.RatedOpenSessions(t.Context(), testTenant, after, limit)
			if err != nil {
				t.Fatal(err)
			}
			if len(rows) > limit {
				t.Fatalf("RatedOpenSessions with the limit %[2]d: got %[1]d sessions, want at most %[2]d", len(rows), limit)
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
				t.Errorf("all pages with the limit %d: got session %v %d times, want it once", limit, id, n)
			}
		}
		if len(seen) != sessions {
			t.Errorf("all pages with the limit %d: got %d sessions, want %d", limit, len(seen), sessions)
		}
	}
}

func TestCountersSendsOneCommandToEachEmptyShard(t *testing.T) {
	server := storetest.StartRedis(t)
	s := open(t, server.URL())
	for n := range 3 {
		if _, err := s.Settle(t.Context(), newSettlement(n+1)); err != nil {
			t.Fatal(err)
		}
	}
	before := commandCount(t, server)
	list, err := s.Counters(t.Context(), testTenant)
	if err != nil {
		t.Fatal(err)
	}
	if len(list) != 1 {
		t.Fatalf("Counters = %+v, want 1 delta", list)
	}
	if list[0].Value != 6 {
		t.Fatalf("Counters: Value = %d, want 6", list[0].Value)
	}
	if n := commandCount(t, server) - before; n > 256+3*4+5 {
		t.Errorf("commands that Counters sends: got %d, want at most %d (one for each of 256 shards, four for each of 3 shards with counters, and 5 more)", n, 256+3*4+5)
	}
}

// Each shard has a list of its tenants. Reads over all sessions read only the tenants in these lists.
func TestShardRemovesTenantWithoutSessionsFromList(t *testing.T) {
	server := storetest.StartRedis(t)
	s := openWithShards(t, server.URL(), 2)
	listedTenants := func() (n int64) {
		for _, key := range listKeys(t, server, "precept:{*}:all:tenants") {
			size, _ := server.MustDo(t, "SCARD", key).(int64)
			n += size
		}
		return n
	}
	const sessions = 12
	for n := range sessions {
		if err := s.Write(t.Context(), newBatch(n)); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Settle(t.Context(), newSettlement(n)); err != nil {
			t.Fatal(err)
		}
	}
	if n := listedTenants(); n != 2 {
		t.Fatalf("tenant list entries in both shards: got %d, want 2", n)
	}
	want, err := s.Counters(t.Context(), testTenant)
	if err != nil {
		t.Fatal(err)
	}
	if len(want) == 0 {
		t.Fatal("Counters before deleting sessions: got none")
	}
	if _, err := s.Forget(t.Context(), testTenant, sessionID(0)); err != nil {
		t.Fatal(err)
	}
	if n := listedTenants(); n != 2 {
		t.Errorf("tenant list entries after deleting one session: got %d, want 2", n)
	}
	if n, err := s.PurgeSessions(t.Context(), time.Date(2040, 1, 1, 0, 0, 0, 0, time.UTC)); err != nil {
		t.Fatal(err)
	} else if n != sessions-1 {
		t.Fatalf("sessions deleted by PurgeSessions = %d, want %d", n, sessions-1)
	}
	if n := listedTenants(); n != 0 {
		t.Errorf("tenant list entries after deleting all sessions: got %d, want 0", n)
	}
	got, err := s.Counters(t.Context(), testTenant)
	if err != nil {
		t.Fatal(err)
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("Counters after deleting all sessions = %v, want %v", got, want)
	}
	if err := s.Write(t.Context(), newBatch(50)); err != nil {
		t.Fatal(err)
	}
	found := 0
	err = s.EachSession(t.Context(), "", time.Time{}, time.Time{}, func(session.Row, session.SettledState) error { found++; return nil })
	if err != nil {
		t.Fatal(err)
	}
	if found != 1 {
		t.Errorf("sessions after another write = %d, want 1", found)
	}
	if listedTenants() != 1 {
		t.Errorf("listed tenants after another write = %d, want 1", listedTenants())
	}
}

func commandCount(t *testing.T, server *storetest.Redis) int {
	t.Helper()
	found := regexp.MustCompile(`total_commands_processed:(\d+)`).FindStringSubmatch(fmt.Sprint(server.MustDo(t, "INFO", "stats")))
	n, err := strconv.Atoi(found[1])
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// Stats and PurgeParked must not send more commands if there are more tenants. PurgeParked deletes old parked feedback,
// which is feedback on unknown sessions.
func TestStatsAndPurgeParkedIgnoreTenantCount(t *testing.T) {
	server := storetest.StartRedis(t)
	s := openWithShards(t, server.URL(), 4)
	addTenants := func(from, to int) {
		for n := from; n < to; n++ {
			if err := s.Write(t.Context(), session.Batch{Rows: []session.Row{{Tenant: fmt.Sprint("tenant", n), ID: sessionID(n), Data: []byte("{}")}}}); err != nil {
				t.Fatal(err)
			}
		}
	}
	parkedCount := func() int64 {
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
		before := commandCount(t, server)
		parkedCount()
		purge(time.Unix(0, 0))
		return commandCount(t, server) - before
	}
	addTenants(0, 10)
	cost()
	small := cost()
	addTenants(10, 200)
	if large := cost(); large > small+5 {
		t.Errorf("commands that Stats and PurgeParked send with 200 tenants: got %d, want at most 5 more than the %d with 10 tenants", large, small)
	}
	for n := range 5 {
		if err := s.Park(t.Context(), fmt.Sprint("tenant", n), session.EchoKey(n), newEntry("e")); err != nil {
			t.Fatal(err)
		}
	}
	if n := parkedCount(); n != 5 {
		t.Errorf(`Stats["parked"]: got %d, want 5`, n)
	}
	if added, err := s.Unpark(t.Context(), "tenant0", map[session.EchoKey]session.ID{0: sessionID(0)}); err != nil {
		t.Fatal(err)
	} else if added[sessionID(0)] != 1 {
		t.Fatalf("Unpark: added[sessionID(0)] = %d, want 1", added[sessionID(0)])
	}
	if n := purge(time.Date(2040, 1, 1, 0, 0, 0, 0, time.UTC)); n != 4 {
		t.Errorf("PurgeParked = %d, want 4", n)
	} else if parkedCount() != 0 {
		t.Errorf("parked entries = %d, want 0", parkedCount())
	}
	if large := cost(); large > small+5 {
		t.Errorf("commands that Stats and PurgeParked send after the purge: got %d, want at most 5 more than the %d with 10 tenants", large, small)
	}
}
