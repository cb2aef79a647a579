package store_test

import (
	"bytes"
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

// sessionWithWord creates a session whose reply and feedback contain markerWord.
func (r *fixture) sessionWithWord(tenant, name string) session.ID {
	r.t.Helper()
	id := r.beginSession(tenant, name, newAssignment(true))
	x := newExchange(tenant, name, 1, r.clock.now())
	x.Reply.Text = "It is in " + markerWord + "."
	r.store.Offer(store.Turn{Exchange: x, Size: 100})
	r.store.AddEchoes(session.Echo{Tenant: tenant, Key: session.EchoKeyOf(tenant, "r:"+name), ID: id, At: r.clock.now()})
	r.deliver()
	e := newScore("f", 1, 1)
	e.Comment = "Not " + markerWord
	r.postFeedback(tenant, id, e)
	return id
}

// forget forgets the session of tenantA with this name, and fails the test unless exactly one session is forgotten.
func (r *fixture) forget(name string) {
	r.t.Helper()
	if n, err := r.store.ForgetSession(r.t.Context(), tenantA, name); n != 1 || err != nil {
		r.t.Fatalf("ForgetSession(%s) = %d, %v, want 1, nil", name, n, err)
	}
}

func TestForgettingASessionKeepsCounters(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := runFixture(t, nil)
		id, other := r.sessionWithWord(tenantA, markerWord+"-1"), r.sessionWithWord(tenantA, "other")
		r.closeSessions()
		before := r.counters(tenantA)
		r.forget(markerWord + "-1")
		checkEqual(t, "exchanges of the forgotten session", r.exchanges(id), 0)
		checkEqual(t, "exchanges of the other session", r.exchanges(other), 1)
		checkEqual(t, "counters after the deletion", r.counters(tenantA), before)
	})
}

func TestForgettingATenantLeavesOtherTenants(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := runFixture(t, nil)
		var first session.ID
		for _, name := range []string{"a", "b", "c"} {
			first = r.sessionWithWord("acme", name)
		}
		e := newScore("early", 1, 1)
		e.Comment = markerWord
		r.postByKey("acme", 77, e)
		other := r.beginSession(tenantA, "other", newAssignment(true))
		r.deliver()
		if len(filesWith(t, r.dir, markerWord)) == 0 {
			t.Fatalf("no file contains %q before the tenant is forgotten", markerWord)
		}
		if n, err := r.store.ForgetTenant(t.Context(), "acme"); n != 3 || err != nil {
			t.Fatalf("ForgetTenant = %d, %v, want 3, nil", n, err)
		}
		checkList(t, "files that hold the word", filesWith(t, r.dir, markerWord), nil)
		checkEqual(t, "a session of the forgotten tenant is in memory", r.inMemory("acme", first), false)
		checkEqual(t, "the session of the other tenant is in memory", r.inMemory(tenantA, other), true)
	})
}

// A request that is in progress while its session is forgotten does not restore the session. The next request begins a
// new session.
func TestRequestInProgressDoesNotRestoreForgottenSession(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := runFixture(t, nil)
		id := r.sessionWithWord(tenantA, "busy")
		held := r.store.AcquireInMemory(id)
		start := r.clock.now()
		r.clock.add(time.Second)
		r.forget("busy")
		r.clock.add(time.Second)
		r.store.Release(held, store.Decided)
		r.store.Offer(store.Turn{Exchange: newExchange(tenantA, "busy", 2, start), Size: 100})
		r.deliver()
		if _, ok := r.row(id); ok {
			t.Error("the request in progress stored a row of the forgotten session")
		}
		checkEqual(t, "exchanges of the forgotten session", r.exchanges(id), 0)
		checkEqual(t, "Tally.OptedOut", r.store.Tally.OptedOut.Load(), 1)
		r.beginSession(tenantA, "busy", newAssignment(true))
		r.offer("busy", 1)
		r.deliver()
		checkEqual(t, "exchanges of the new session", r.exchanges(id), 1)
	})
}

// A row that is written while its session is forgotten is not stored, even if the time of the row is later than the
// time of the deletion. The announcement to other replicas takes time, and clocks may move back.
func TestRowWrittenDuringForgettingIsNotStored(t *testing.T) {
	t.Parallel()
	for _, wholeTenant := range []bool{false, true} {
		t.Run(map[bool]string{false: "session", true: "tenant"}[wholeTenant], func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var be *lossyBackend
				r := runFixture(t, withFleet(&be, "one"))
				id := r.sessionWithWord(tenantA, "busy")
				held := r.store.AcquireInMemory(id)
				be.announced = func() { // all earlier rows are delivered before the announcement
					held.Record.Mutex.Lock()
					held.Record.Thread.Turns, held.Record.Identity.Seen = 2, r.clock.now().Add(time.Hour)
					held.Record.Mutex.Unlock()
					r.store.Release(held, store.Decided)
					time.Sleep(time.Second) // the recorder takes the row
				}
				if wholeTenant {
					n, err := r.store.ForgetTenant(t.Context(), tenantA)
					checkEqual(t, "number of forgotten sessions and error", fmt.Sprint(n, err), fmt.Sprint(1, nil))
				} else {
					r.forget("busy")
				}
				r.deliver()
				if _, ok := r.row(id); ok {
					t.Error("the row written during the deletion is stored")
				}
				r.clock.add(time.Second)
				r.beginSession(tenantA, "busy", newAssignment(true))
				r.deliver()
				if _, ok := r.row(id); !ok {
					t.Error("the new session with the name busy has no row")
				}
			})
		})
	}
}

// A row that waits for its delivery while another replica forgets its session is not stored, even if the clock of the
// other replica is behind.
func TestWaitingRowIsDroppedWhenAnotherReplicaForgets(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var be *lossyBackend
		r := runFixture(t, func(o *store.Options) {
			withFleet(&be, "one")(o)
			o.Queue.DeliverEvery = time.Hour
		})
		r.beginSession(tenantA, "first", newAssignment(true)) // delivered at once; the rows of later sessions wait an hour
		time.Sleep(time.Second)
		forgotten, kept := r.beginSession(tenantA, "forgotten", newAssignment(true)), r.beginSession(tenantA, "kept", newAssignment(true))
		time.Sleep(time.Second)
		if _, ok := r.row(forgotten); ok {
			t.Fatal("the row of the session is stored before the deletion, want it to wait for its delivery")
		}
		be.forgetElsewhere(session.Erasure{Tenant: tenantA, IDs: []session.ID{forgotten}, At: r.clock.now().Add(-time.Minute / 2), Place: "1"})
		time.Sleep(2 * time.Second)
		r.clock.add(time.Hour)
		time.Sleep(time.Second)
		_, forgottenHasRow := r.row(forgotten)
		_, keptHasRow := r.row(kept)
		checkEqual(t, "the forgotten session has a row", forgottenHasRow, false)
		checkEqual(t, "the other session has a row", keptHasRow, true)
	})
}

// Rows that a replica could not deliver during an outage are dropped if another replica forgot
// their session. The other rows are delivered.
func TestBacklogOfAForgottenSessionIsDropped(t *testing.T) {
	t.Parallel()
	var be *lossyBackend
	r := newFixture(t, withFleet(&be, "one"))
	r.backend.failWrites()
	forgotten, kept := r.beginSession(tenantA, "forgotten", newAssignment(true)), r.beginSession(tenantA, "kept", newAssignment(true))
	for _, name := range []string{"forgotten", "kept"} {
		r.offer(name, 1)
		r.store.Offer(store.Turn{Exchange: newExchange(tenantA, name, 2, r.clock.now()), Size: 10, Signals: []detect.Signal{{Feeling: detect.Approval, Tier: 2, Rule: "tests"}}})
		r.startTurn(name, 3)
		r.addKey(session.EchoKeyOf(tenantA, name), sessionID(name))
	}
	r.deliver()
	r = r.restart(func(o *store.Options) {
		withFleet(&be, "one")(o)
		be.forgetElsewhere(session.Erasure{Tenant: tenantA, IDs: []session.ID{forgotten}, At: r.clock.now().Add(time.Second), Place: "1"})
	})
	r.wait(durableAfter)
	_, forgottenHasRow := r.row(forgotten)
	_, keptHasRow := r.row(kept)
	checkEqual(t, "the forgotten session has a row", forgottenHasRow, false)
	checkEqual(t, "the other session has a row", keptHasRow, true)
	checkList(t, "turns of the forgotten session", r.storedTurns("forgotten"), nil)
	checkList(t, "turns of the other session", r.storedTurns("kept"), []string{"1 complete", "2 complete", "3 incomplete"})
	for name, want := range map[string]int{"forgotten": 0, "kept": 1} {
		key := session.EchoKeyOf(tenantA, name)
		checkEqual(t, "number of sessions with the key of session "+name, len(r.sessionsOf(key)), want)
		entries, err := r.backend.Feedback(t.Context(), tenantA, sessionID(name))
		if err != nil || len(entries) != want {
			t.Errorf("Feedback(%s) = %+v, %v, want %d entries", name, entries, err, want)
		}
	}
	account := r.balancedAccount(true)
	checkEqual(t, "Account.Admitted and Account.Spooled", fmt.Sprint(account.Admitted, account.Spooled), "6 0")
}

// While a slow backend forgets a session, new turns of another session are recorded and stored.
func TestForgettingDoesNotBlockTheRecorder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := runFixture(t, nil)
		r.sessionWithWord(tenantA, markerWord)
		r.offer("s", 1, 2)
		var turn atomic.Int64
		turn.Store(2)
		r.backend.onCall(func(op string) {
			if op != "write" && op != "sync" || turn.Load() == 5 {
				return
			}
			before := r.balancedAccount(true).Admitted
			r.offer("s", int(turn.Add(1)))
			time.Sleep(time.Second)
			if got := r.balancedAccount(true).Admitted; got <= before {
				t.Errorf("Account.Admitted during the call %s of the backend = %d, want > %d", op, got, before)
			}
		})
		r.forget(markerWord)
		checkList(t, "files that hold the word", filesWith(t, r.dir, markerWord), nil)
		checkAtLeast(t, "newest turn recorded before the end of the deletion", turn.Load(), 3)
		time.Sleep(durableAfter)
		admitted := r.balancedAccount(true).Admitted
		crashed := r.crash(nil)
		crashed.deliver()
		checkEqual(t, "stored exchanges after a crash", int64(crashed.exchanges(sessionID("s"))), turn.Load())
		checkAccount(t, "account", crashed.account(true), fmt.Sprintf("%d = %[1]d + 0 + 0", admitted))
	})
}

// ForgetSession refuses a session whose rows cannot be delivered, because a later delivery would restore the session.
func TestForgettingUndeliveredSessionIsRefused(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := runFixture(t, nil)
		r.beginSession(tenantA, "s", newAssignment(true))
		r.backend.failNext("write", 1, session.ErrDiskFull)
		if n, err := r.store.ForgetSession(t.Context(), tenantA, "s"); n != 0 || !errors.Is(err, session.ErrDiskFull) {
			t.Errorf("ForgetSession = %d, %v, want 0, session.ErrDiskFull", n, err)
		}
		r.forget("s")
	})
}

// A volatile store, which has no database and no outbox, forgets the session in memory.
func TestForgettingFromVolatileStore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := runFixture(t, func(o *store.Options) { o.Backend, o.Queue.Path = store.Volatile{}, "" })
		r.beginSession(tenantA, "s", newAssignment(true))
		r.forget("s")
	})
}

// Forgetting a session erases its text from every outbox file, even from a damaged file that was renamed, and erases
// the stub of its turn in progress, which a crash would turn into an incomplete exchange.
func TestForgettingErasesTextFromOutboxFiles(t *testing.T) {
	t.Parallel()
	for _, wholeTenant := range []bool{false, true} {
		t.Run(map[bool]string{false: "session", true: "tenant"}[wholeTenant], func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := openFixture(t, t.TempDir(), &clock{}, nil)
				r.backend.failWrites()
				r.beginSession(tenantA, markerWord, newAssignment(true))
				for turn := 1; turn <= 5; turn++ {
					r.offer(markerWord, 10+turn)
					r.deliver()
				}
				r.kill()
				r.damageOutboxFiles(markerWord)
				r = openFixture(t, r.dir, r.clock, nil)
				r.deliver()
				checkAtMost(t, "stored turns of the damaged file", len(r.storedTurns(markerWord)), 4)
				checkAtLeast(t, "outbox files with the word after damage", len(r.outboxFilesWith(markerWord)), 1)
				r.run()
				r.beginSession(tenantA, markerWord, newAssignment(true))
				r.offer(markerWord, 1)
				x, b := r.startTurn(markerWord, 2)
				time.Sleep(time.Second)
				r.startTurn(markerWord, 3) // not recorded yet
				checkAtLeast(t, "outbox files with the word before the deletion", len(r.outboxFilesWith(markerWord)), 1)
				if wholeTenant {
					n, err := r.store.ForgetTenant(t.Context(), tenantA)
					checkEqual(t, "number of forgotten sessions and error", fmt.Sprint(n, err), fmt.Sprint(1, nil))
				} else {
					r.forget(markerWord)
				}
				checkList(t, "outbox files with the word after the deletion", r.outboxFilesWith(markerWord), nil)
				time.Sleep(time.Second)
				checkList(t, "outbox files with the word after the third turn was recorded", r.outboxFilesWith(markerWord), nil)
				r.endTurn(x, b)
				time.Sleep(time.Second)
				checkList(t, "outbox files with the word after the second turn ended", r.outboxFilesWith(markerWord), nil)
				crashed := r.crash(nil)
				crashed.deliver()
				checkList(t, "outbox files with the word after a crash", crashed.outboxFilesWith(markerWord), nil)
				checkList(t, "stored turns after a crash", crashed.storedTurns(markerWord), nil)
				crashed.balancedAccount(true)
			})
		})
	}
}

// damageOutboxFiles changes the byte before the last occurrence of a text in each outbox file that contains the text.
func (r *fixture) damageOutboxFiles(text string) {
	r.t.Helper()
	names := r.outboxFilesWith(text)
	if len(names) == 0 {
		r.t.Fatalf("no outbox file contains %q", text)
	}
	for _, name := range names {
		path := filepath.Join(filepath.Dir(r.options.Queue.Path), name)
		b, err := os.ReadFile(path)
		if err != nil {
			r.t.Fatal(err)
		}
		b[bytes.LastIndex(b, []byte(text))-1] ^= 0xff
		if err := os.WriteFile(path, b, 0o600); err != nil {
			r.t.Fatal(err)
		}
	}
}

// Retention deletes sessions that were last seen before the retention period, with their keys. It also deletes feedback
// whose key matched no session during the retention period.
func TestRetentionDeletesOldSessions(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const day = 24 * time.Hour
		r := runFixture(t, func(o *store.Options) { o.Retention = 30 * day })
		advance := func(d time.Duration) {
			r.clock.add(d)
			time.Sleep(3 * time.Second)
		}
		old := r.sessionWithWord(tenantA, "old")
		advance(20 * day)
		recent := r.sessionWithWord(tenantA, "recent")
		e := newScore("early", 1, 1)
		e.At = r.clock.now()
		r.postByKey(tenantA, 77, e)
		checkEqual(t, "exchanges of the old session before the retention period ends", r.exchanges(old), 1)
		advance(11 * day)
		checkEqual(t, "exchanges of the old session after the retention period", r.exchanges(old), 0)
		checkEqual(t, "exchanges of the recent session", r.exchanges(recent), 1)
		checkEqual(t, "Tally.Retired", r.store.Tally.Retired.Load(), 1)
		keys := []session.EchoKey{session.EchoKeyOf(tenantA, "r:old")}
		if got, err := r.backend.FindEcho(t.Context(), tenantA, keys); err != nil || len(got) != 0 {
			t.Errorf("FindEcho of the deleted session's key = %v, %v, want none", got, err)
		}
		if n, err := r.backend.PurgeParked(t.Context(), r.clock.now()); err != nil || n != 0 {
			t.Errorf("PurgeParked after retention deleted the parked feedback = %d, %v, want 0, nil", n, err)
		}
		r.store.SetRetention(0)
		advance(1000 * day)
		checkEqual(t, "exchanges of the recent session without retention", r.exchanges(recent), 1)
		r.store.SetRetention(time.Hour)
		advance(day)
		checkEqual(t, "exchanges of the recent session after the retention period was shortened", r.exchanges(recent), 0)
		checkList(t, "failed steps", r.takeFailures(), nil)
	})
}

// The learner recomputes the rewards of touched sessions. Touched does not return a forgotten session.
func TestTouchedOmitsForgottenSession(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := runFixture(t, nil)
		ids := []session.ID{r.beginSession(tenantA, "forgotten", newAssignment(true)), r.beginSession(tenantA, "kept", newAssignment(true))}
		r.deliver()
		for _, id := range ids {
			r.store.Touch(tenantA, id)
			r.store.Touch("other", id)
		}
		r.forget("forgotten")
		touched := r.store.Touched()
		checkEqual(t, "the forgotten session is touched", touched[session.Ref{Tenant: tenantA, ID: ids[0]}], false)
		checkEqual(t, "touched sessions", len(touched), 3)
	})
}
