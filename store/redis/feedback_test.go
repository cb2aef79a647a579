package redis_test

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"precept/bandit/feedback"
	"precept/internal/session"
	"precept/store/redis"
	"precept/store/storetest"
)

// postScore adds an entry with a user's score to the feedback on session n.
func postScore(t *testing.T, s *redis.Store, n int, id string, score float64) {
	t.Helper()
	e := feedback.Entry{ID: id, At: time.Date(2031, 5, 6, 7, 8, 9, 0, time.UTC), Source: "user", Type: "score", Score: score, Tier: 1}
	if _, err := s.AddFeedback(t.Context(), "default", map[session.ID][]feedback.Entry{sessionID(n): {e}}); err != nil {
		t.Fatal(err)
	}
}

// readOpenFeedback returns one page of RatedOpenSessions as text, and the last position on the page. The text "2: a e,
// 1: b" means that session 2 has the entries a and e, and session 1 has entry b.
func readOpenFeedback(t *testing.T, s *redis.Store, after string, limit int) (text, last string) {
	t.Helper()
	rows, entries, last, err := s.RatedOpenSessions(t.Context(), "default", after, limit)
	if err != nil {
		t.Fatal(err)
	}
	if len(rows) != len(entries) {
		t.Fatalf("RatedOpenSessions = %+v, want %d rows", rows, len(entries))
	}
	var lines []string
	for i, r := range rows {
		line := "?:"
		for n := range 10 {
			if r.ID == sessionID(n) {
				line = fmt.Sprintf("%d:", n)
			}
		}
		for _, e := range entries[i] {
			line += " " + e.ID
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, ", "), last
}

func TestRatedOpenSessionsReturnsFeedbackInOrder(t *testing.T) {
	server := storetest.StartRedis(t)
	s := openWithShards(t, server.URL(), 1) // only the sessions of one shard have an order
	for n := range 4 {
		if err := s.Write(t.Context(), newBatch(n)); err != nil {
			t.Fatal(err)
		}
	}
	checkPage := func(moment, after string, limit int, want string) string {
		t.Helper()
		got, last := readOpenFeedback(t, s, after, limit)
		if got != want {
			t.Errorf("RatedOpenSessions page, %s: got %q, want %q", moment, got, want)
		}
		return last
	}
	if last := checkPage("no feedback", "", 9, ""); last != "" {
		t.Errorf("position after a page without feedback: got %q, want none", last)
	}
	postScore(t, s, 2, "a", 1)
	postScore(t, s, 1, "b", 0)
	postScore(t, s, 7, "c", 0) // session 7 has no row
	postScore(t, s, 3, "d", 0)
	first := checkPage("first page", "", 1, "2: a")
	last := checkPage("second page", first, 9, "1: b, 3: d")
	checkPage("without new feedback", last, 9, "")
	postScore(t, s, 2, "e", 1)
	postScore(t, s, 1, "b", 0) // a repeated post must change nothing
	last = checkPage("after new feedback on one session", last, 9, "2: a e")

	checkSettled := func(want string) {
		t.Helper()
		got, err := s.AreSettled(t.Context(), "default", []session.ID{sessionID(1), sessionID(2), sessionID(3)})
		if err != nil {
			t.Error(err)
		} else if fmt.Sprint(got) != want {
			t.Errorf("AreSettled = %v, want %v", got, want)
		}
	}
	checkSettled("[false false false]")
	if _, err := s.Settle(t.Context(), []session.Settlement{{Tenant: "default", ID: sessionID(1)}}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Forget(t.Context(), "default", sessionID(3)); err != nil {
		t.Fatal(err)
	}
	checkSettled("[true false false]")
	checkPage("after a settlement and a deletion", "", 9, "2: a e")
	postScore(t, s, 1, "late", 1)
	checkPage("after feedback on a settled session", "", 9, "2: a e")

	// When the newest feedback is deleted, the position of a reader must not move back.
	postScore(t, s, 0, "f", 1)
	postScore(t, s, 2, "h", 1)
	last = checkPage("after new feedback on two sessions", last, 9, "0: f, 2: a e h")
	if _, err := s.Settle(t.Context(), []session.Settlement{{Tenant: "default", ID: sessionID(2)}}); err != nil {
		t.Fatal(err)
	}
	checkPage("after a settlement", last, 9, "")

	keys, _ := server.MustDo(t, "KEYS", "*f:"+sessionID(0).String()).([]any)
	if len(keys) != 1 {
		t.Fatalf("session 0 feedback keys: got %v, want one", keys)
	}
	server.MustDo(t, "HSET", fmt.Sprint(keys[0]), "bad", "cut")
	if err := s.Write(t.Context(), newBatch(3)); err != nil {
		t.Fatal(err)
	}
	postScore(t, s, 3, "i", 1)
	checkPage("with a damaged entry in session 0", "", 9, "3: i")
	server.MustDo(t, "HDEL", fmt.Sprint(keys[0]), "bad")

	// After Redis has lost data, the positions of new feedback are lower than the reader's position. The reader must
	// then begin again.
	checkPage("after data loss", "0:"+strconv.Itoa(1<<50), 9, "0: f, 3: i")
}

// PurgeParked deletes old parked feedback only for the tenants in a list. Park must add a missing tenant to the list.
func TestParkAddsMissingTenantToPurgeList(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]error{"a parked entry": nil, "an entry above the limit": session.ErrParkingFull} {
		server := storetest.StartRedis(t)
		s, err := redis.Open(redis.Options{URL: server.URL(), Now: time.Now, MaxParked: 1, Shards: 2})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		if err := s.Park(t.Context(), testTenant, 1, newEntry("e")); err != nil {
			t.Fatal(err)
		}
		lists, _ := server.MustDo(t, "KEYS", "*:all:parked").([]any)
		if len(lists) != 1 {
			t.Fatalf("parked tenant lists: got %v, want one", lists)
		}
		server.MustDo(t, "DEL", fmt.Sprint(lists[0]))
		key := session.EchoKey(1)
		if want != nil {
			key = 2
		}
		if err := s.Park(t.Context(), testTenant, key, newEntry("e")); !errors.Is(err, want) {
			t.Errorf("Park(%s): got error %v, want %v", name, err, want)
		}
		if n, err := s.PurgeParked(t.Context(), time.Date(2040, 1, 1, 0, 0, 0, 0, time.UTC)); err != nil {
			t.Errorf("entries deleted by PurgeParked after Park(%s): %v", name, err)
		} else if n != 1 {
			t.Errorf("entries deleted by PurgeParked after Park(%s) = %d, want 1", name, n)
		}
	}
}

func TestParkedFeedbackIsLimitedPerTenant(t *testing.T) {
	server := storetest.StartRedis(t)
	s, err := redis.Open(redis.Options{URL: server.URL(), Now: time.Now, MaxParked: 3})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for n := range 3 {
		if err := s.Park(t.Context(), testTenant, session.EchoKey(n), newEntry(fmt.Sprint("e", n))); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Park(t.Context(), testTenant, 9, newEntry("new")); !errors.Is(err, session.ErrParkingFull) {
		t.Errorf("Park(fourth entry): got error %v, want session.ErrParkingFull", err)
	}
	if err := s.Park(t.Context(), testTenant, 1, newEntry("e1")); err != nil {
		t.Errorf("Park(entry that is already parked) at the limit: got error %v, want none", err)
	}
	if err := s.Park(t.Context(), "other", 9, newEntry("new")); err != nil {
		t.Errorf("Park(another tenant's entry) at the limit: got error %v, want none", err)
	}
	if added, err := s.Unpark(t.Context(), testTenant, map[session.EchoKey]session.ID{0: sessionID(1)}); err != nil {
		t.Error(err)
	} else if added[sessionID(1)] != 1 {
		t.Errorf("Unpark: added[sessionID(1)] = %d, want 1", added[sessionID(1)])
	}
	if err := s.Park(t.Context(), testTenant, 9, newEntry("new")); err != nil {
		t.Errorf("Park after Unpark: got error %v, want none", err)
	}
}
