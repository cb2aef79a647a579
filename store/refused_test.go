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

// A failed write is retried after a backoff. The retry also writes the exchanges that were offered in the meantime.
func TestFailedWriteIsRetried(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 2, 5} {
		t.Run(fmt.Sprint(n, " failures"), func(t *testing.T) {
			t.Parallel()
			r := newFixture(t, nil)
			r.backend.failNext("write", n, errDown)
			want := 0
			for i := range n {
				name := fmt.Sprint("s", i)
				r.addKey(replyKey+session.EchoKey(i), r.beginSession(tenantA, name, newAssignment(true)))
				r.offer(name, 1, 2)
				want += 2
				r.deliver()
				checkEqual(t, "Store.Healthy after a failed write", r.store.Healthy(), false)
				checkEqual(t, "Tally.Pending", r.store.Tally.Pending.Load(), int64(want))
				r.deliver() // no write, because the backoff has not ended
				checkEqual(t, "Tally.WriteErrors during the backoff", r.store.Tally.WriteErrors.Load(), int64(i+1))
				r.clock.add(time.Second)
			}
			r.deliver()
			checkEqual(t, "Store.Healthy after a successful write", r.store.Healthy(), true)
			checkEqual(t, "Tally.Exchanges", r.store.Tally.Exchanges.Load(), int64(want))
			for i := range n {
				name, key := fmt.Sprint("s", i), replyKey+session.EchoKey(i)
				checkEqual(t, "stored exchanges of a session", r.exchanges(sessionID(name)), 2)
				_, ok := r.row(sessionID(name))
				checkEqual(t, "the backend has a row of the session", ok, true)
				checkList(t, "sessions of the key", r.sessionsOf(key), []session.ID{sessionID(name)})
			}
			r.checkMemoryIsFree()
		})
	}
}

// offerInvalid offers an exchange that no backend can store.
func (r *fixture) offerInvalid(turn int) {
	x := newExchange(tenantA, "s", turn, r.clock.now())
	x.Session = "no session"
	r.store.Offer(store.Turn{Exchange: x, Size: 10})
}

// An invalid exchange is dropped, and the rest of its batch is stored.
func TestOnlyInvalidExchangeOfABatchIsDropped(t *testing.T) {
	t.Parallel()
	r := newFixture(t, nil)
	id := r.beginSession(tenantA, "s", newAssignment(true))
	r.addKey(replyKey, id)
	r.offer("s", 1)
	r.offerInvalid(2)
	r.offer("s", 3)
	r.deliver()
	checkEqual(t, "stored exchanges", r.exchanges(id), 2)
	checkEqual(t, "Tally.Exchanges", r.store.Tally.Exchanges.Load(), 2)
	checkEqual(t, "Tally.DroppedBad", r.store.Tally.DroppedBad.Load(), 1)
	_, ok := r.row(id)
	checkEqual(t, "the backend has a row of the session", ok, true)
	checkEqual(t, "number of sessions of the key", len(r.sessionsOf(replyKey)), 1)
	checkList(t, "failed steps", r.takeFailures(), []string{"write"})
	r.checkMemoryIsFree()
}

// If the backend fails while the store writes exchanges one by one to find the invalid one, every valid exchange is
// stored once.
func TestFailureDuringTheSearchForAnInvalidExchange(t *testing.T) {
	t.Parallel()
	r := newFixture(t, nil)
	id := r.beginSession(tenantA, "s", newAssignment(true))
	r.offerInvalid(1)
	r.offer("s", 2, 3)
	writes := 0
	r.backend.onCall(func(string) {
		if writes++; writes == 3 {
			r.backend.failNext("write", 1, errDown) // the next write, while exchanges are written one by one
		}
	})
	r.deliver()
	r.backend.onCall(nil)
	checkEqual(t, "Tally.Pending", r.store.Tally.Pending.Load(), 3)
	r.wait(time.Second)
	checkEqual(t, "stored exchanges", r.exchanges(id), 2)
	checkAccount(t, "account", r.account(true), "3 = 2 + 0 + 0 + 1 bad") // 2 stored, 1 invalid
	checkEqual(t, "Tally.Exchanges", r.store.Tally.Exchanges.Load(), 2)
	r.checkMemoryIsFree()
}

// An invalid exchange and an exchange of a deleted session in one batch are not counted in Tally.Exchanges. The account
// counts the exchange of the deleted session as stored, because its delivery is complete.
func TestInvalidAndDeletedExchangesAreNotCountedAsStored(t *testing.T) {
	t.Parallel()
	var backend *lossyBackend
	r := newFixture(t, withFleet(&backend, "one"))
	deleted := r.beginSession(tenantA, "deleted", newAssignment(true))
	r.backend.failNext("write", 1, errDown)
	r.offer("deleted", 1)
	r.offerInvalid(1)
	r.offer("s", 2)
	r.deliver()
	backend.forgetElsewhere(session.Erasure{Tenant: tenantA, IDs: []session.ID{deleted}, At: r.clock.now(), Place: "1"})
	r.wait(2 * time.Second)
	checkEqual(t, "stored exchanges of the deleted session", r.exchanges(deleted), 0)
	checkEqual(t, "Tally.Exchanges", r.store.Tally.Exchanges.Load(), 1)
	checkEqual(t, "Tally.DroppedBad", r.store.Tally.DroppedBad.Load(), 1)
	checkAccount(t, "account", r.account(true), "3 = 2 + 0 + 0 + 1 bad")
}

// Without a writable data directory, sessions live in memory, exchanges are counted as dropped, and
// feedback is refused.
func TestVolatileKeepsSessionsInMemory(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := runFixture(t, func(o *store.Options) { o.Backend, o.Queue.Path = store.Volatile{}, "" })
		id := r.beginSession(tenantA, "s", newAssignment(true))
		r.addKey(replyKey, id)
		r.offer("s", 1, 2)
		r.deliver()
		checkEqual(t, "Tally.DroppedReadOnly", r.store.Tally.DroppedReadOnly.Load(), 2)
		checkEqual(t, "Tally.Exchanges", r.store.Tally.Exchanges.Load(), 0)
		checkEqual(t, "Store.Healthy", r.store.Healthy(), false)
		if _, err := r.store.Post(t.Context(), tenantA, []session.ID{id}, replyKey, newScore("a", 1, 1)); !errors.Is(err, store.ErrVolatile) {
			t.Errorf("Post on a session in a volatile store: err = %v, want store.ErrVolatile", err)
		}
		if _, err := r.store.Post(t.Context(), tenantA, nil, replyKey+1, newScore("a", 1, 1)); !errors.Is(err, store.ErrVolatile) {
			t.Errorf("Post without a session in a volatile store: err = %v, want store.ErrVolatile", err)
		}
		if _, err := r.store.Rate(t.Context(), tenantA, feedback.Post{SampleID: "x"}); !errors.Is(err, store.ErrNoSession) {
			t.Errorf("Rate of a sample in a volatile store: err = %v, want store.ErrNoSession", err)
		}
		r.clock.add(closeAge + time.Second)
		r.deliver()
		checkEqual(t, "number of failed steps", len(r.takeFailures()), 0)
		r.clock.add(24 * time.Hour) // an idle session is not evicted, because no backend could load it again
		time.Sleep(time.Second)
		checkEqual(t, "sessions in memory", r.store.Sessions(), 1)
		checkEqual(t, "turns of the session", r.turnCount(id), 1)
		r.checkMemoryIsFree()
	})
}

func TestVolatileRefusesWrites(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	v := store.Volatile{}
	_, feedbackErr := v.AddFeedback(ctx, tenantA, nil)
	_, priorsErr := v.PutPriors(ctx, tenantA, 0, nil)
	for name, err := range map[string]error{
		"Write": v.Write(ctx, session.Batch{}), "AddFeedback": feedbackErr, "PutPriors": priorsErr,
		"Park": v.Park(ctx, tenantA, 1, newScore("a", 1, 1)), "Raise": v.Raise(ctx, tenantA, nil),
	} {
		if !errors.Is(err, store.ErrVolatile) {
			t.Errorf("%s of a volatile store: err = %v, want store.ErrVolatile", name, err)
		}
	}
	if done, err := v.Settle(ctx, make([]session.Settlement, 3)); err != nil || slices.Contains(done, true) || len(done) != 3 {
		t.Errorf("Settle of three sessions in a volatile store = %v, %v, want [false false false], nil", done, err)
	}
}
