package store_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"precept/bandit/trial"
	"precept/internal/label"
	"precept/internal/sample"
	"precept/internal/session"
	"precept/store"
)

func TestChangeDuringAWriteIsWrittenAgain(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	id := f.beginSession(tenantA, "s", trial.Assignment{})
	f.backend.onCall(func(op string) {
		if op == "write" {
			f.backend.onCall(nil)
			f.change(id, store.DecisionsChanged, func(rec *session.Record) { rec.Thread.Turns = 9 })
		}
	})
	f.deliver()
	f.deliver()
	checkEqual(t, "turns after a restart", f.restart(nil).turnCount(id), 9)
}

// A decision or a shutdown writes the counts earlier.
func TestCountsAreWrittenAfterASecond(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	nextTurn := func(rec *session.Record) { rec.Thread.Turns++ }
	id := f.beginSession(tenantA, "s", trial.Assignment{})
	f.deliver()
	f.change(id, store.CountsChanged, nextTurn)
	f.deliver()
	checkEqual(t, "stored turns right after a count", f.storedTurnCount(id), 1)
	f.deliverFor(time.Second)
	checkEqual(t, "stored turns a second after a count", f.storedTurnCount(id), 2)
	f.change(id, store.CountsChanged, nextTurn)
	f.change(id, store.DecisionsChanged, nextTurn)
	f.deliver()
	checkEqual(t, "stored turns after a decision", f.storedTurnCount(id), 4)
	f.deliverFor(time.Second)
	f.change(id, store.Unchanged, nextTurn)
	f.deliverFor(time.Second)
	checkEqual(t, "stored turns after an Unchanged change", f.storedTurnCount(id), 4)
	f.change(id, store.CountsChanged, nextTurn)
	if err := f.drain(); err != nil {
		t.Fatal(err)
	}
	checkEqual(t, "stored turns after shutdown", f.storedTurnCount(id), 6)
}

func TestMemoryForExchangesIsLimited(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(o *store.Options) { o.Queue.MaxMemoryBytes, o.Queue.Path = 250, "" })
	offer := func(turn int, size int64) bool {
		return f.store.Offer(store.Turn{Exchange: newExchange(tenantA, "s", turn, f.clock.now()), Size: size})
	}
	for i, want := range []bool{true, true, false} {
		checkEqual(t, fmt.Sprint("Offer(100 bytes), turn ", i+1), offer(i+1, 100), want)
	}
	checkEqual(t, "Offer(last 50 free bytes)", offer(4, 50), true)
	checkEqual(t, "Metrics.DroppedFull", f.store.Metrics.DroppedFull.Load(), 1)
	f.backend.failNext("write", 1, errDown)
	f.deliver()
	checkEqual(t, "Offer(1 byte) after a failed write", offer(5, 1), false)
	f.deliverFor(time.Second)
	f.checkMemoryIsFree()
}

func TestQueueLengthIsLimited(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	const maxTurns = 20_000
	n := 0
	for ; n < maxTurns && f.store.Offer(store.Turn{Exchange: newExchange(tenantA, "s", n+1, f.clock.now()), Size: 1}); n++ {
	}
	if n < 5000 {
		t.Errorf("accepted turns = %d, want at least 5000", n)
	}
	if n == maxTurns {
		t.Errorf("the store accepted all %d turns", n)
	}
	checkEqual(t, "Metrics.DroppedFull", f.store.Metrics.DroppedFull.Load(), 1)
	checkEqual(t, "Metrics.Pending", f.store.Metrics.Pending.Load(), int64(n))
	f.deliverAll()
	checkEqual(t, "stored exchanges", f.exchangeCount(sessionID("s")), n)
	checkAccount(t, "account", f.account(true), fmt.Sprintf("%d = %d + 0 + 0 + 1 full", n+1, n))
	f.checkMemoryIsFree()
}

func TestTurnsThatFillMemoryAreStoredOnce(t *testing.T) {
	t.Parallel()
	const turns, turnBytes = 10, 3 << 20
	f := newFixture(t, func(o *store.Options) { o.Queue.MaxMemoryBytes = turns * turnBytes })
	for turn := 1; turn <= turns; turn++ {
		x, start := f.startTurn("s", turn)
		f.store.Offer(store.Turn{Exchange: x, Start: start, Size: turnBytes})
	}
	f.deliver()
	checkEqual(t, "stored exchanges", f.exchangeCount(sessionID("s")), turns)
	checkAccount(t, "account", f.account(true), "10 = 10 + 0 + 0")
	f.checkMemoryIsFree()
}

func TestLargeBatchIsDeliveredEarly(t *testing.T) {
	t.Parallel()
	for name, batch := range map[string]struct {
		turns int   // number of offered turns
		bytes int64 // size of each turn
		early bool  // whether the turns are delivered before DeliverEvery has passed
	}{
		"few turns":  {2, 100, false},
		"many turns": {3000, 1, true},
		"many bytes": {2, 3 << 20, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := runFixture(t, func(o *store.Options) { o.Queue.DeliverEvery, o.Queue.MaxMemoryBytes = time.Hour, 16<<20 })
				f.offer("first", 1) // this turn is delivered immediately; the next regular delivery follows after DeliverEvery
				time.Sleep(time.Second)
				for turn := 1; turn <= batch.turns; turn++ {
					f.store.Offer(store.Turn{Exchange: newExchange(tenantA, "s", turn, f.clock.now()), Size: batch.bytes})
				}
				time.Sleep(time.Second)
				// The last turns, fewer than flushAt, may still wait for the recorder's next tick.
				if n := f.exchangeCount(sessionID("s")); n > 0 != batch.early {
					t.Errorf("turns delivered before DeliverEvery has passed: got %d of %d, want early delivery: %t", n, batch.turns, batch.early)
				}
				f.clock.add(time.Hour)
				time.Sleep(time.Second)
				checkEqual(t, "stored exchanges after DeliverEvery", f.exchangeCount(sessionID("s")), batch.turns)
			})
		})
	}
}

func TestIncompleteExchangesAreCounted(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	for i, outcome := range []string{sample.Complete, sample.Incomplete, sample.Aborted, sample.Failed} {
		x := newExchange(tenantA, "s", i+1, f.clock.now())
		x.Outcome = outcome
		f.store.Offer(store.Turn{Exchange: x, Size: 10})
	}
	f.deliver()
	checkEqual(t, "Metrics.Exchanges", f.store.Metrics.Exchanges.Load(), 4)
	checkEqual(t, "Metrics.Incomplete", f.store.Metrics.Incomplete.Load(), 3)
}

// The first Run closes the Done channel when it ends. A second Run must not close the channel again.
func TestSecondRunDoesNotPanic(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	select {
	case <-f.store.Done():
		t.Fatal("the Done channel is closed before the first Run, want it open")
	default:
	}
	_ = f.drain()
	<-f.store.Done()
	_ = f.drain() // an error, because the outbox is closed
}

// After the shutdown, the account must count the undelivered turns as spooled.
func TestStopDuringAnOutageReturnsTheError(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	f.offer("s", 1)
	f.backend.failNext("write", 2, errDown)
	f.deliver()
	f.offer("s", 2)
	if err := f.drain(); !errors.Is(err, errDown) {
		t.Errorf("error from Run at shutdown during an outage: got %v, want errDown", err)
	}
	checkEqual(t, "Metrics.Pending", f.store.Metrics.Pending.Load(), 2)
	checkAccount(t, "account", accountText(f.balancedAccount(false)), "2 = 0 + 2 + 0")
}

func TestPanicDropsOnlyOneTurn(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	f.offer("s", 1)
	f.store.Offer(store.Turn{Size: 10}) // a turn without an exchange makes the recorder panic
	f.offer("s", 2)
	f.deliver()
	checkList(t, "failed steps", f.takeFailures(), []string{"panic record"})
	checkEqual(t, "Metrics.DroppedBad", f.store.Metrics.DroppedBad.Load(), 1)
	checkEqual(t, "Metrics.Exchanges", f.store.Metrics.Exchanges.Load(), 2)
	f.checkMemoryIsFree()
}

// panickingExchange panics before each step that works on one particular exchange, and counts the panics.
type panickingExchange struct {
	exchange string // exchange id
	panics   atomic.Int64
}

// before is the function that a test sets as Hooks.Before.
func (p *panickingExchange) before(_ label.Step, _ session.ID, exchange string) {
	if exchange == p.exchange {
		p.panics.Add(1)
		panic("poison mara@example.com")
	}
}

// One of five exchanges makes a step panic, either in the recorder or at startup after a crash.
func TestOnlyPanickingExchangeIsSetAside(t *testing.T) {
	t.Parallel()
	for _, crash := range []bool{false, true} {
		t.Run(map[bool]string{false: "while recording", true: "after a crash"}[crash], func(t *testing.T) {
			t.Parallel()
			p := &panickingExchange{exchange: newExchange(tenantA, "s", 3, time.Time{}).ID}
			withPanic := func(o *store.Options) { o.Hooks.Before = p.before }
			f := newFixture(t, nil)
			if !crash {
				f = newFixture(t, withPanic)
			}
			f.backend.failNext("write", 1000, errDown)
			for turn := 1; turn <= 5; turn++ {
				f.offer("s", turn)
				f.deliver()
			}
			if crash {
				f = f.restart(withPanic)
			} else {
				f.backend.allowWrites()
			}
			f.deliverFor(2 * time.Second)
			checkList(t, "stored turns", f.storedTurns("s"), []string{"1 complete", "2 complete", "4 complete", "5 complete"})
			checkEqual(t, "panics at the exchange", p.panics.Load(), 1)
			checkAccount(t, "account", f.account(true), fmt.Sprint("5 = 4 + 0 + 0 + 1 ", map[bool]string{false: "bad", true: "damaged"}[crash]))
			f.checkMemoryIsFree()
			if err := f.drain(); err != nil {
				t.Fatal(err)
			}
			if list := f.deadLetters(); !crash && (len(list) != 1 || list[0].Exchange != p.exchange) {
				t.Errorf("dead letters: got %+v, want one dead letter for exchange %s", list, p.exchange)
			}
			checkList(t, "files with the address", filesWith(t, f.dir, "mara@example.com"), nil)
		})
	}
}

func (f *fixture) deadLetters() []session.DeadLetter {
	f.t.Helper()
	list, _, err := f.backend.backend.(interface {
		DeadLetters(ctx context.Context, limit int) ([]session.DeadLetter, int, error)
	}).DeadLetters(f.t.Context(), 10)
	if err != nil {
		f.t.Fatal(err)
	}
	return list
}

// panickingExpiry panics at each deletion of old sessions, and at the first deletion of old parked feedback.
type panickingExpiry struct {
	store.Backend
	retain, purge atomic.Int64 // how often PurgeSessions and PurgeParked were called
}

func (p *panickingExpiry) PurgeSessions(context.Context, time.Time) (int, error) {
	p.retain.Add(1)
	panic("retain")
}

func (p *panickingExpiry) PurgeParked(ctx context.Context, before time.Time) (int, error) {
	if p.purge.Add(1) == 1 {
		panic("purge")
	}
	return p.Backend.PurgeParked(ctx, before)
}

// The store tries the deletion again at the next regular time.
func TestPanickingRetentionDoesNotBlockTheStore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var panicking *panickingExpiry
		f := runFixture(t, func(o *store.Options) {
			panicking = &panickingExpiry{Backend: o.Backend}
			o.Backend, o.Retention = panicking, 10*time.Hour
		})
		for n := range int64(3) {
			eventually(t, "the next retention attempt", func() bool { return panicking.retain.Load() == n+1 && panicking.purge.Load() == n+1 })
			f.clock.add(10 * time.Minute)
		}
		id := f.beginSession(tenantA, "late", newAssignment(true))
		x, start := f.startTurn("late", 1)
		f.endTurn(x, start)
		eventually(t, "the turn to be stored", func() bool { return f.exchangeCount(id) == 1 })
		if got := f.takeFailures(); !slices.Contains(got, "panic retain") {
			t.Errorf("failed steps: got %v, want %q among them", got, "panic retain")
		}
	})
}
