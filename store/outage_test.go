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
		f := runFixture(t, nil)
		release, writing := make(chan struct{}), make(chan struct{}, 1)
		f.backend.onCall(func(op string) {
			if op == "write" {
				select {
				case writing <- struct{}{}:
				default:
				}
				<-release
			}
		})
		f.offer("first", 1)
		<-writing
		for i := range int64(3) {
			f.offer(fmt.Sprint("meanwhile-", i), 1)
			eventually(t, "the recorder", func() bool { return f.balancedAccount(true).Spooled == i+2 })
		}
		checkAccount(t, "account while the backend is blocked", f.account(true), "4 = 0 + 4 + 0")
		close(release)
		if err := f.drain(); err != nil {
			t.Fatal(err)
		}
		checkAccount(t, "account after shutdown", f.account(false), "4 = 4 + 0 + 0")
	})
}

// Most exchanges wait in the outbox, because the backlog is ten times as large as the memory for exchanges.
func TestLongOutageBacklogIsStored(t *testing.T) {
	t.Parallel()
	for _, crash := range []bool{false, true} {
		t.Run(map[bool]string{false: "without a restart", true: "after a crash"}[crash], func(t *testing.T) {
			t.Parallel()
			smallMemory := func(o *store.Options) { o.Queue.MaxMemoryBytes = 1000 }
			f := newFixture(t, smallMemory)
			f.backend.failWrites()
			for i := range 50 {
				name := fmt.Sprint("s", i)
				f.beginSession(tenantA, name, newAssignment(true))
				f.addKey(session.EchoKey(1000+i), sessionID(name))
				f.offer(name, 1, 2)
				f.deliverFor(time.Second)
			}
			checkEqual(t, "Account.Spooled during the outage", f.balancedAccount(true).Spooled, 100)
			checkEqual(t, "Metrics.Pending", f.store.Metrics.Pending.Load(), 100)
			checkEqual(t, "Metrics.DroppedFull", f.store.Metrics.DroppedFull.Load(), 0)
			f.backend.allowWrites()
			if crash {
				f = f.restart(smallMemory)
			}
			f.deliverFor(time.Second)
			f.offer("s0", 3)
			f.deliver()
			checkAccount(t, "account", f.account(true), "101 = 101 + 0 + 0")
			for i := range 50 {
				name, want := fmt.Sprint("s", i), []string{"1 complete", "2 complete"}
				if i == 0 {
					want = append(want, "3 complete")
				}
				checkList(t, name+": stored turns", f.storedTurns(name), want)
				if _, ok := f.row(sessionID(name)); !ok {
					t.Errorf("session %s has no row", name)
				}
				key := session.EchoKey(1000 + i)
				checkList(t, "sessions for the key", f.sessionsByKey(key), []session.ID{sessionID(name)})
			}
			f.checkMemoryIsFree()
		})
	}
}

func TestNewestRowWinsAfterAnOutage(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	f.backend.failWrites()
	id := f.beginSession(tenantA, "s", newAssignment(true))
	for turns := 1; turns <= 5; turns++ {
		f.change(id, store.DecisionsChanged, func(rec *session.Record) { rec.Thread.Turns = turns })
		f.deliverFor(time.Second)
	}
	f = f.crash(nil)
	f.deliver()
	checkEqual(t, "turns in the stored row", f.storedTurnCount(id), 5)
}

// Acquire reports uncertain = true while the session is only in the outbox.
func TestUndeliveredSessionIsUncertainAfterARestart(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	f.backend.failWrites()
	id := f.beginSession(tenantA, "s", newAssignment(true))
	f.deliver()
	_, uncertain := f.store.Acquire(t.Context(), tenantA, session.ID{9})
	checkEqual(t, "a session that does not exist is uncertain", uncertain, false)
	f = f.restart(func(o *store.Options) { o.Backend.(*faultyBackend).failNext("write", 1, errDown) })
	_, uncertain = f.store.Acquire(t.Context(), tenantA, id)
	checkEqual(t, "the undelivered session is uncertain after the restart", uncertain, true)
	f.deliverFor(time.Second)
	ses, uncertain := f.store.Acquire(t.Context(), tenantA, id)
	if ses == nil {
		t.Fatal("Acquire(delivered session) = nil, want a session")
	}
	checkEqual(t, "the delivered session is uncertain", uncertain, false)
	f.store.Release(ses, store.Unchanged)
}

// sharedBackend is a backend of several replicas. A new epoch means that the backend may have lost the last writes.
type sharedBackend struct {
	*faultyBackend
	epoch     string
	announced func()            // called by Announce; may be nil
	erased    []session.Erasure // returned by the next Erasures call
}

func (b *sharedBackend) Announce(context.Context, session.Erasure) (string, error) {
	if b.announced != nil {
		b.announced()
	}
	return "", nil
}

func (b *sharedBackend) Erasures(context.Context, string) (list []session.Erasure, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	list, b.erased = b.erased, nil
	return list, nil
}

// announceErasure announces an erasure as another replica would.
func (b *sharedBackend) announceErasure(e session.Erasure) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.erased = []session.Erasure{e}
}

func (b *sharedBackend) PutOptOutMarks(context.Context, map[session.ID]session.OptOutMark) error {
	return nil
}

func (b *sharedBackend) OptOutMark(context.Context, session.ID) (session.OptOutMark, bool, error) {
	return session.OptOutMark{}, false, nil
}

func (b *sharedBackend) AwaitReplicas(context.Context) error { return b.call("await replicas") }

func (b *sharedBackend) Epoch(context.Context) (string, error) { return b.epoch, b.call("epoch") }

// withSharedBackend returns an option that wraps the backend as a sharedBackend and stores the result in *shared.
func withSharedBackend(shared **sharedBackend, epoch string) func(o *store.Options) {
	return func(o *store.Options) {
		*shared = &sharedBackend{faultyBackend: o.Backend.(*faultyBackend), epoch: epoch} //nolint:forcetypeassert // openFixture sets a *faultyBackend
		o.Backend, o.Fleet = *shared, *shared
	}
}

// deleteSession deletes a session from the backend only, as a loss of data would.
func (f *fixture) deleteSession(name string) {
	f.t.Helper()
	found, err := f.backend.Forget(f.t.Context(), tenantA, sessionID(name))
	if err != nil {
		f.t.Fatal(err)
	}
	if !found {
		f.t.Fatalf("Forget(%s) = false, want true", name)
	}
}

func TestLostWritesAreDeliveredAgain(t *testing.T) {
	t.Parallel()
	var shared *sharedBackend
	f := newFixture(t, withSharedBackend(&shared, "one"))
	for _, name := range []string{"old", "middle", "new"} {
		f.beginSession(tenantA, name, newAssignment(true))
		f.offer(name, 1)
		f.deliverFor(5 * time.Second)
	}
	checkAccount(t, "account", f.account(true), "3 = 3 + 0 + 0")
	for _, epoch := range []string{"two", "three"} {
		f.deleteSession("new")
		shared.epoch = epoch
		f.deliverFor(time.Second)
		checkList(t, "turns delivered again", f.storedTurns("new"), []string{"1 complete"})
		checkAccount(t, "account", f.account(true), "3 = 3 + 0 + 0")
	}

	x, start := f.startTurn("new", 2)
	f.deliver()
	f.endTurn(x, start)
	f.deliver()
	if err := f.drain(); err != nil {
		t.Fatal(err)
	}
	f.deleteSession("new") // while precept is down
	f = f.restart(withSharedBackend(&shared, "four"))
	f.deliverFor(time.Second)
	checkList(t, "turns delivered again after a shutdown", f.storedTurns("new"), []string{"1 complete", "2 complete"})
	checkAccount(t, "account", f.account(true), "4 = 4 + 0 + 0")
	checkList(t, "failed steps", f.takeFailures(), nil)
	f.checkMemoryIsFree()
}

// An exchange is durable after a sync of a local database, or a few seconds after a sync of a shared server.
func TestOutboxDeletesOnlyDurableExchanges(t *testing.T) {
	t.Parallel()
	for _, isShared := range []bool{true, false} {
		t.Run(map[bool]string{false: "local database", true: "shared server"}[isShared], func(t *testing.T) {
			t.Parallel()
			var shared *sharedBackend
			f := newFixture(t, func(o *store.Options) {
				o.Queue.MaxBytes = 256 << 10 // small, so that the outbox compacts its file
				if isShared {
					withSharedBackend(&shared, "one")(o)
				}
			})
			for turn := range 8 {
				f.offerLarge("s", turn+1, 16<<10)
				f.deliver()
			}
			before := f.store.OutboxBytes()
			checkAtLeast(t, "outbox bytes before a sync", before, 100<<10+1)
			f.backend.failNext("sync", 1<<30, errDown)
			f.deliverFor(durableAfter)
			checkAtLeast(t, "outbox bytes while no sync succeeds", f.store.OutboxBytes(), 100<<10)
			f.backend.failNext("sync", 0, nil)
			if isShared {
				f.deliverFor(6 * time.Second)
				checkAtLeast(t, "outbox bytes 6 seconds after the sync", f.store.OutboxBytes(), 100<<10)
			}
			f.deliverFor(durableAfter)
			checkAtMost(t, "outbox bytes of durable rows", f.store.OutboxBytes(), before/2-1)
			checkAccount(t, "account after a crash", f.crash(nil).account(true), "8 = 8 + 0 + 0")
		})
	}
}

func TestFullOutboxDropsNewestExchanges(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(o *store.Options) { o.Queue.MaxBytes = 256 << 10 })
	f.backend.failWrites()
	x, start := f.startTurn("slow", 1)
	const turns = 40
	for i := range turns {
		f.offerLarge("s", i+1, 16<<10)
		f.deliverFor(time.Second)
	}
	f.endTurn(x, start)
	f.deliver()
	account := f.balancedAccount(true)
	dropped := account.Dropped["quota"]
	if dropped < turns/4 || dropped > turns-5 {
		t.Fatalf("dropped = %v, want quota %d to %d", account.Dropped, turns/4, turns-5)
	}
	checkEqual(t, "Metrics.DroppedQuota", f.store.Metrics.DroppedQuota.Load(), dropped)
	checkEqual(t, "Metrics.Pending", f.store.Metrics.Pending.Load(), account.Spooled)
	f.backend.allowWrites()
	f.deliverFor(time.Minute)
	f.offer("s", 100)
	f.deliver()
	checkEqual(t, "oldest stored turn", f.storedTurns("s")[0], "1 complete")
	checkEqual(t, "turn 100 is stored", slices.Contains(f.storedTurns("s"), "100 complete"), true)
	checkAccount(t, "account", f.account(true), fmt.Sprintf("%d = %d + 0 + 0 + %d quota", turns+2, turns+2-dropped, dropped))
	f.checkMemoryIsFree()
}

// A file with the name of the outbox directory prevents the outbox.
func TestExchangesStayInMemoryWithoutAnOutbox(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(o *store.Options) {
		if err := os.WriteFile(filepath.Dir(o.Queue.Path), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	})
	checkEqual(t, "number of failed steps", len(f.takeFailures()), 1)
	x, start := f.startTurn("s", 1)
	f.endTurn(x, start)
	f.backend.failNext("write", 3, errDown)
	for i := range 4 {
		f.beginSession(tenantA, "s", trial.Assignment{})
		f.offer("s", i+2)
		f.deliverFor(time.Second)
	}
	f.deliver()
	checkEqual(t, "number of stored turns", len(f.storedTurns("s")), 5)
	f.checkMemoryIsFree()
}

func TestFailuresNameTheFailedStep(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	checkFailures := func(event string, want ...string) {
		t.Helper()
		f.clock.add(5 * time.Second)
		f.deliver()
		checkList(t, "failed steps when "+event, f.takeFailures(), want)
	}
	f.offer("s", 1)
	f.backend.failNext("sync", 1, errDown)
	checkFailures("a sync fails", "sync")
	f.offer("s", 2)
	f.backend.failNext("write", 1, errDown)
	checkFailures("a write fails", "write")
	checkFailures("nothing fails")
	f.store.BeginTurn(newExchange(tenantA, "s", 3, f.clock.now()))
	f.deliver()
	f = f.restart(func(o *store.Options) { o.Backend.(*faultyBackend).failNext("write", 1, errDown) })
	checkFailures("writing an unfinished turn fails", "write")
	checkFailures("nothing fails")
}

func TestLagIsOldestExchangeAge(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	f.deliver()
	checkEqual(t, "lag before the first turn", f.store.Lag(), 0)
	f.backend.failWrites()
	f.offer("s", 1)
	f.deliver()
	f.clock.add(10 * time.Second)
	f.deliver()
	if lag := f.store.Lag(); lag < 10*time.Second || lag > 20*time.Second {
		t.Errorf("lag during the outage = %v, want 10s to 20s", lag)
	}
	checkAtLeast(t, "outbox bytes while the backend is down", f.store.OutboxBytes(), 1)
	f.backend.allowWrites()
	f.clock.add(10 * time.Second)
	f.deliver()
	f.deliver()
	checkEqual(t, "lag after the outage", f.store.Lag(), 0)
}

func TestStopReportsLostExchanges(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(o *store.Options) { o.Queue.Path = "" })
	f.offer("s", 1)
	f.deliver()
	f.backend.failWrites()
	f.offer("s", 2)
	if err := f.drain(); !errors.Is(err, errDown) {
		t.Errorf("shutdown error = %v, want errDown", err)
	}
	checkEqual(t, "the failed steps contain stop", slices.Contains(f.takeFailures(), "stop"), true)
}

func TestFullOutboxDropsTheLargestTenantFirst(t *testing.T) {
	t.Parallel()
	for name, limit := range map[string]struct {
		set    func(o *store.Options)
		reason string // of the dropped exchanges
	}{
		"shared outbox":       {func(o *store.Options) { o.Queue.MultiTenant = true }, "quota"},
		"limits.tenant_bytes": {func(o *store.Options) { o.Queue.MaxTenantBytes = 256 << 10 }, "tenant"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, func(o *store.Options) { o.Queue.MaxBytes = 1 << 20; limit.set(o) })
			f.backend.failWrites()
			const turns = 100
			for i := range turns {
				x := newExchange(tenantA, "s", i+1, f.clock.now())
				x.Reply.Text = noise(i+1, 16<<10)
				f.store.Offer(store.Turn{Exchange: x, Size: 16 << 10, Signals: []detect.Signal{{Feeling: detect.Approval, Tier: 2, Rule: "tests"}}})
				f.deliverFor(time.Second)
			}
			dropped := f.balancedAccount(true).Dropped
			signals := map[string]int64{"quota": f.store.Metrics.Signals.Quota.Load(), "tenant": f.store.Metrics.Signals.Tenant.Load()}
			checkEqual(t, "dropped signals", signals[limit.reason], dropped[limit.reason])
			checkEqual(t, "the failed steps contain spool", slices.Contains(f.takeFailures(), string(label.StepOutbox)), true)
			if len(dropped) != 1 {
				t.Fatalf("dropped = %v, want only the reason %s", dropped, limit.reason)
			}
			if n := dropped[limit.reason]; n < turns/4 || n > turns-5 {
				t.Fatalf("dropped = %v, want %d to %d", dropped, turns/4, turns-5)
			}
			for i := range 3 {
				x := newExchange("another", "other", i+1, f.clock.now())
				x.Reply.Text = noise(i, 4<<10)
				if !f.store.Offer(store.Turn{Exchange: x, Size: 4 << 10}) {
					t.Fatal("Offer(other tenant's turn) = false, want true")
				}
				f.deliverFor(time.Second)
			}
			checkEqual(t, "dropped after the other tenant's turns", fmt.Sprint(f.balancedAccount(true).Dropped), fmt.Sprint(dropped))
			f.backend.allowWrites()
			f.deliverFor(time.Minute)
			f.offer("s", turns+1)
			f.deliver()
			checkEqual(t, "dropped after the outage", fmt.Sprint(f.balancedAccount(true).Dropped), fmt.Sprint(dropped))
		})
	}
}

// slowBackend times out on a Write of more than limit bytes of text.
type slowBackend struct {
	*faultyBackend
	limit   int
	err     error // returned by a Write above the limit
	largest int   // size of the largest successful Write in bytes
}

func (b *slowBackend) Write(ctx context.Context, batch session.Batch) error {
	n := 0
	for i := range batch.Exchanges {
		n += len(batch.Exchanges[i].Reply.Text)
	}
	if n > b.limit {
		return b.err
	}
	if err := b.faultyBackend.Write(ctx, batch); err != nil {
		return err
	}
	b.largest = max(b.largest, n)
	return nil
}

func TestSlowBackendGetsSmallerDeliveries(t *testing.T) {
	t.Parallel()
	for name, timeout := range map[string]error{"context deadline": context.DeadlineExceeded, "connection deadline": os.ErrDeadlineExceeded} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, func(o *store.Options) {
				o.Queue.MaxMemoryBytes = 16 << 20
				o.Backend = &slowBackend{faultyBackend: o.Backend.(*faultyBackend), limit: 1200 << 10, err: fmt.Errorf("write: %w", timeout)}
			})
			for n := range 60 {
				if !f.offerLarge("s", n+1, 100<<10) {
					t.Fatalf("Offer(turn %d) = false, want true", n+1)
				}
			}
			f.deliverAll()
			checkAccount(t, "account", f.account(true), "60 = 60 + 0 + 0")
			checkEqual(t, "number of stored turns", len(f.storedTurns("s")), 60)
			f.checkMemoryIsFree()
		})
	}
}

func TestDeliveriesGrowAgainWhenTheBackendIsFast(t *testing.T) {
	t.Parallel()
	const size = 100 << 10
	var slow *slowBackend
	f := newFixture(t, func(o *store.Options) {
		o.Queue.MaxMemoryBytes = 16 << 20
		slow = &slowBackend{faultyBackend: o.Backend.(*faultyBackend), limit: 3 * size, err: os.ErrDeadlineExceeded}
		o.Backend = slow
	})
	offered := 0
	offerInSessions := func(count int) {
		t.Helper()
		for range count {
			offered++
			if !f.offerLarge(fmt.Sprint("s", offered), 1, size) {
				t.Fatalf("Offer(turn %d) = false, want true", offered)
			}
			if offered%20 == 0 {
				f.deliverFor(time.Second) // to the outbox
			}
		}
	}
	offerInSessions(60)
	f.deliverAll()
	checkAtMost(t, "bytes in the largest delivery to the slow backend", int64(slow.largest), 3*size)
	f.backend.failWrites()
	offerInSessions(200)
	slow.limit, slow.largest = 100<<20, 0
	f.backend.allowWrites()
	f.deliverAll()
	checkAtLeast(t, "bytes in the largest delivery to the fast backend", int64(slow.largest), 3<<20)
	checkAccount(t, "account", f.account(true), "260 = 260 + 0 + 0")
	f.checkMemoryIsFree()
}
