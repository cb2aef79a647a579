package redis_test

import (
	"fmt"
	"testing"
	"time"

	"precept/bandit/feedback"
	"precept/internal/sample"
	"precept/internal/session"
	"precept/store/redis"
	"precept/store/storetest"
)

// The consumer group in this test is "lake".
func TestDeleteExchangesWaitsForAcknowledgement(t *testing.T) {
	t.Parallel()
	s := open(t, storetest.StartRedis(t).URL())
	if err := s.Write(t.Context(), fullBatch()); err != nil {
		t.Fatal(err)
	}
	steps := firstSettlement()
	steps[0].FeedbackState = 1 // the feedback state of a session with one exchange and no feedback
	if _, err := s.Settle(t.Context(), steps); err != nil {
		t.Fatal(err)
	}
	deleteBefore := func(seconds int) (int, bool) {
		t.Helper()
		time.Sleep(2 * time.Millisecond) // until the lease of the previous ExchangeDeleter has expired
		n, ok, err := s.NewExchangeDeleter("lake", fmt.Sprint(seconds)).DeleteExchanges(t.Context(), atSecond(seconds), time.Millisecond)
		if err != nil {
			t.Fatal(err)
		}
		return n, ok
	}
	if n, ok := deleteBefore(1000); n != 0 {
		t.Errorf("DeleteExchanges without a consumer group = %d, want 0", n)
	} else if ok {
		t.Error("DeleteExchanges without a consumer group: ok = true, want false")
	}
	streams, err := s.SampleStreams(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(streams) != 1 {
		t.Fatalf("SampleStreams = %+v, want 1 item", streams)
	}
	for stream := range streams {
		if err := s.AckSamples(t.Context(), "lake", map[string]string{stream: "0-1"}); err != nil {
			t.Fatal(err)
		}
	}
	if n, ok := deleteBefore(1000); n != 0 {
		t.Errorf("DeleteExchanges before the sample is acknowledged = %d, want 0", n)
	} else if !ok {
		t.Error("DeleteExchanges before the sample is acknowledged: ok = false, want true")
	}
	if err := s.AckSamples(t.Context(), "lake", streams); err != nil {
		t.Fatal(err)
	}
	if n, _ := deleteBefore(-3600); n != 0 {
		t.Errorf("DeleteExchanges with a time before the session: got %d, want 0", n)
	}
	before, err := s.Exchanges(t.Context(), testTenant, sessionID(1))
	if err != nil {
		t.Fatal(err)
	}
	if len(before) == 0 {
		t.Fatal("Exchanges before DeleteExchanges: got none")
	}
	if n, _ := deleteBefore(1000); n != len(before) {
		t.Errorf("DeleteExchanges after the sample is acknowledged: got %d, want %d", n, len(before))
	}
	if list, err := s.Exchanges(t.Context(), testTenant, sessionID(1)); err != nil {
		t.Error(err)
	} else if len(list) != 0 {
		t.Errorf("Exchanges after DeleteExchanges = %+v, want none", list)
	}
	if err := s.Write(t.Context(), session.Batch{ReplacedSamples: []session.Ref{{Tenant: testTenant, ID: sessionID(1)}}}); err != nil {
		t.Fatal(err)
	}
	if p, err := s.ListSamples(t.Context(), testTenant, session.ListRange{Limit: 10}); err != nil {
		t.Error(err)
	} else if len(p.List) != 1 {
		t.Errorf("ListSamples after DeleteExchanges and another write: List = %+v, want 1 item", p.List)
	}
}

// writeClosedSessions writes the closed sessions first to end-1, each with a sample and an exchange.
func writeClosedSessions(t *testing.T, s *redis.Store, tenant string, first, end int) {
	t.Helper()
	var b session.Batch
	for n := first; n < end; n++ {
		batch := newBatch(n)
		batch.Rows[0].Tenant, batch.Exchanges[0].Tenant, batch.Rows[0].Seen, batch.Rows[0].Closed = tenant, tenant, atSecond(0), true
		b.Rows, b.Exchanges = append(b.Rows, batch.Rows...), append(b.Exchanges, batch.Exchanges...)
		b.Samples = append(b.Samples, session.StoredSample{Tenant: tenant, ID: sessionID(n), Sample: sample.Sample{ID: fmt.Sprint("m", n), CreatedAt: atSecond(0)}})
	}
	if err := s.Write(t.Context(), b); err != nil {
		t.Fatal(err)
	}
}

// acknowledge makes a consumer group acknowledge all samples.
func acknowledge(t *testing.T, s *redis.Store, group string) {
	t.Helper()
	streams, err := s.SampleStreams(t.Context())
	if err == nil {
		err = s.AckSamples(t.Context(), group, streams)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// The 1,000 sessions have the same time, and are more than one script call of DeleteExchanges examines (deleteStep).
func TestDeleteExchangesHandlesEqualTimes(t *testing.T) {
	t.Parallel()
	s := openWithShards(t, storetest.StartRedis(t).URL(), 2)
	const sessions = 1000
	writeClosedSessions(t, s, testTenant, 0, sessions)
	acknowledge(t, s, "lake")
	n, ok, err := s.NewExchangeDeleter("lake", "one").DeleteExchanges(t.Context(), atSecond(1000), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if n != sessions {
		t.Errorf("DeleteExchanges = %d, want %d", n, sessions)
	}
	if !ok {
		t.Error("DeleteExchanges: ok = false, want true")
	}
}

// The outbox may deliver an exchange again after DeleteExchanges has deleted it. The store must not store it again.
func TestRedeliveryDoesNotRestoreDeletedExchange(t *testing.T) {
	t.Parallel()
	s := openWithShards(t, storetest.StartRedis(t).URL(), 2)
	writeClosedSessions(t, s, testTenant, 0, 1)
	acknowledge(t, s, "lake")
	deleteOne := func() {
		t.Helper()
		if n, ok, err := s.NewExchangeDeleter("lake", "one").DeleteExchanges(t.Context(), atSecond(1000), time.Minute); err != nil {
			t.Fatal(err)
		} else if n != 1 {
			t.Fatalf("DeleteExchanges = %d, want 1", n)
		} else if !ok {
			t.Fatal("DeleteExchanges: ok = false, want true")
		}
	}
	checkExchanges := func(stored int, everStored int64) {
		t.Helper()
		list, err := s.Exchanges(t.Context(), testTenant, sessionID(0))
		if err != nil {
			t.Error(err)
		} else if len(list) != stored {
			t.Errorf("Exchanges = %+v, want %d exchanges", list, stored)
		}
		if m, err := s.Stats(t.Context()); err != nil {
			t.Error(err)
		} else if m["exchanges_ever"] != everStored {
			t.Errorf(`Stats["exchanges_ever"] = %d, want %d`, m["exchanges_ever"], everStored)
		}
	}
	deleteOne()
	second, later := newBatch(0).Exchanges, newBatch(0).Exchanges
	second[0].Tenant, later[0].Tenant, later[0].ID = testTenant, testTenant, "later"
	deliver := func(list []sample.Exchange) {
		t.Helper()
		if err := s.Write(t.Context(), session.Batch{Exchanges: list}); err != nil {
			t.Fatal(err)
		}
	}
	deliver(second)
	deliver(later)
	checkExchanges(1, 2)
	deleteOne()
	deliver(second)
	deliver(later)
	checkExchanges(0, 2)
}

// The next settlement of a session with new feedback builds the samples again from the exchanges.
func TestDeleteExchangesKeepsUnsettledSessions(t *testing.T) {
	t.Parallel()
	s := openWithShards(t, storetest.StartRedis(t).URL(), 2)
	writeClosedSessions(t, s, testTenant, 0, 1)
	acknowledge(t, s, "lake")
	step := []session.Settlement{{Tenant: testTenant, ID: sessionID(0), FeedbackState: 1, To: session.SettledState{Version: 1}}}
	if _, err := s.Settle(t.Context(), step); err != nil {
		t.Fatal(err)
	}
	if _, err := s.AddFeedback(t.Context(), testTenant, map[session.ID][]feedback.Entry{sessionID(0): {newEntry("late")}}); err != nil {
		t.Fatal(err)
	}
	deleter := s.NewExchangeDeleter("lake", "one")
	for i, want := range []int{0, 1} {
		if n, ok, err := deleter.DeleteExchanges(t.Context(), atSecond(1000), time.Minute); err != nil {
			t.Errorf("DeleteExchanges, call %d: %v", i, err)
		} else if n != want {
			t.Errorf("DeleteExchanges, call %d = %d, want %d", i, n, want)
		} else if !ok {
			t.Errorf("DeleteExchanges, call %d: ok = false, want true", i)
		}
		_, state, err := s.SessionFeedback(t.Context(), testTenant, sessionID(0))
		if err != nil {
			t.Fatal(err)
		}
		step[0].From, step[0].FeedbackState = 1, state
		if _, err := s.Settle(t.Context(), step); err != nil {
			t.Fatal(err)
		}
	}
}

func TestDeleteExchangesSendsFewCommandsIfNothingIsOld(t *testing.T) {
	t.Parallel()
	server := storetest.StartRedis(t)
	one, other := openWithShards(t, server.URL(), 4), openWithShards(t, server.URL(), 4)
	const tenants = 300
	for n := range tenants {
		writeClosedSessions(t, one, fmt.Sprint("tenant", n), n, n+1)
	}
	acknowledge(t, one, "lake")
	withLease, withoutLease := one.NewExchangeDeleter("lake", "one"), other.NewExchangeDeleter("lake", "other")
	if n, _, err := withLease.DeleteExchanges(t.Context(), atSecond(1000), time.Minute); err != nil {
		t.Fatal(err)
	} else if n != tenants {
		t.Fatalf("first call of DeleteExchanges = %d, want %d", n, tenants)
	}
	cost := func(deleter *redis.ExchangeDeleter) int {
		before := commandCount(t, server)
		if n, ok, err := deleter.DeleteExchanges(t.Context(), atSecond(2000), time.Minute); err != nil {
			t.Error(err)
		} else if n != 0 {
			t.Errorf("DeleteExchanges without old sessions = %d, want 0", n)
		} else if !ok {
			t.Error("DeleteExchanges without old sessions: ok = false, want true")
		}
		return commandCount(t, server) - before
	}
	if n := cost(withLease); n > tenants+20 {
		t.Errorf("commands that DeleteExchanges sends without old sessions: got %d, want at most %d for %d tenants", n, tenants+20, tenants)
	}
	if n := cost(withoutLease); n > 10 {
		t.Errorf("commands that DeleteExchanges sends without the lease: got %d, want at most 10", n)
	}
}

func TestExchangeDeleterReleaseFreesTheLease(t *testing.T) {
	t.Parallel()
	s := openWithShards(t, storetest.StartRedis(t).URL(), 4)
	if _, _, err := s.NewExchangeDeleter("lake", "one").DeleteExchanges(t.Context(), atSecond(0), time.Hour); err != nil {
		t.Fatal(err)
	}
	acquire := func() bool {
		t.Helper()
		ok, err := s.AcquireLease(t.Context(), "cool lake", "two", atSecond(0), time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		return ok
	}
	if acquire() {
		t.Fatal("another owner got the lease before Release")
	}
	if err := s.NewExchangeDeleter("lake", "three").Release(t.Context()); err != nil {
		t.Errorf("ExchangeDeleter.Release without the lease: got error %v, want none", err)
	}
	if acquire() {
		t.Error("another owner got the lease after a foreign Release")
	}
	if err := s.NewExchangeDeleter("lake", "one").Release(t.Context()); err != nil {
		t.Errorf("ExchangeDeleter.Release with the lease: got error %v, want none", err)
	}
	if !acquire() {
		t.Error("another owner did not get the lease after its release")
	}
}
