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

// sessionWithWord creates a session whose texts all contain word.
func (r *rig) sessionWithWord(tenant, name string) session.ID {
	r.t.Helper()
	id := r.beginSession(tenant, name, picked(true))
	x := exchange(tenant, name, 1, r.clock.now())
	x.Reply.Text = "It is in " + word + "."
	r.store.Offer(store.Turn{Exchange: x, Size: 100})
	r.store.AddEchoes(session.Echo{Tenant: tenant, Key: session.EchoKeyOf(tenant, "r:"+name), ID: id, At: r.clock.now()})
	r.deliver()
	e := score("f", 1, 1)
	e.Comment = "Not " + word
	r.postFeedback(tenant, id, e)
	return id
}

// forget forgets a session of us, which exists.
func (r *rig) forget(name string) {
	r.t.Helper()
	if n, err := r.store.ForgetSession(r.t.Context(), tenantA, name); n != 1 || err != nil {
		r.t.Fatalf("forgot %d sessions, error %v, want 1 and no error", n, err)
	}
}

func TestForgettingKeepsTheCounters(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := runRig(t, nil)
		id, other := r.sessionWithWord(tenantA, word+"-1"), r.sessionWithWord(tenantA, "quiet")
		r.age()
		before := r.counters(tenantA)
		r.forget(word + "-1")
		same(t, "its exchanges", r.exchanges(id), 0)
		same(t, "feedback of the other session", r.exchanges(other), 1)
		same(t, "counters", r.counters(tenantA), before)
	})
}

func TestForgettingATenantLeavesOtherTenants(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := runRig(t, nil)
		var first session.ID
		for _, name := range []string{"a", "b", "c"} {
			first = r.sessionWithWord("acme", name)
		}
		e := score("early", 1, 1)
		e.Comment = word
		r.post("acme", 77, e)
		other := r.beginSession(tenantA, "quiet", picked(true))
		r.deliver()
		if len(files(t, r.dir, word)) == 0 {
			t.Fatal("no file has the word before the session is forgotten: the test cannot fail")
		}
		if n, err := r.store.ForgetTenant(t.Context(), "acme"); n != 3 || err != nil {
			t.Fatalf("forgot %d sessions, error %v, want 3 and no error", n, err)
		}
		sameList(t, "files that hold the word", files(t, r.dir, word), nil)
		same(t, "a session is in memory", r.inMemory("acme", first), false)
		same(t, "another tenant's session is in memory", r.inMemory(tenantA, other), true)
	})
}

// A request in flight while its session is forgotten restores no part of the session. The next
// request begins a new session.
func TestRequestInFlightRestoresNoForgottenSession(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := runRig(t, nil)
		id := r.sessionWithWord(tenantA, "busy")
		held := r.store.Resident(id)
		began := r.clock.now()
		r.clock.add(time.Second)
		r.forget("busy")
		r.clock.add(time.Second)
		r.store.Release(held, store.Decided)
		r.store.Offer(store.Turn{Exchange: exchange(tenantA, "busy", 2, began), Size: 100})
		r.deliver()
		if _, ok := r.row(id); ok {
			t.Error("a request in progress wrote the row of a forgotten session")
		}
		same(t, "exchanges of before", r.exchanges(id), 0)
		same(t, "counted as opted out", r.store.Tally.OptedOut.Load(), 1)
		r.beginSession(tenantA, "busy", picked(true))
		r.offer("busy", 1)
		r.deliver()
		same(t, "exchanges of after", r.exchanges(id), 1)
	})
}

// A row that a request writes while its session is being forgotten belongs to the forgotten
// session, even with a later time: the announcement takes time, and clocks may move back.
func TestRowWithALaterTimeIsForgotten(t *testing.T) {
	t.Parallel()
	for _, tenant := range []bool{false, true} {
		t.Run(fmt.Sprint("tenant ", tenant), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var be *lossyBackend
				r := runRig(t, inFleet(&be, "one"))
				id := r.sessionWithWord(tenantA, "busy")
				held := r.store.Resident(id)
				be.announced = func() { // earlier rows are delivered by then
					held.Record.Mutex.Lock()
					held.Record.Thread.Turns, held.Record.Identity.Seen = 2, r.clock.now().Add(time.Hour)
					held.Record.Mutex.Unlock()
					r.store.Release(held, store.Decided)
					time.Sleep(time.Second) // the recorder takes the row
				}
				if tenant {
					n, err := r.store.ForgetTenant(t.Context(), tenantA)
					same(t, "forgotten", fmt.Sprint(n, err), fmt.Sprint(1, nil))
				} else {
					r.forget("busy")
				}
				r.deliver()
				if _, ok := r.row(id); ok {
					t.Error("a later row of a forgotten session was stored")
				}
				r.clock.add(time.Second)
				r.beginSession(tenantA, "busy", picked(true))
				r.deliver()
				if _, ok := r.row(id); !ok {
					t.Error("the next session of that name has no row")
				}
			})
		})
	}
}

// A row that waits for its delivery while another replica with a late clock forgets the session
// belongs to the forgotten session, too.
func TestWaitingRowIsForgottenByAnotherReplica(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var be *lossyBackend
		r := runRig(t, func(o *store.Options) {
			inFleet(&be, "one")(o)
			o.Queue.DeliverEvery = time.Hour
		})
		r.beginSession(tenantA, "first", picked(true)) // is delivered, and the pause begins
		time.Sleep(time.Second)
		gone, stays := r.beginSession(tenantA, "gone", picked(true)), r.beginSession(tenantA, "stays", picked(true))
		time.Sleep(time.Second)
		if _, ok := r.row(gone); ok {
			t.Fatal("the row does not wait: this test cannot fail")
		}
		be.forgetElsewhere(session.Erasure{Tenant: tenantA, IDs: []session.ID{gone}, At: r.clock.now().Add(-time.Minute / 2), Place: "1"})
		time.Sleep(2 * time.Second)
		r.clock.add(time.Hour)
		time.Sleep(time.Second)
		for id, want := range map[session.ID]bool{gone: false, stays: true} {
			if _, ok := r.row(id); ok != want {
				t.Errorf("session %s: got a row = %v, want %v", id, ok, want)
			}
		}
	})
}

// Rows that a replica could not deliver during an outage are dropped if another replica forgot
// their session. The other rows are delivered.
func TestBacklogOfAForgottenSessionIsDropped(t *testing.T) {
	t.Parallel()
	var be *lossyBackend
	r := newRig(t, inFleet(&be, "one"))
	r.backend.down()
	gone, stays := r.beginSession(tenantA, "gone", picked(true)), r.beginSession(tenantA, "stays", picked(true))
	for _, name := range []string{"gone", "stays"} {
		r.offer(name, 1)
		r.store.Offer(store.Turn{Exchange: exchange(tenantA, name, 2, r.clock.now()), Size: 10, Signals: []detect.Signal{{Feeling: detect.Approval, Tier: 2, Rule: "tests"}}})
		r.startTurn(name, 3)
		r.note(session.EchoKeyOf(tenantA, name), idOf(name))
	}
	r.deliver()
	r = r.restart(func(o *store.Options) {
		inFleet(&be, "one")(o)
		be.forgetElsewhere(session.Erasure{Tenant: tenantA, IDs: []session.ID{gone}, At: r.clock.now().Add(time.Second), Place: "1"})
	})
	r.wait(durable)
	_, rowOfGone := r.row(gone)
	_, rowOfStays := r.row(stays)
	same(t, "the row of the forgotten session", rowOfGone, false)
	same(t, "the row of the other session", rowOfStays, true)
	sameList(t, "turns of the forgotten session", r.stored("gone"), nil)
	sameList(t, "turns of the other session", r.stored("stays"), []string{"1 complete", "2 complete", "3 incomplete"})
	for name, want := range map[string]int{"gone": 0, "stays": 1} {
		key := session.EchoKeyOf(tenantA, name)
		same(t, "keys of "+name, len(r.sessionsOf(key)), want)
		entries, err := r.backend.Feedback(t.Context(), tenantA, idOf(name))
		if err != nil || len(entries) != want {
			t.Errorf("feedback on %s: got %+v, error %v, want %d entries", name, entries, err, want)
		}
	}
	books := r.balancedAccount(true)
	same(t, "admitted and waiting", fmt.Sprint(books.Admitted, books.Spooled), "6 0")
}

// While a slow backend forgets, new turns are recorded, and kept.
func TestForgettingDoesNotBlockTheRecorder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := runRig(t, nil)
		r.sessionWithWord(tenantA, word)
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
			if have := r.balancedAccount(true).Admitted; have <= before {
				t.Errorf("%d exchanges are admitted while the backend does %s, want more than %d", have, op, before)
			}
		})
		r.forget(word)
		sameList(t, "files that hold the word", files(t, r.dir, word), nil)
		same(t, "turns recorded during the deletion", turn.Load() > 2, true)
		time.Sleep(durable)
		admitted := r.balancedAccount(true).Admitted
		left := r.crash(nil)
		left.deliver()
		same(t, "stored after a crash", int64(left.exchanges(idOf("s"))), turn.Load())
		same(t, "account", left.account(true), fmt.Sprintf("%d = %[1]d + 0 + 0", admitted))
	})
}

// A session with rows that the backend cannot store yet would come back later: a request to forget
// the session is refused.
func TestForgettingUndeliveredSessionIsRefused(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := runRig(t, nil)
		r.beginSession(tenantA, "s", picked(true))
		r.backend.failNext("write", 1, session.ErrDiskFull)
		if n, err := r.store.ForgetSession(t.Context(), tenantA, "s"); n != 0 || !errors.Is(err, session.ErrDiskFull) {
			t.Errorf("forgot %d sessions, error %v, want 0 and session.ErrDiskFull", n, err)
		}
		r.forget("s")
	})
}

func TestForgettingFromVolatileStore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := runRig(t, func(o *store.Options) { o.Backend, o.Queue.Path = store.Volatile{}, "" })
		r.beginSession(tenantA, "s", picked(true))
		r.forget("s")
	})
}

// A forgotten session leaves every write-ahead file: also a damaged file that was set aside, and
// the beginning of a turn in flight.
func TestForgottenSessionLeavesTheDisk(t *testing.T) {
	t.Parallel()
	for _, tenant := range []bool{false, true} {
		t.Run(fmt.Sprint("tenant ", tenant), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := openRig(t, t.TempDir(), &clock{}, nil)
				r.backend.down()
				r.beginSession(tenantA, word, picked(true))
				for turn := 1; turn <= 5; turn++ {
					r.offer(word, 10+turn)
					r.deliver()
				}
				r.kill()
				r.damage(word)
				r = openRig(t, r.dir, r.clock, nil)
				r.deliver()
				same(t, "stored of the damaged file", len(r.stored(word)) < 5, true)
				same(t, "a damaged file names the session", len(r.spooled(word)) > 0, true)
				r.run()
				r.beginSession(tenantA, word, picked(true))
				r.offer(word, 1)
				x, b := r.startTurn(word, 2)
				time.Sleep(time.Second)
				r.startTurn(word, 3) // begun, and not recorded yet
				same(t, "files name the session", len(r.spooled(word)) > 0, true)
				if tenant {
					n, err := r.store.ForgetTenant(t.Context(), tenantA)
					same(t, "forgotten", fmt.Sprint(n, err), fmt.Sprint(1, nil))
				} else {
					r.forget(word)
				}
				sameList(t, "files that name it", r.spooled(word), nil)
				time.Sleep(time.Second)
				sameList(t, "files after the turn was begun", r.spooled(word), nil)
				r.endTurn(x, b)
				time.Sleep(time.Second)
				sameList(t, "files after the turn's end", r.spooled(word), nil)
				left := r.crash(nil)
				left.deliver()
				sameList(t, "files after a crash", left.spooled(word), nil)
				sameList(t, "stored", left.stored(word), nil)
				left.balancedAccount(true)
			})
		})
	}
}

// damage changes the byte before the end of a text in each write-ahead file that contains the text.
func (r *rig) damage(text string) {
	r.t.Helper()
	names := r.spooled(text)
	if len(names) == 0 {
		r.t.Fatal("there is nothing to damage")
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

// Retention deletes sessions by the time at which they were last seen, with their keys, and early
// feedback that found no session.
func TestRetentionDeletesOldSessions(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const day = 24 * time.Hour
		r := runRig(t, func(o *store.Options) { o.Retention = 30 * day })
		later := func(d time.Duration) {
			r.clock.add(d)
			time.Sleep(3 * time.Second)
		}
		old := r.sessionWithWord(tenantA, "old")
		later(20 * day)
		young := r.sessionWithWord(tenantA, "young")
		e := score("early", 1, 1)
		e.At = r.clock.now()
		r.post(tenantA, 77, e)
		same(t, "exchanges of the old one in time", r.exchanges(old), 1)
		later(11 * day)
		same(t, "exchanges of the old one", r.exchanges(old), 0)
		same(t, "feedback of the recent session", r.exchanges(young), 1)
		same(t, "Tally.Retired", r.store.Tally.Retired.Load(), 1)
		keys := []session.EchoKey{session.EchoKeyOf(tenantA, "r:old")}
		if got, err := r.backend.FindEcho(t.Context(), tenantA, keys); err != nil || len(got) != 0 {
			t.Errorf("the echoes of the deleted session are %v, want none: %v", got, err)
		}
		if n, err := r.backend.PurgeParked(t.Context(), r.clock.now()); err != nil || n != 0 {
			t.Errorf("early feedback is still waiting: %d, %v", n, err)
		}
		r.store.SetRetention(0)
		later(1000 * day)
		same(t, "kept without a retention", r.exchanges(young), 1)
		r.store.SetRetention(time.Hour)
		later(day)
		same(t, "shortened while it runs", r.exchanges(young), 0)
		sameList(t, "failures", r.failed(), nil)
	})
}

func TestForgottenSessionIsNotSettledAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := runRig(t, nil)
		ids := []session.ID{r.beginSession(tenantA, "gone", picked(true)), r.beginSession(tenantA, "kept", picked(true))}
		r.deliver()
		for _, id := range ids {
			r.store.Touch(tenantA, id)
			r.store.Touch("other", id)
		}
		r.forget("gone")
		touched := r.store.Touched()
		same(t, "the forgotten one", touched[session.Ref{Tenant: tenantA, ID: ids[0]}], false)
		same(t, "left", len(touched), 3)
	})
}
