package store_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"precept/bandit/feedback"
	"precept/internal/session"
	"precept/store"
	"precept/store/sqlite"
)

var _ store.Backend = (*sqlite.Store)(nil)

// When the store retries a failed write, it also writes the exchanges that were offered after the failure.
func TestFailedWriteIsRetried(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 2, 5} {
		t.Run(fmt.Sprint(n, " failures"), func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, nil)
			f.backend.failNext("write", n, errDown)
			want := 0
			for i := range n {
				name := fmt.Sprint("s", i)
				f.addKey(replyKey+session.EchoKey(i), f.beginSession(tenantA, name, newAssignment(true)))
				f.offer(name, 1, 2)
				want += 2
				f.deliver()
				checkEqual(t, "Store.Healthy after a failed write", f.store.Healthy(), false)
				checkEqual(t, "Metrics.Pending", f.store.Metrics.Pending.Load(), int64(want))
				f.deliver() // writes nothing, because the backoff has not ended
				checkEqual(t, "Metrics.WriteErrors during the backoff", f.store.Metrics.WriteErrors.Load(), int64(i+1))
				f.clock.add(time.Second)
			}
			f.deliver()
			checkEqual(t, "Store.Healthy after a successful write", f.store.Healthy(), true)
			checkEqual(t, "Metrics.Exchanges", f.store.Metrics.Exchanges.Load(), int64(want))
			for i := range n {
				name, key := fmt.Sprint("s", i), replyKey+session.EchoKey(i)
				checkEqual(t, "stored exchanges in a session", f.exchangeCount(sessionID(name)), 2)
				_, ok := f.row(sessionID(name))
				checkEqual(t, "the backend has the session's row", ok, true)
				checkList(t, "sessions for the key", f.sessionsByKey(key), []session.ID{sessionID(name)})
			}
			f.checkMemoryIsFree()
		})
	}
}

// offerInvalid offers an exchange that no backend can store.
func (f *fixture) offerInvalid(turn int) {
	x := newExchange(tenantA, "s", turn, f.clock.now())
	x.Session = "no session"
	f.store.Offer(store.Turn{Exchange: x, Size: 10})
}

func TestOnlyInvalidExchangeInBatchIsDropped(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	id := f.beginSession(tenantA, "s", newAssignment(true))
	f.addKey(replyKey, id)
	f.offer("s", 1)
	f.offerInvalid(2)
	f.offer("s", 3)
	f.deliver()
	checkEqual(t, "stored exchanges", f.exchangeCount(id), 2)
	checkEqual(t, "Metrics.Exchanges", f.store.Metrics.Exchanges.Load(), 2)
	checkEqual(t, "Metrics.DroppedBad", f.store.Metrics.DroppedBad.Load(), 1)
	_, ok := f.row(id)
	checkEqual(t, "the backend has the session's row", ok, true)
	checkEqual(t, "number of sessions with the key", len(f.sessionsByKey(replyKey)), 1)
	checkList(t, "failed steps", f.takeFailures(), []string{"write"})
	f.checkMemoryIsFree()
}

// After the failed batch, the store writes the exchanges one by one. In this test, one of these writes also fails.
func TestFailureWhileIsolatingInvalidExchangeLosesNothing(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	id := f.beginSession(tenantA, "s", newAssignment(true))
	f.offerInvalid(1)
	f.offer("s", 2, 3)
	writes := 0
	f.backend.onCall(func(string) {
		if writes++; writes == 3 {
			f.backend.failNext("write", 1, errDown)
		}
	})
	f.deliver()
	f.backend.onCall(nil)
	checkEqual(t, "Metrics.Pending", f.store.Metrics.Pending.Load(), 3)
	f.deliverFor(time.Second)
	checkEqual(t, "stored exchanges", f.exchangeCount(id), 2)
	checkAccount(t, "account", f.account(true), "3 = 2 + 0 + 0 + 1 bad") // 2 exchanges are stored, and 1 is dropped as invalid
	checkEqual(t, "Metrics.Exchanges", f.store.Metrics.Exchanges.Load(), 2)
	f.checkMemoryIsFree()
}

// One batch contains an invalid exchange and an exchange of a deleted session. The account counts the latter as stored.
func TestMetricsOmitInvalidAndDeletedExchanges(t *testing.T) {
	t.Parallel()
	var backend *sharedBackend
	f := newFixture(t, withSharedBackend(&backend, "one"))
	deleted := f.beginSession(tenantA, "deleted", newAssignment(true))
	f.backend.failNext("write", 1, errDown)
	f.offer("deleted", 1)
	f.offerInvalid(1)
	f.offer("s", 2)
	f.deliver()
	backend.announceErasure(session.Erasure{Tenant: tenantA, IDs: []session.ID{deleted}, At: f.clock.now(), Position: "1"})
	f.deliverFor(2 * time.Second)
	checkEqual(t, "stored exchanges in the deleted session", f.exchangeCount(deleted), 0)
	checkEqual(t, "Metrics.Exchanges", f.store.Metrics.Exchanges.Load(), 1)
	checkEqual(t, "Metrics.DroppedBad", f.store.Metrics.DroppedBad.Load(), 1)
	checkAccount(t, "account", f.account(true), "3 = 2 + 0 + 0 + 1 bad")
}

// Without a data directory, the backend is a NullBackend.
func TestNullBackendKeepsSessionsInMemory(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := runFixture(t, func(o *store.Options) { o.Backend, o.Queue.Path = store.NullBackend{}, "" })
		id := f.beginSession(tenantA, "s", newAssignment(true))
		f.addKey(replyKey, id)
		f.offer("s", 1, 2)
		f.deliver()
		checkEqual(t, "Metrics.DroppedReadOnly", f.store.Metrics.DroppedReadOnly.Load(), 2)
		checkEqual(t, "Metrics.Exchanges", f.store.Metrics.Exchanges.Load(), 0)
		checkEqual(t, "Store.Healthy", f.store.Healthy(), false)
		if _, err := f.store.Post(t.Context(), tenantA, []session.ID{id}, replyKey, newScore("a", 1, 1)); !errors.Is(err, store.ErrNullBackend) {
			t.Errorf("Post(session) with a NullBackend: got error %v, want store.ErrNullBackend", err)
		}
		if _, err := f.store.Post(t.Context(), tenantA, nil, replyKey+1, newScore("a", 1, 1)); !errors.Is(err, store.ErrNullBackend) {
			t.Errorf("Post(key without a session) with a NullBackend: got error %v, want store.ErrNullBackend", err)
		}
		if _, err := f.store.Rate(t.Context(), tenantA, feedback.Post{SampleID: "x"}); !errors.Is(err, store.ErrNoSession) {
			t.Errorf("Rate(sample) with a NullBackend: got error %v, want store.ErrNoSession", err)
		}
		f.clock.add(closeAge + time.Second)
		f.deliver()
		checkEqual(t, "number of failed steps", len(f.takeFailures()), 0)
		f.clock.add(24 * time.Hour) // the session is not evicted, because no backend could load it again
		time.Sleep(time.Second)
		checkEqual(t, "sessions in memory", f.store.Sessions(), 1)
		checkEqual(t, "turns in the session", f.turnCount(id), 1)
		f.checkMemoryIsFree()
	})
}

func TestNullBackendRefusesWrites(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	v := store.NullBackend{}
	_, feedbackErr := v.AddFeedback(ctx, tenantA, nil)
	_, priorsErr := v.PutPriors(ctx, tenantA, 0, nil)
	for name, err := range map[string]error{
		"Write": v.Write(ctx, session.Batch{}), "AddFeedback": feedbackErr, "PutPriors": priorsErr,
		"Park": v.Park(ctx, tenantA, 1, newScore("a", 1, 1)), "RaiseMaxima": v.RaiseMaxima(ctx, tenantA, nil),
	} {
		if !errors.Is(err, store.ErrNullBackend) {
			t.Errorf("NullBackend.%s: got error %v, want store.ErrNullBackend", name, err)
		}
	}
	if done, err := v.Settle(ctx, make([]session.Settlement, 3)); err != nil {
		t.Error(err)
	} else if slices.Contains(done, true) {
		t.Errorf("Settle = %v, want only false", done)
	} else if len(done) != 3 {
		t.Errorf("Settle = %v, want 3 items", done)
	}
}
