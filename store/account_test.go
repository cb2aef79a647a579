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

// Turns 2 and 4 are in progress at the crash, so the next start stores them as stubs (exchanges without content).
func TestCrashStoresOpenTurnsAsStubs(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	f.beginSession(tenantA, "s", newAssignment(true))
	x1, start1 := f.startTurn("s", 1)
	f.startTurn("s", 2)
	f.deliver()
	f.endTurn(x1, start1)
	_, start3 := f.startTurn("s", 3)
	f.deliver()
	f.store.Abandon(start3)
	f.startTurn("s", 4)
	f.deliver()
	checkAccount(t, "account while running", f.account(true), "4 = 1 + 2 + 0 + 1 bad")
	checkAccount(t, "account after a kill", f.account(false), "4 = 1 + 0 + 2 + 1 bad")
	for range 3 {
		f = f.crash(nil)
		f.deliver()
		checkList(t, "session s: stored turns", f.storedTurns("s"), []string{"1 complete", "2 incomplete", "4 incomplete"})
		checkAccount(t, "account", f.account(true), "4 = 1 + 0 + 2 + 1 bad")
	}
	x5, start5 := f.startTurn("s", 5)
	f.endTurn(x5, start5)
	f.deliver()
	checkAccount(t, "account after the next turn", f.account(true), "5 = 2 + 0 + 2 + 1 bad")
	list, err := f.backend.Exchanges(t.Context(), tenantA, sessionID("s"))
	if err != nil {
		t.Fatal(err)
	}
	for i := range list {
		if x := list[i]; x.Outcome == sample.Incomplete && (len(x.New) > 0 || x.Reply.Text != "" || x.SessionName != "s" || x.Model != "m-1") {
			t.Errorf("stub = %+v, want only the session's name and the model", x)
		}
	}
}

func TestAccountCountsEachTurnOnce(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		end  func(f *fixture, x *sample.Exchange, start *store.TurnStart)
		want string // the expected account: admitted = stored + spooled + incomplete + dropped
	}{
		"offered": {func(f *fixture, x *sample.Exchange, start *store.TurnStart) { f.endTurn(x, start) }, "1 = 1 + 0 + 0"},
		"abandoned twice": {func(f *fixture, _ *sample.Exchange, start *store.TurnStart) {
			f.store.Abandon(start)
			f.store.Abandon(start)
		}, "1 = 0 + 0 + 0 + 1 bad"},
		"offered, then abandoned": {func(f *fixture, x *sample.Exchange, start *store.TurnStart) {
			f.endTurn(x, start)
			f.store.Abandon(start)
		}, "1 = 1 + 0 + 0"},
		"larger than the exchange memory": {func(f *fixture, x *sample.Exchange, start *store.TurnStart) {
			f.store.Offer(store.Turn{Exchange: x, Start: start, Size: 2 << 20})
			f.store.Abandon(start)
		}, "1 = 0 + 0 + 0 + 1 full"},
		"without an exchange": {func(f *fixture, _ *sample.Exchange, start *store.TurnStart) {
			f.store.Offer(store.Turn{Exchange: nil, Start: start, Size: 1})
		}, "1 = 0 + 0 + 0 + 1 bad"},
		"opted out": {func(f *fixture, x *sample.Exchange, start *store.TurnStart) {
			readEnvFile(x)
			f.endTurn(x, start)
		}, "1 = 0 + 0 + 0 + 1 opted_out"},
		"invalid session id": {func(f *fixture, x *sample.Exchange, start *store.TurnStart) {
			x.Session = "not an id"
			f.endTurn(x, start)
		}, "1 = 0 + 0 + 0 + 1 bad"},
		"in progress": {func(*fixture, *sample.Exchange, *store.TurnStart) {}, "1 = 0 + 1 + 0"},
	}
	for name, tc := range cases {
		for _, deliveredBefore := range []bool{false, true} {
			t.Run(name+map[bool]string{false: "", true: ", delivered before the turn ends"}[deliveredBefore], func(t *testing.T) {
				t.Parallel()
				f := newFixture(t, optOutEnvFiles(t))
				x, start := f.startTurn("s", 1)
				if deliveredBefore {
					f.deliver()
				}
				tc.end(f, x, start)
				f.deliver()
				checkAccount(t, "account", f.account(true), tc.want)
				f.checkMemoryIsFree()
				f = f.restart(nil)
				f.deliver()
				// After a crash, the account counts a turn in progress as incomplete instead of spooled.
				want := strings.Replace(tc.want, "0 + 1 + 0", "0 + 0 + 1", 1)
				checkAccount(t, "account after a crash", f.account(true), want)
			})
		}
	}
}

// The stub of a turn in progress contains the session's name.
func TestOptOutErasesStub(t *testing.T) {
	t.Parallel()
	f := newFixture(t, optOutEnvFiles(t))
	x, start := f.startTurn(markerWord, 1)
	otherX, otherStart := f.startTurn("madagascar", 1)
	f.deliver()
	checkAtLeast(t, "outbox files with the stub", len(f.outboxFilesWith(markerWord)), 1)
	f.deliverFor(durableAfter) // long enough for SQLite to copy the stub from the write-ahead log to the main file
	readEnvFile(x)
	f.endTurn(x, start)
	f.deliver()
	f.deliverFor(durableAfter)
	checkList(t, "outbox files with the opted-out session's name", f.outboxFilesWith(markerWord), nil)
	crashed := f.crash(optOutEnvFiles(t))
	crashed.deliver()
	checkList(t, "other session's stored turns after a crash", crashed.storedTurns("madagascar"), []string{"1 incomplete"})
	f.endTurn(otherX, otherStart)
	f.deliver()
	checkList(t, "opted-out session's stored turns", f.storedTurns(markerWord), nil)
	checkList(t, "other session's stored turns", f.storedTurns("madagascar"), []string{"1 complete"})
}

// The crash comes after the opted-out turn has ended, but before the backend has stored anything.
func TestOptOutErasesStubAfterCrash(t *testing.T) {
	t.Parallel()
	f := newFixture(t, optOutEnvFiles(t))
	x, start := f.startTurn(markerWord, 1)
	f.deliver()
	checkAtLeast(t, "outbox files with the stub", len(f.outboxFilesWith(markerWord)), 1)
	readEnvFile(x)
	f.endTurn(x, start)
	f.offer("other", 1)
	f.backend.failWrites()
	f.deliver()
	f = f.crash(optOutEnvFiles(t))
	f.deliver()
	f.deliverFor(durableAfter)
	checkList(t, "outbox files with the opted-out session's name", f.outboxFilesWith(markerWord), nil)
	checkList(t, "opted-out session's stored turns", f.storedTurns(markerWord), nil)
	checkAccount(t, "account", f.account(true), "2 = 1 + 0 + 0 + 1 opted_out")
}

func TestAccountCountsConcurrentTurnsOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := runFixture(t, func(o *store.Options) { o.Queue.MaxMemoryBytes = 1 << 30 })
		const workers, turns = 16, 150
		var kept, bad atomic.Int64
		var all sync.WaitGroup
		for w := range workers {
			all.Go(func() {
				rnd := rand.New(rand.NewPCG(uint64(w), 1)) //nolint:gosec // the seed makes the test reproducible
				for i := range turns {
					x, start := f.startTurn(fmt.Sprint("s", w), i+1)
					for range rnd.IntN(3) {
						runtime.Gosched()
					}
					if i%50 == 49 {
						time.Sleep(60 * time.Millisecond) // longer than the recorder's tick
					}
					if rnd.IntN(4) == 0 {
						f.store.Abandon(start)
						bad.Add(1)
					} else {
						f.store.Offer(store.Turn{Exchange: x, Start: start, Size: 10})
						f.store.Abandon(start)
						kept.Add(1)
					}
				}
			})
		}
		all.Wait()
		if err := f.drain(); err != nil {
			t.Fatal(err)
		}
		checkAccount(t, "account", accountText(f.balancedAccount(false)), fmt.Sprintf("%d = %d + 0 + 0 + %d bad", workers*turns, kept.Load(), bad.Load()))
		checkEqual(t, "Metrics.Exchanges", f.store.Metrics.Exchanges.Load(), kept.Load())
		stored := 0
		for w := range workers {
			stored += f.exchangeCount(sessionID(fmt.Sprint("s", w)))
		}
		checkEqual(t, "stored exchanges", int64(stored), kept.Load())
		f.checkMemoryIsFree()
	})
}

func TestReadAccountWorksWhileTheStoreWrites(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(o *store.Options) { o.Queue.MaxBytes = 256 << 10 }) // so small that the outbox often deletes delivered rows
	stop := make(chan struct{})
	var reading sync.WaitGroup
	reading.Go(func() {
		for last := (store.Account{}); ; {
			b := readAccount(t, f.options.Queue.Path, true)
			if b.Admitted < last.Admitted {
				t.Errorf("account while the store writes: Admitted = %d, want at least %d", b.Admitted, last.Admitted)
				return
			}
			if b.Stored < last.Stored {
				t.Errorf("account while the store writes: Stored = %d, want at least %d", b.Stored, last.Stored)
				return
			}
			if len(b.Dropped) > 0 {
				t.Errorf("account while the store writes: Dropped = %+v, want none", b.Dropped)
				return
			}
			if b.Incomplete > 0 {
				t.Errorf("account while the store writes: Incomplete = %d, want 0", b.Incomplete)
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
		x, start := f.startTurn("s", 2*i+1)
		f.offerLarge("s", 2*i+2, 16<<10)
		f.deliver()
		f.endTurn(x, start)
		f.deliverFor(2 * time.Second)
	}
	close(stop)
	reading.Wait()
	checkAccount(t, "account", f.account(true), fmt.Sprintf("%d = %d + 0 + 0", 2*rounds, 2*rounds))
}

// Earlier releases kept waiting exchanges in a spool directory instead of an outbox file.
func TestOpenDeliversOldSpoolDirectory(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.CopyFS(filepath.Join(dir, "queue", "spool"), os.DirFS("testdata/spool-1")); err != nil {
		t.Fatal(err)
	}
	if _, err := store.ReadAccount(outboxIn(dir), false); err == nil {
		t.Error("ReadAccount(directory that an earlier release has used) error = nil, want an error")
	}
	f := openFixture(t, dir, &clock{manual: startTime}, nil)
	f.deliver()
	checkAccount(t, "account", f.account(true), "6 = 4 + 0 + 1 + 1 bad")
	checkList(t, `stored turns of session "first"`, f.storedTurns("first"), []string{"1 complete", "2 complete", "3 complete", "5 incomplete"})
	checkList(t, `stored turns of session "second"`, f.storedTurns("second"), []string{"1 complete"})
	checkEqual(t, "number of sessions with the key 77", len(f.sessionsByKey(77)), 1)
	checkEqual(t, `reward of session "first"`, f.rewardAfterClose(sessionID("first")), 1)
	_, err := os.Stat(filepath.Join(dir, "queue", "spool"))
	checkEqual(t, "the old spool directory has been deleted", os.IsNotExist(err), true)
}
