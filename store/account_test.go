package store_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"precept/internal/sample"
	"precept/store"
)

// A turn in progress at a crash is stored once after the crash, as a stub: an incomplete exchange without content.
func TestCrashStoresTurnsInProgressAsStubsOnce(t *testing.T) {
	t.Parallel()
	r := newFixture(t, nil)
	r.beginSession(tenantA, "s", newAssignment(true))
	x1, b1 := r.startTurn("s", 1)
	r.startTurn("s", 2)
	r.deliver()
	r.endTurn(x1, b1)
	_, b3 := r.startTurn("s", 3)
	r.deliver()
	r.store.Abandon(b3)
	r.startTurn("s", 4)
	r.deliver()
	checkAccount(t, "account of the running program", r.account(true), "4 = 1 + 2 + 0 + 1 bad")
	checkAccount(t, "account after a kill", r.account(false), "4 = 1 + 0 + 2 + 1 bad")
	for range 3 {
		r = r.crash(nil)
		r.deliver()
		checkList(t, "stored turns of s", r.storedTurns("s"), []string{"1 complete", "2 incomplete", "4 incomplete"})
		checkAccount(t, "account", r.account(true), "4 = 1 + 0 + 2 + 1 bad")
	}
	x5, b5 := r.startTurn("s", 5)
	r.endTurn(x5, b5)
	r.deliver()
	checkAccount(t, "account after the next turn", r.account(true), "5 = 2 + 0 + 2 + 1 bad")
	list, err := r.backend.Exchanges(t.Context(), tenantA, sessionID("s"))
	if err != nil {
		t.Fatal(err)
	}
	for i := range list {
		if x := list[i]; x.Outcome == sample.Incomplete && (len(x.New) > 0 || x.Reply.Text != "" || x.SessionName != "s" || x.Model != "m-1") {
			t.Errorf("stored stub = %+v, want the session and the model, but no content", x)
		}
	}
}

// Each turn is counted once, with or without a delivery between its start and its end. A crash does not change the
// counts, except that a turn in progress becomes incomplete.
func TestEveryTurnIsCountedOnce(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		end  func(r *fixture, x *sample.Exchange, b *store.TurnStart)
		want string
	}{
		"offered":         {func(r *fixture, x *sample.Exchange, b *store.TurnStart) { r.endTurn(x, b) }, "1 = 1 + 0 + 0"},
		"abandoned twice": {func(r *fixture, _ *sample.Exchange, b *store.TurnStart) { r.store.Abandon(b); r.store.Abandon(b) }, "1 = 0 + 0 + 0 + 1 bad"},
		"offered, then abandoned": {func(r *fixture, x *sample.Exchange, b *store.TurnStart) {
			r.endTurn(x, b)
			r.store.Abandon(b)
		}, "1 = 1 + 0 + 0"},
		"larger than the memory": {func(r *fixture, x *sample.Exchange, b *store.TurnStart) {
			r.store.Offer(store.Turn{Exchange: x, Start: b, Size: 2 << 20})
			r.store.Abandon(b)
		}, "1 = 0 + 0 + 0 + 1 full"},
		"without an exchange": {func(r *fixture, _ *sample.Exchange, b *store.TurnStart) {
			r.store.Offer(store.Turn{Exchange: nil, Start: b, Size: 1})
		}, "1 = 0 + 0 + 0 + 1 bad"},
		"opted out": {func(r *fixture, x *sample.Exchange, b *store.TurnStart) {
			readEnvFile(x)
			r.endTurn(x, b)
		}, "1 = 0 + 0 + 0 + 1 opted_out"},
		"invalid session id": {func(r *fixture, x *sample.Exchange, b *store.TurnStart) {
			x.Session = "not an id"
			r.endTurn(x, b)
		}, "1 = 0 + 0 + 0 + 1 bad"},
		"not ended": {func(*fixture, *sample.Exchange, *store.TurnStart) {}, "1 = 0 + 1 + 0"},
	}
	for name, tc := range cases {
		for _, deliverBefore := range []bool{false, true} {
			t.Run(name+map[bool]string{false: "", true: ", delivered before its end"}[deliverBefore], func(t *testing.T) {
				t.Parallel()
				r := newFixture(t, optOutEnvFiles(t))
				x, b := r.startTurn("s", 1)
				if deliverBefore {
					r.deliver()
				}
				tc.end(r, x, b)
				r.deliver()
				checkAccount(t, "account", r.account(true), tc.want)
				r.checkMemoryIsFree()
				r = r.restart(nil)
				r.deliver()
				want := strings.Replace(tc.want, "0 + 1 + 0", "0 + 0 + 1", 1)
				checkAccount(t, "account after a crash", r.account(true), want)
			})
		}
	}
}

// The stub of a turn that opts out is erased from the outbox files.
func TestStubOfAnOptedOutTurnIsErased(t *testing.T) {
	t.Parallel()
	r := newFixture(t, optOutEnvFiles(t))
	x, start := r.startTurn(markerWord, 1)
	otherX, otherStart := r.startTurn("madagascar", 1)
	r.deliver()
	checkAtLeast(t, "outbox files with the stub", len(r.outboxFilesWith(markerWord)), 1)
	r.wait(durableAfter) // until SQLite may have copied the stub from the write-ahead log to the file
	readEnvFile(x)
	r.endTurn(x, start)
	r.deliver()
	r.wait(durableAfter)
	checkList(t, "outbox files with the name of the opted-out session", r.outboxFilesWith(markerWord), nil)
	crashed := r.crash(optOutEnvFiles(t))
	crashed.deliver()
	checkList(t, "stored turns of the other session after a crash", crashed.storedTurns("madagascar"), []string{"1 incomplete"})
	r.endTurn(otherX, otherStart)
	r.deliver()
	checkList(t, "stored turns of the opted-out session", r.storedTurns(markerWord), nil)
	checkList(t, "stored turns of the other session", r.storedTurns("madagascar"), []string{"1 complete"})
}

// If precept is killed after the end of an opted-out turn, the next start erases the stub of the turn.
func TestStubOfAnOptedOutTurnIsErasedAfterACrash(t *testing.T) {
	t.Parallel()
	r := newFixture(t, optOutEnvFiles(t))
	x, start := r.startTurn(markerWord, 1)
	r.deliver()
	checkAtLeast(t, "outbox files with the stub", len(r.outboxFilesWith(markerWord)), 1)
	readEnvFile(x)
	r.endTurn(x, start)
	r.offer("other", 1)
	r.backend.failWrites()
	r.deliver()
	r = r.crash(optOutEnvFiles(t))
	r.deliver()
	r.wait(durableAfter)
	checkList(t, "outbox files with the name of the opted-out session", r.outboxFilesWith(markerWord), nil)
	checkList(t, "stored turns of the opted-out session", r.storedTurns(markerWord), nil)
	checkAccount(t, "account", r.account(true), "2 = 1 + 0 + 0 + 1 opted_out")
}

// When many goroutines begin and end turns while the store runs, no turn is lost or counted twice.
func TestConcurrentTurnsAreCountedOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := runFixture(t, func(o *store.Options) { o.Queue.MemoryBytes = 1 << 30 })
		const workers, turns = 16, 150
		var kept, bad atomic.Int64
		var all sync.WaitGroup
		for w := range workers {
			all.Go(func() {
				rnd := rand.New(rand.NewPCG(uint64(w), 1)) //nolint:gosec // the order of a test's events
				for i := range turns {
					x, b := r.startTurn(fmt.Sprint("s", w), i+1)
					for range rnd.IntN(3) {
						runtime.Gosched()
					}
					if i%50 == 49 {
						time.Sleep(60 * time.Millisecond) // longer than the 50 ms between two runs of the recorder
					}
					if rnd.IntN(4) == 0 {
						r.store.Abandon(b)
						bad.Add(1)
					} else {
						r.store.Offer(store.Turn{Exchange: x, Start: b, Size: 10})
						r.store.Abandon(b)
						kept.Add(1)
					}
				}
			})
		}
		all.Wait()
		if err := r.drain(); err != nil {
			t.Fatal(err)
		}
		checkAccount(t, "account", accountText(r.balancedAccount(false)), fmt.Sprintf("%d = %d + 0 + 0 + %d bad", workers*turns, kept.Load(), bad.Load()))
		checkEqual(t, "Tally.Exchanges", r.store.Tally.Exchanges.Load(), kept.Load())
		stored := 0
		for w := range workers {
			stored += r.exchanges(sessionID(fmt.Sprint("s", w)))
		}
		checkEqual(t, "stored exchanges", int64(stored), kept.Load())
		r.checkMemoryIsFree()
	})
}

// ReadAccount works while the store writes and removes delivered rows.
func TestReadAccountWhileTheStoreWrites(t *testing.T) {
	t.Parallel()
	r := newFixture(t, func(o *store.Options) { o.Queue.Bytes = 256 << 10 }) // the outbox continuously deletes delivered rows
	stop := make(chan struct{})
	var reading sync.WaitGroup
	reading.Go(func() {
		for last := (store.Account{}); ; {
			b := readAccount(t, r.options.Queue.Path, true)
			if b.Admitted < last.Admitted || b.Stored < last.Stored || len(b.Dropped) > 0 || b.Incomplete > 0 {
				t.Errorf("account while the store writes: got %+v after %+v, want Admitted and Stored not to decrease, nothing dropped or incomplete", b, last)
				return
			}
			last = b
			select {
			case <-stop:
				return
			default:
			}
		}
	})
	const rounds = 60
	for i := range rounds {
		x, b := r.startTurn("s", 2*i+1)
		r.offerLarge("s", 2*i+2, 16<<10)
		r.deliver()
		r.endTurn(x, b)
		r.wait(2 * time.Second)
	}
	close(stop)
	reading.Wait()
	checkAccount(t, "account", r.account(true), fmt.Sprintf("%d = %d + 0 + 0", 2*rounds, 2*rounds))
}

// The exchanges that wait in the spool of an earlier release, a directory instead of the outbox, are delivered.
func TestSpoolOfAnEarlierReleaseIsDelivered(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.CopyFS(filepath.Join(dir, "queue", "spool"), os.DirFS("testdata/spool-1")); err != nil {
		t.Fatal(err)
	}
	if _, err := store.ReadAccount(outboxIn(dir), false); err == nil {
		t.Error("ReadAccount in a directory with a spool of an earlier release: err = nil, want an error")
	}
	r := openFixture(t, dir, &clock{at: startTime}, nil)
	r.deliver()
	checkAccount(t, "account", r.account(true), "6 = 4 + 0 + 1 + 1 bad")
	checkList(t, "stored turns of the session first", r.storedTurns("first"), []string{"1 complete", "2 complete", "3 complete", "5 incomplete"})
	checkList(t, "stored turns of the session second", r.storedTurns("second"), []string{"1 complete"})
	checkEqual(t, "sessions with the key 77", len(r.sessionsOf(77)), 1)
	checkEqual(t, "reward of the session first", r.reward(sessionID("first")), 1)
	_, err := os.Stat(filepath.Join(dir, "queue", "spool"))
	checkEqual(t, "the directory of the old spool is deleted", os.IsNotExist(err), true)
}
