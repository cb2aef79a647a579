package store_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"precept/bandit/trial"
	"precept/detect"
	"precept/internal/label"
	"precept/internal/session"
	"precept/store"
)

func TestSlowBackendDoesNotBlockTheRecorder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := runFixture(t, nil)
		release, writing := make(chan struct{}), make(chan struct{}, 1)
		r.backend.onCall(func(op string) {
			if op == "write" {
				select {
				case writing <- struct{}{}:
				default:
				}
				<-release
			}
		})
		r.offer("first", 1)
		<-writing
		for i := range int64(3) {
			r.offer(fmt.Sprint("meanwhile-", i), 1)
			eventually(t, "the turn to be recorded while the backend is blocked", func() bool { return r.balancedAccount(true).Spooled == i+2 })
		}
		checkAccount(t, "account while the backend is blocked", r.account(true), "4 = 0 + 4 + 0")
		close(release)
		if err := r.drain(); err != nil {
			t.Fatal(err)
		}
		checkAccount(t, "account after the stop", r.account(false), "4 = 4 + 0 + 0")
	})
}

// The exchanges of a long outage are ten times as large as the memory for exchanges. Each exchange is stored
// once after the outage, with its session and the key of the session.
func TestBacklogOfALongOutageIsStored(t *testing.T) {
	t.Parallel()
	for _, crash := range []bool{false, true} {
		t.Run(map[bool]string{false: "without a restart", true: "after a crash"}[crash], func(t *testing.T) {
			t.Parallel()
			smallMemory := func(o *store.Options) { o.Queue.MemoryBytes = 1000 }
			r := newFixture(t, smallMemory)
			r.backend.failWrites()
			for i := range 50 {
				name := fmt.Sprint("s", i)
				r.beginSession(tenantA, name, newAssignment(true))
				r.addKey(session.EchoKey(1000+i), sessionID(name))
				r.offer(name, 1, 2)
				r.wait(time.Second)
			}
			checkEqual(t, "Account.Spooled during the outage", r.balancedAccount(true).Spooled, 100)
			checkEqual(t, "Tally.Pending", r.store.Tally.Pending.Load(), 100)
			checkEqual(t, "Tally.DroppedFull", r.store.Tally.DroppedFull.Load(), 0)
			r.backend.allowWrites()
			if crash {
				r = r.restart(smallMemory)
			}
			r.wait(time.Second)
			r.offer("s0", 3)
			r.deliver()
			checkAccount(t, "account", r.account(true), "101 = 101 + 0 + 0")
			for i := range 50 {
				name, want := fmt.Sprint("s", i), []string{"1 complete", "2 complete"}
				if i == 0 {
					want = append(want, "3 complete")
				}
				checkList(t, "stored turns of "+name, r.storedTurns(name), want)
				if _, ok := r.row(sessionID(name)); !ok {
					t.Errorf("session %s has no row after the outage", name)
				}
				key := session.EchoKey(1000 + i)
				checkList(t, "sessions of the key", r.sessionsOf(key), []session.ID{sessionID(name)})
			}
			r.checkMemoryIsFree()
		})
	}
}

// The newest row of a session wins, even if older rows are delivered after a crash.
func TestNewestRowWinsAfterAnOutage(t *testing.T) {
	t.Parallel()
	r := newFixture(t, nil)
	r.backend.failWrites()
	id := r.beginSession(tenantA, "s", newAssignment(true))
	for turns := 1; turns <= 5; turns++ {
		r.change(id, store.Decided, func(rec *session.Record) { rec.Thread.Turns = turns })
		r.wait(time.Second)
	}
	r = r.crash(nil)
	r.deliver()
	checkEqual(t, "turns in the stored row", r.storedTurnCount(id), 5)
}

// After a restart, Acquire reports a session with an undelivered row as late, not as unknown.
func TestUndeliveredSessionIsLateAfterARestart(t *testing.T) {
	t.Parallel()
	r := newFixture(t, nil)
	r.backend.failWrites()
	id := r.beginSession(tenantA, "s", newAssignment(true))
	r.deliver()
	_, late := r.store.Acquire(t.Context(), tenantA, session.ID{9})
	checkEqual(t, "a session that does not exist is late", late, false)
	r = r.restart(func(o *store.Options) { o.Backend.(*faultyBackend).failNext("write", 1, errDown) })
	_, late = r.store.Acquire(t.Context(), tenantA, id)
	checkEqual(t, "the undelivered session is late after the restart", late, true)
	r.wait(time.Second)
	ses, late := r.store.Acquire(t.Context(), tenantA, id)
	if ses == nil || late {
		t.Fatalf("Acquire of a delivered session = %v, late %v, want a session, late false", ses, late)
	}
	r.store.Release(ses, store.Unchanged)
}

// lossyBackend is a shared backend. A new epoch means that the backend has lost its last writes.
type lossyBackend struct {
	*faultyBackend
	epoch     string
	announced func()            // called when a session is announced as forgotten; may be nil
	erased    []session.Erasure // returned by the next call of Erasures
}

func (l *lossyBackend) Announce(context.Context, session.Erasure) (string, error) {
	if l.announced != nil {
		l.announced()
	}
	return "", nil
}

func (l *lossyBackend) Erasures(context.Context, string) (list []session.Erasure, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	list, l.erased = l.erased, nil
	return list, nil
}

// forgetElsewhere makes the next call of Erasures return an erasure by another replica.
func (l *lossyBackend) forgetElsewhere(e session.Erasure) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.erased = []session.Erasure{e}
}

func (l *lossyBackend) KeepOptOuts(context.Context, map[session.ID]session.OptOutMark) error {
	return nil
}

func (l *lossyBackend) OptOutOf(context.Context, session.ID) (session.OptOutMark, bool, error) {
	return session.OptOutMark{}, false, nil
}
func (l *lossyBackend) Epoch(context.Context) (string, error) { return l.epoch, l.call("epoch") }

// withFleet makes the backend of a fixture a lossyBackend with an epoch, as if several replicas (a fleet) shared it,
// and stores the lossyBackend in be.
func withFleet(be **lossyBackend, epoch string) func(o *store.Options) {
	return func(o *store.Options) {
		*be = &lossyBackend{faultyBackend: o.Backend.(*faultyBackend), epoch: epoch} //nolint:forcetypeassert // openFixture sets a *faultyBackend
		o.Backend, o.Fleet = *be, *be
	}
}

// deleteSession deletes a session from the backend.
func (r *fixture) deleteSession(name string) {
	r.t.Helper()
	if ok, err := r.backend.Forget(r.t.Context(), tenantA, sessionID(name)); !ok || err != nil {
		r.t.Fatalf("Forget(%s) = %v, %v, want true, nil", name, ok, err)
	}
}

// A shared backend with a new epoch has lost its last writes. The store delivers the last rows again.
func TestLostWritesAreDeliveredAgain(t *testing.T) {
	t.Parallel()
	var be *lossyBackend
	r := newFixture(t, withFleet(&be, "one"))
	for _, name := range []string{"old", "middle", "new"} {
		r.beginSession(tenantA, name, newAssignment(true))
		r.offer(name, 1)
		r.wait(5 * time.Second)
	}
	checkAccount(t, "account", r.account(true), "3 = 3 + 0 + 0")
	for _, epoch := range []string{"two", "three"} { // each change of the epoch starts a new delivery
		r.deleteSession("new")
		be.epoch = epoch
		r.wait(time.Second)
		checkList(t, "turns delivered again", r.storedTurns("new"), []string{"1 complete"})
		checkAccount(t, "account", r.account(true), "3 = 3 + 0 + 0")
	}

	x, b := r.startTurn("new", 2) // the backend loses the end of this turn while precept is down
	r.deliver()
	r.endTurn(x, b)
	r.deliver()
	if err := r.drain(); err != nil {
		t.Fatal(err)
	}
	r.deleteSession("new")
	r = r.restart(withFleet(&be, "four"))
	r.wait(time.Second)
	checkList(t, "turns delivered again after a stop", r.storedTurns("new"), []string{"1 complete", "2 complete"})
	checkAccount(t, "account", r.account(true), "4 = 4 + 0 + 0")
	checkList(t, "failed steps", r.takeFailures(), nil)
	r.checkMemoryIsFree()
}

// Delivered exchanges leave the outbox once the backend can no longer lose them: after a sync of a local database, or
// some seconds after a sync of a shared server.
func TestOutboxIsFreedWhenDeliveredExchangesAreDurable(t *testing.T) {
	t.Parallel()
	for _, shared := range []bool{true, false} {
		t.Run(map[bool]string{false: "local database", true: "shared server"}[shared], func(t *testing.T) {
			t.Parallel()
			var be *lossyBackend
			r := newFixture(t, func(o *store.Options) {
				o.Queue.Bytes = 256 << 10 // small, so that a few kilobytes are worth a compaction
				if shared {
					withFleet(&be, "one")(o)
				}
			})
			for turn := range 8 {
				r.offerLarge("s", turn+1, 16<<10)
				r.deliver()
			}
			before := r.store.OutboxBytes()
			checkAtLeast(t, "bytes of the outbox before a sync", before, 100<<10+1)
			r.backend.failNext("sync", 1<<30, errDown)
			r.wait(durableAfter)
			checkAtLeast(t, "bytes of the outbox while no sync succeeds", r.store.OutboxBytes(), 100<<10)
			r.backend.failNext("sync", 0, nil)
			if shared {
				r.wait(6 * time.Second)
				checkAtLeast(t, "bytes of the outbox while the server may lose the rows", r.store.OutboxBytes(), 100<<10)
			}
			r.wait(durableAfter)
			checkAtMost(t, "bytes of the outbox after the rows are durable", r.store.OutboxBytes(), before/2-1)
			checkAccount(t, "account after a crash", r.crash(nil).account(true), "8 = 8 + 0 + 0")
		})
	}
}

// An outbox at its limit drops the newest exchanges and counts the dropped exchanges. The outbox accepts new
// exchanges when the backend is back.
func TestOutboxAtItsLimitDropsTheNewestExchanges(t *testing.T) {
	t.Parallel()
	r := newFixture(t, func(o *store.Options) { o.Queue.Bytes = 256 << 10 })
	r.backend.failWrites()
	x, b := r.startTurn("slow", 1)
	const turns = 40
	for i := range turns {
		r.offerLarge("s", i+1, 16<<10)
		r.wait(time.Second)
	}
	r.endTurn(x, b)
	r.deliver()
	account := r.balancedAccount(true)
	dropped := account.Dropped["quota"]
	if dropped < turns/4 || dropped > turns-5 {
		t.Fatalf("account at the limit: Dropped = %v, want %d to %d exchanges with the reason quota", account.Dropped, turns/4, turns-5)
	}
	checkEqual(t, "Tally.DroppedQuota", r.store.Tally.DroppedQuota.Load(), dropped)
	checkEqual(t, "Tally.Pending", r.store.Tally.Pending.Load(), account.Spooled)
	r.backend.allowWrites()
	r.wait(time.Minute)
	r.offer("s", 100)
	r.deliver()
	checkEqual(t, "oldest stored turn", r.storedTurns("s")[0], "1 complete")
	checkEqual(t, "turn 100 is stored", slices.Contains(r.storedTurns("s"), "100 complete"), true)
	checkAccount(t, "account", r.account(true), fmt.Sprintf("%d = %d + 0 + 0 + %d quota", turns+2, turns+2-dropped, dropped))
	r.checkMemoryIsFree()
}

// If the outbox cannot be created, the store reports a failure and keeps undelivered exchanges in memory.
func TestExchangesStayInMemoryWithoutAnOutbox(t *testing.T) {
	t.Parallel()
	r := newFixture(t, func(o *store.Options) {
		if err := os.WriteFile(filepath.Dir(o.Queue.Path), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	})
	checkEqual(t, "number of failed steps", len(r.takeFailures()), 1)
	x, b := r.startTurn("s", 1)
	r.endTurn(x, b)
	r.backend.failNext("write", 3, errDown)
	for i := range 4 {
		r.beginSession(tenantA, "s", trial.Assignment{})
		r.offer("s", i+2)
		r.wait(time.Second)
	}
	r.deliver()
	checkEqual(t, "number of stored turns", len(r.storedTurns("s")), 5)
	r.checkMemoryIsFree()
}

// A failure is reported with the step that failed.
func TestFailuresNameTheFailedStep(t *testing.T) {
	t.Parallel()
	r := newFixture(t, nil)
	checkFailures := func(event string, want ...string) {
		t.Helper()
		r.clock.add(5 * time.Second)
		r.deliver()
		checkList(t, "failed steps when "+event, r.takeFailures(), want)
	}
	r.offer("s", 1)
	r.backend.failNext("sync", 1, errDown)
	checkFailures("a sync fails", "sync")
	r.offer("s", 2)
	r.backend.failNext("write", 1, errDown)
	checkFailures("a write fails", "write")
	checkFailures("nothing fails")
	r.store.Begin(newExchange(tenantA, "s", 3, r.clock.now()))
	r.deliver()
	r = r.restart(func(o *store.Options) { o.Backend.(*faultyBackend).failNext("write", 1, errDown) })
	checkFailures("the write of a turn without an end fails", "write")
	checkFailures("nothing fails")
}

// Lag is the age of the oldest exchange that the backend does not have.
func TestLagIsTheAgeOfTheOldestExchange(t *testing.T) {
	t.Parallel()
	r := newFixture(t, nil)
	r.deliver()
	checkEqual(t, "lag before the first turn", r.store.Lag(), 0)
	r.backend.failWrites()
	r.offer("s", 1)
	r.deliver()
	r.clock.add(10 * time.Second)
	r.deliver()
	if lag := r.store.Lag(); lag < 10*time.Second || lag > 20*time.Second {
		t.Errorf("Lag while the backend is down = %v, want 10s to 20s", lag)
	}
	checkAtLeast(t, "bytes of the outbox while the backend is down", r.store.OutboxBytes(), 1)
	r.backend.allowWrites()
	r.clock.add(10 * time.Second)
	r.deliver()
	r.deliver()
	checkEqual(t, "lag after the outage", r.store.Lag(), 0)
}

// A stop reports exchanges that neither the disk nor the backend has stored.
func TestStopReportsLostExchanges(t *testing.T) {
	t.Parallel()
	r := newFixture(t, func(o *store.Options) { o.Queue.Path = "" })
	r.offer("s", 1)
	r.deliver()
	r.backend.failWrites()
	r.offer("s", 2)
	if err := r.drain(); !errors.Is(err, errDown) {
		t.Errorf("stop with an undelivered exchange in memory: err = %v, want errDown", err)
	}
	checkEqual(t, "the failed steps contain stop", slices.Contains(r.takeFailures(), "stop"), true)
}

// While the backend is down, a full outbox drops the newest exchanges of the tenant that floods it, and accepts the
// exchanges of another tenant.
func TestFullOutboxDropsTheLargestTenantFirst(t *testing.T) {
	t.Parallel()
	for name, limit := range map[string]struct {
		set    func(o *store.Options)
		reason string
	}{
		"shared outbox":       {func(o *store.Options) { o.Queue.Tenants = true }, "quota"},
		"limits.tenant_bytes": {func(o *store.Options) { o.Queue.TenantBytes = 256 << 10 }, "tenant"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newFixture(t, func(o *store.Options) { o.Queue.Bytes = 1 << 20; limit.set(o) })
			r.backend.failWrites()
			const turns = 100
			for i := range turns {
				x := newExchange(tenantA, "s", i+1, r.clock.now())
				x.Reply.Text = noise(i+1, 16<<10)
				r.store.Offer(store.Turn{Exchange: x, Size: 16 << 10, Signals: []detect.Signal{{Feeling: detect.Approval, Tier: 2, Rule: "tests"}}})
				r.wait(time.Second)
			}
			dropped := r.balancedAccount(true).Dropped
			signals := map[string]int64{"quota": r.store.Tally.Signals.Quota.Load(), "tenant": r.store.Tally.Signals.Tenant.Load()}
			checkEqual(t, "number of dropped signals, one for each dropped exchange", signals[limit.reason], dropped[limit.reason])
			checkEqual(t, "the failed steps contain spool", slices.Contains(r.takeFailures(), string(label.StepSpool)), true)
			if n := dropped[limit.reason]; n < turns/4 || n > turns-5 || len(dropped) != 1 {
				t.Fatalf("dropped exchanges by reason: got %v, want %d to %d with reason %s only", dropped, turns/4, turns-5, limit.reason)
			}
			for i := range 3 {
				x := newExchange("another", "other", i+1, r.clock.now())
				x.Reply.Text = noise(i, 4<<10)
				if !r.store.Offer(store.Turn{Exchange: x, Size: 4 << 10}) {
					t.Fatal("Offer of a turn of the other tenant = false, want true")
				}
				r.wait(time.Second)
			}
			checkEqual(t, "dropped exchanges by reason after the turns of the other tenant", fmt.Sprint(r.balancedAccount(true).Dropped), fmt.Sprint(dropped))
			r.backend.allowWrites()
			r.wait(time.Minute)
			r.offer("s", turns+1)
			r.deliver()
			checkEqual(t, "dropped exchanges by reason after the outage", fmt.Sprint(r.balancedAccount(true).Dropped), fmt.Sprint(dropped))
		})
	}
}

// slowBackend is a backend behind a slow network: a write of more than limit bytes of text times out.
type slowBackend struct {
	*faultyBackend
	limit int
	err   error // returned by a write above the limit
}

func (b *slowBackend) Write(ctx context.Context, batch session.Batch) error {
	n := 0
	for i := range batch.Exchanges {
		n += len(batch.Exchanges[i].Reply.Text)
	}
	if n > b.limit {
		return b.err
	}
	return b.faultyBackend.Write(ctx, batch)
}

// A delivery that timed out is retried with fewer rows, because a retry with the same rows would time out again.
func TestSlowBackendGetsSmallerDeliveries(t *testing.T) {
	t.Parallel()
	for name, timeout := range map[string]error{"context deadline": context.DeadlineExceeded, "connection deadline": os.ErrDeadlineExceeded} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newFixture(t, func(o *store.Options) {
				o.Queue.MemoryBytes = 16 << 20
				o.Backend = &slowBackend{o.Backend.(*faultyBackend), 1200 << 10, fmt.Errorf("write: %w", timeout)}
			})
			for n := range 60 {
				if !r.offerLarge("s", n+1, 100<<10) {
					t.Fatalf("Offer of turn %d = false, want true", n+1)
				}
			}
			r.deliverAll()
			checkAccount(t, "account", r.account(true), "60 = 60 + 0 + 0")
			checkEqual(t, "number of stored turns", len(r.storedTurns("s")), 60)
			r.checkMemoryIsFree()
		})
	}
}
