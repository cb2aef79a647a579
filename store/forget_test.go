package store_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"precept/detect"
	"precept/internal/session"
	"precept/store"
)

// addSessionWithWord stores a session that has markerWord in a reply and in feedback.
func (f *fixture) addSessionWithWord(tenant, name string) session.ID {
	f.t.Helper()
	id := f.beginSession(tenant, name, newAssignment(true))
	x := newExchange(tenant, name, 1, f.clock.now())
	x.Reply.Text = "It is in " + markerWord + "."
	f.store.Offer(store.Turn{Exchange: x, Size: 100})
	f.store.AddEchoes(session.Echo{Tenant: tenant, Key: session.TenantEchoKey(tenant, "r:"+name), ID: id, At: f.clock.now()})
	f.deliver()
	e := newScore("f", 1, 1)
	e.Comment = "Not " + markerWord
	f.postFeedback(tenant, id, e)
	return id
}

// forget calls ForgetSession for one of tenantA's sessions.
func (f *fixture) forget(name string) {
	f.t.Helper()
	n, err := f.store.ForgetSession(f.t.Context(), tenantA, name)
	if err != nil {
		f.t.Fatal(err)
	}
	if n != 1 {
		f.t.Fatalf("ForgetSession(%s) deleted %d sessions, want 1", name, n)
	}
}

func TestForgetSessionKeepsCounters(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := runFixture(t, nil)
		forgotten, other := f.addSessionWithWord(tenantA, markerWord+"-1"), f.addSessionWithWord(tenantA, "other")
		f.closeSessions()
		before := f.counters(tenantA)
		f.forget(markerWord + "-1")
		checkEqual(t, "exchanges in the forgotten session", f.exchangeCount(forgotten), 0)
		checkEqual(t, "exchanges in the other session", f.exchangeCount(other), 1)
		checkEqual(t, "counters after the deletion", f.counters(tenantA), before)
	})
}

func TestForgetTenantKeepsOtherTenants(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := runFixture(t, nil)
		var forgotten session.ID
		for _, name := range []string{"a", "b", "c"} {
			forgotten = f.addSessionWithWord("acme", name)
		}
		e := newScore("early", 1, 1)
		e.Comment = markerWord
		f.postByKey("acme", replyKey, e)
		other := f.beginSession(tenantA, "other", newAssignment(true))
		f.deliver()
		if len(filesWith(t, f.dir, markerWord)) == 0 {
			t.Fatalf("no file contains %q before ForgetTenant", markerWord)
		}
		n, err := f.store.ForgetTenant(t.Context(), "acme")
		if err != nil {
			t.Fatal(err)
		}
		if n != 3 {
			t.Fatalf("ForgetTenant deleted %d sessions, want 3", n)
		}
		checkList(t, "files with the word", filesWith(t, f.dir, markerWord), nil)
		checkEqual(t, "the forgotten tenant's session is in memory", f.inMemory("acme", forgotten), false)
		checkEqual(t, "the other tenant's session is in memory", f.inMemory(tenantA, other), true)
	})
}

// The next request with the same session name begins a new session.
func TestRequestInProgressDoesNotRestoreForgottenSession(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := runFixture(t, nil)
		id := f.addSessionWithWord(tenantA, "busy")
		held := f.store.AcquireInMemory(id)
		start := f.clock.now()
		f.clock.add(time.Second)
		f.forget("busy")
		f.clock.add(time.Second)
		f.store.Release(held, store.DecisionsChanged)
		f.store.Offer(store.Turn{Exchange: newExchange(tenantA, "busy", 2, start), Size: 100})
		f.deliver()
		if _, ok := f.row(id); ok {
			t.Error("the forgotten session has a row, want none")
		}
		checkEqual(t, "exchanges in the forgotten session", f.exchangeCount(id), 0)
		checkEqual(t, "Metrics.OptedOut", f.store.Metrics.OptedOut.Load(), 1)
		f.beginSession(tenantA, "busy", newAssignment(true))
		f.offer("busy", 1)
		f.deliver()
		checkEqual(t, "exchanges in the new session", f.exchangeCount(id), 1)
	})
}

// A request in progress writes the row during the announcement to the other replicas. The row's time is later than the
// deletion, as if the clock had been set back.
func TestRowWrittenDuringForgetIsNotStored(t *testing.T) {
	t.Parallel()
	for _, wholeTenant := range []bool{false, true} {
		t.Run(map[bool]string{false: "session", true: "tenant"}[wholeTenant], func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var shared *sharedBackend
				f := runFixture(t, withSharedBackend(&shared, "one"))
				id := f.addSessionWithWord(tenantA, "busy")
				held := f.store.AcquireInMemory(id)
				shared.announced = func() {
					held.Record.Mutex.Lock()
					held.Record.Thread.Turns, held.Record.Identity.Seen = 2, f.clock.now().Add(time.Hour)
					held.Record.Mutex.Unlock()
					f.store.Release(held, store.DecisionsChanged)
					time.Sleep(time.Second) // until the recorder takes the row
				}
				if wholeTenant {
					n, err := f.store.ForgetTenant(t.Context(), tenantA)
					if err != nil {
						t.Error(err)
					}
					checkEqual(t, "sessions deleted by ForgetTenant", n, 1)
				} else {
					f.forget("busy")
				}
				f.deliver()
				if _, ok := f.row(id); ok {
					t.Error("the forgotten session has a row, want none")
				}
				f.clock.add(time.Second)
				f.beginSession(tenantA, "busy", newAssignment(true))
				f.deliver()
				if _, ok := f.row(id); !ok {
					t.Error("the new session with this name has no row")
				}
			})
		})
	}
}

// The other replica's clock is behind, so the waiting row's time is later than the erasure.
func TestForgetOnOtherReplicaDropsWaitingRow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var shared *sharedBackend
		f := runFixture(t, func(o *store.Options) {
			withSharedBackend(&shared, "one")(o)
			o.Queue.DeliverEvery = time.Hour
		})
		f.beginSession(tenantA, "first", newAssignment(true)) // delivered immediately; later rows wait for an hour
		time.Sleep(time.Second)
		forgotten, kept := f.beginSession(tenantA, "forgotten", newAssignment(true)), f.beginSession(tenantA, "kept", newAssignment(true))
		time.Sleep(time.Second)
		if _, ok := f.row(forgotten); ok {
			t.Fatal("the row is stored before the deletion, want a waiting row")
		}
		shared.announceErasure(session.Erasure{Tenant: tenantA, IDs: []session.ID{forgotten}, At: f.clock.now().Add(-30 * time.Second), Position: "1"})
		time.Sleep(2 * time.Second)
		f.clock.add(time.Hour)
		time.Sleep(time.Second)
		_, forgottenHasRow := f.row(forgotten)
		_, keptHasRow := f.row(kept)
		checkEqual(t, "the forgotten session has a row", forgottenHasRow, false)
		checkEqual(t, "the other session has a row", keptHasRow, true)
	})
}

func TestForgetOnOtherReplicaDropsBacklog(t *testing.T) {
	t.Parallel()
	var shared *sharedBackend
	f := newFixture(t, withSharedBackend(&shared, "one"))
	f.backend.failWrites()
	forgotten, kept := f.beginSession(tenantA, "forgotten", newAssignment(true)), f.beginSession(tenantA, "kept", newAssignment(true))
	for _, name := range []string{"forgotten", "kept"} {
		f.offer(name, 1)
		f.store.Offer(store.Turn{Exchange: newExchange(tenantA, name, 2, f.clock.now()), Size: 10, Signals: []detect.Signal{{Feeling: detect.Approval, Tier: 2, Rule: "tests"}}})
		f.startTurn(name, 3)
		f.addKey(session.TenantEchoKey(tenantA, name), sessionID(name))
	}
	f.deliver()
	f = f.restart(func(o *store.Options) {
		withSharedBackend(&shared, "one")(o)
		shared.announceErasure(session.Erasure{Tenant: tenantA, IDs: []session.ID{forgotten}, At: f.clock.now().Add(time.Second), Position: "1"})
	})
	f.deliverFor(durableAfter)
	_, forgottenHasRow := f.row(forgotten)
	_, keptHasRow := f.row(kept)
	checkEqual(t, "the forgotten session has a row", forgottenHasRow, false)
	checkEqual(t, "the other session has a row", keptHasRow, true)
	checkList(t, "forgotten session's turns", f.storedTurns("forgotten"), nil)
	checkList(t, "other session's turns", f.storedTurns("kept"), []string{"1 complete", "2 complete", "3 incomplete"})
	for name, want := range map[string]int{"forgotten": 0, "kept": 1} {
		key := session.TenantEchoKey(tenantA, name)
		checkEqual(t, "sessions with the key for "+name, len(f.sessionsByKey(key)), want)
		entries, err := f.backend.Feedback(t.Context(), tenantA, sessionID(name))
		if err != nil {
			t.Error(err)
		}
		checkEqual(t, "feedback entries on "+name, len(entries), want)
	}
	account := f.balancedAccount(true)
	checkEqual(t, "Account.Admitted", account.Admitted, 6)
	checkEqual(t, "Account.Spooled", account.Spooled, 0)
}

func TestForgetSessionDoesNotBlockRecorder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := runFixture(t, nil)
		f.addSessionWithWord(tenantA, markerWord)
		f.offer("s", 1, 2)
		var turn atomic.Int64
		turn.Store(2)
		f.backend.onCall(func(op string) {
			if op != "write" && op != "sync" || turn.Load() == 5 {
				return
			}
			before := f.balancedAccount(true).Admitted
			f.offer("s", int(turn.Add(1)))
			time.Sleep(time.Second)
			if got := f.balancedAccount(true).Admitted; got <= before {
				t.Errorf("admitted exchanges during a %s call = %d, want more than %d", op, got, before)
			}
		})
		f.forget(markerWord)
		checkList(t, "files with the word", filesWith(t, f.dir, markerWord), nil)
		checkAtLeast(t, "newest turn at the end of the deletion", turn.Load(), 3)
		time.Sleep(durableAfter)
		admitted := f.balancedAccount(true).Admitted
		crashed := f.crash(nil)
		crashed.deliver()
		checkEqual(t, "stored exchanges after a crash", int64(crashed.exchangeCount(sessionID("s"))), turn.Load())
		checkAccount(t, "account", crashed.account(true), fmt.Sprintf("%d = %[1]d + 0 + 0", admitted))
	})
}

// A later delivery of these rows would restore the session.
func TestForgetSessionFailsIfRowsAreUndelivered(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := runFixture(t, nil)
		f.beginSession(tenantA, "s", newAssignment(true))
		f.backend.failNext("write", 1, session.ErrDiskFull)
		n, err := f.store.ForgetSession(t.Context(), tenantA, "s")
		checkEqual(t, "deleted sessions", n, 0)
		if !errors.Is(err, session.ErrDiskFull) {
			t.Errorf("ForgetSession error = %v, want ErrDiskFull", err)
		}
		f.forget("s")
	})
}

func TestForgetSessionWorksWithNullBackend(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := runFixture(t, func(o *store.Options) { o.Backend, o.Queue.Path = store.NullBackend{}, "" })
		f.beginSession(tenantA, "s", newAssignment(true))
		f.forget("s")
		checkEqual(t, "the session is in memory after ForgetSession", f.inMemory(tenantA, sessionID("s")), false)
	})
}

// The text is also in a renamed damaged outbox file, and in the stub of a turn in progress.
func TestForgetErasesTextFromOutboxFiles(t *testing.T) {
	t.Parallel()
	for _, wholeTenant := range []bool{false, true} {
		t.Run(map[bool]string{false: "session", true: "tenant"}[wholeTenant], func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := openFixture(t, t.TempDir(), &clock{}, nil)
				f.backend.failWrites()
				f.beginSession(tenantA, markerWord, newAssignment(true))
				for turn := 1; turn <= 5; turn++ {
					f.offer(markerWord, 10+turn)
					f.deliver()
				}
				f.kill()
				f.damageOutboxFiles(markerWord)
				f = openFixture(t, f.dir, f.clock, nil)
				f.deliver()
				checkAtMost(t, "stored turns from the damaged file", len(f.storedTurns(markerWord)), 4)
				checkAtLeast(t, "files with the word after damage", len(f.outboxFilesWith(markerWord)), 1)
				f.run()
				f.beginSession(tenantA, markerWord, newAssignment(true))
				f.offer(markerWord, 1)
				x, start := f.startTurn(markerWord, 2)
				time.Sleep(time.Second)
				f.startTurn(markerWord, 3) // not recorded yet
				checkAtLeast(t, "files with the word before the deletion", len(f.outboxFilesWith(markerWord)), 1)
				if wholeTenant {
					n, err := f.store.ForgetTenant(t.Context(), tenantA)
					if err != nil {
						t.Error(err)
					}
					checkEqual(t, "sessions deleted by ForgetTenant", n, 1)
				} else {
					f.forget(markerWord)
				}
				checkList(t, "files with the word after the deletion", f.outboxFilesWith(markerWord), nil)
				time.Sleep(time.Second)
				checkList(t, "files with the word after turn 3", f.outboxFilesWith(markerWord), nil)
				f.endTurn(x, start)
				time.Sleep(time.Second)
				checkList(t, "files with the word after turn 2", f.outboxFilesWith(markerWord), nil)
				crashed := f.crash(nil)
				crashed.deliver()
				checkList(t, "files with the word after a crash", crashed.outboxFilesWith(markerWord), nil)
				checkList(t, "stored turns after a crash", crashed.storedTurns(markerWord), nil)
				crashed.balancedAccount(true)
			})
		})
	}
}

// damageOutboxFiles changes a byte in each outbox file that contains text.
func (f *fixture) damageOutboxFiles(text string) {
	f.t.Helper()
	names := f.outboxFilesWith(text)
	if len(names) == 0 {
		f.t.Fatalf("no outbox file contains %q", text)
	}
	for _, name := range names {
		path := filepath.Join(filepath.Dir(f.options.Queue.Path), name)
		b, err := os.ReadFile(path)
		if err != nil {
			f.t.Fatal(err)
		}
		b[bytes.LastIndex(b, []byte(text))-1] ^= 0xff
		if err := os.WriteFile(path, b, 0o600); err != nil {
			f.t.Fatal(err)
		}
	}
}

// The replica's clock is a day ahead of the other replicas' clocks.
func TestClockAheadDeletesNoSessionEarly(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := runFixture(t, func(o *store.Options) {
			o.Retention = time.Hour
			o.AgeNow = func(context.Context) (earliest, latest time.Time, err error) {
				return o.Now().Add(-24 * time.Hour), o.Now(), nil
			}
		})
		id := f.playOneTurn("s", newAssignment(true))
		storedAfter := func(d time.Duration) bool {
			f.clock.add(d)
			time.Sleep(20 * time.Minute) // longer than the wait after a clock change
			_, ok := f.row(id)
			return ok
		}
		checkEqual(t, "the session is stored after 12 hours", storedAfter(12*time.Hour), true)
		checkEqual(t, "the session is stored after 26 hours", storedAfter(14*time.Hour), false)
	})
}

// The store also deletes the echo keys of old sessions, and old parked feedback.
func TestRetentionDeletesOldSessions(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const day = 24 * time.Hour
		f := runFixture(t, func(o *store.Options) { o.Retention = 30 * day })
		advance := func(d time.Duration) {
			for ; d > 0; d -= day { // a larger step would delay the deletion
				f.clock.add(day)
				time.Sleep(1100 * time.Millisecond)
			}
		}
		old := f.addSessionWithWord(tenantA, "old")
		advance(20 * day)
		recent := f.addSessionWithWord(tenantA, "recent")
		e := newScore("early", 1, 1)
		e.At = f.clock.now()
		f.postByKey(tenantA, replyKey, e)
		checkEqual(t, "exchanges in the old session after 20 days", f.exchangeCount(old), 1)
		advance(11 * day)
		checkEqual(t, "exchanges in the old session after 31 days", f.exchangeCount(old), 0)
		checkEqual(t, "exchanges in the recent session", f.exchangeCount(recent), 1)
		checkEqual(t, "Metrics.Expired", f.store.Metrics.Expired.Load(), 1)
		keys := []session.EchoKey{session.TenantEchoKey(tenantA, "r:old")}
		found, err := f.backend.FindEcho(t.Context(), tenantA, keys)
		if err != nil {
			t.Error(err)
		}
		checkEqual(t, "sessions with the old session's key", len(found), 0)
		parked, err := f.backend.PurgeParked(t.Context(), f.clock.now())
		if err != nil {
			t.Error(err)
		}
		checkEqual(t, "parked entries after 31 days", parked, 0)
		f.store.SetRetention(0)
		advance(100 * day)
		checkEqual(t, "exchanges in the recent session without retention", f.exchangeCount(recent), 1)
		f.store.SetRetention(time.Hour)
		f.clock.add(30 * time.Minute)
		time.Sleep(2 * time.Second)
		checkEqual(t, "exchanges in the recent session with an hour's retention", f.exchangeCount(recent), 0)
		checkList(t, "failed steps", f.takeFailures(), nil)
	})
}

// A clock that jumps forward may be wrong, so the store waits before it deletes old sessions.
func TestRetentionWaitsAfterClockMovesForward(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const year = 365 * 24 * time.Hour
		f := runFixture(t, func(o *store.Options) { o.Retention = time.Hour }) // the wait is then 15 minutes
		id := f.addSessionWithWord(tenantA, "s")
		time.Sleep(2 * time.Second)
		f.clock.add(year)
		time.Sleep(10 * time.Minute)
		checkEqual(t, "exchanges while the clock is a year ahead", f.exchangeCount(id), 1)
		checkList(t, "failed steps", f.takeFailures(), []string{"retain"})
		f.clock.add(-year)
		time.Sleep(15 * time.Minute)
		checkEqual(t, "exchanges after the correction", f.exchangeCount(id), 1)
		f.clock.add(year)
		time.Sleep(20 * time.Minute)
		checkEqual(t, "exchanges 20 minutes after the second jump", f.exchangeCount(id), 0)
	})
}

func TestTakeTouchedOmitsForgottenSession(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := runFixture(t, nil)
		ids := []session.ID{f.beginSession(tenantA, "forgotten", newAssignment(true)), f.beginSession(tenantA, "kept", newAssignment(true))}
		f.deliver()
		for _, id := range ids {
			f.store.QueueCorrection(tenantA, id)
			f.store.QueueCorrection("other", id)
		}
		f.forget("forgotten")
		touched := f.store.TakeQueuedCorrections()
		checkEqual(t, "the forgotten session is touched", touched[session.Ref{Tenant: tenantA, ID: ids[0]}], false)
		checkEqual(t, "touched sessions", len(touched), 3)
	})
}

func TestPostDuringForgetSessionFails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := runFixture(t, nil)
		id := f.beginSession(tenantA, "s", newAssignment(true))
		f.offer("s", 1)
		f.deliver()
		release := f.backend.holdNext("feedback")
		posted := make(chan error, 1)
		go func() {
			_, err := f.store.Post(t.Context(), tenantA, []session.ID{id}, 0, newScore("e", 1, 1))
			posted <- err
		}()
		synctest.Wait()
		f.forget("s")
		close(release)
		if err := <-posted; !errors.Is(err, store.ErrNoSession) {
			t.Errorf("Post error = %v, want ErrNoSession", err)
		}
		entries, err := f.backend.Feedback(t.Context(), tenantA, id)
		if err != nil {
			t.Error(err)
		}
		checkEqual(t, "feedback entries", len(entries), 0)
	})
}

// The clock is 30 days ahead during the deletion, and is then set back. Later turns have times before the deletion.
func TestForgetTenantWithFastClockKeepsLaterTurns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const month = 30 * 24 * time.Hour
		f := runFixture(t, nil)
		f.clock.add(month)
		early := newExchange(tenantA, "early", 1, f.clock.now())
		f.clock.add(time.Second)
		if _, err := f.store.ForgetTenant(t.Context(), tenantA); err != nil {
			t.Fatal(err)
		}
		f.clock.add(-month)
		f.clock.add(5 * time.Second)
		time.Sleep(5 * time.Second)
		id := f.beginSession(tenantA, "s", newAssignment(true))
		f.offer("s", 1)
		f.store.Offer(store.Turn{Exchange: early, Size: 100})
		f.deliver()
		checkEqual(t, "exchanges in the new session", f.exchangeCount(id), 1)
		checkEqual(t, "exchanges in the early session", f.exchangeCount(sessionID("early")), 0)
		checkEqual(t, "Metrics.OptedOut", f.store.Metrics.OptedOut.Load(), 1)
	})
}
