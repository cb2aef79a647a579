package store_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"precept/internal/session"
	"precept/store"
)

// These tests run the store with its goroutines, as the program does, mostly in synctest bubbles.

// checkStored fails the test unless the backend has exactly the turns want of a session, and has a row of the session
// if and only if want is not empty.
func (r *fixture) checkStored(name string, want ...string) {
	r.t.Helper()
	checkList(r.t, fmt.Sprintf("turns of %q", name), r.storedTurns(name), want)
	_, ok := r.row(sessionID(name))
	checkEqual(r.t, fmt.Sprintf("session %q has a row", name), ok, len(want) > 0)
}

// playTurn plays one whole turn with markerWord in its text.
func (r *fixture) playTurn(name string, turn int) {
	r.beginSession(tenantA, name, newAssignment(true))
	x, b := r.startTurn(name, turn)
	x.Reply.Text = "In " + markerWord + "."
	r.endTurn(x, b)
}

func TestTurnIsStoredAndShown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := runFixture(t, nil)
		r.playTurn("s", 1)
		r.addKey(replyKey, sessionID("s"))
		time.Sleep(durableAfter)
		r.checkStored("s", "1 complete")
		checkAccount(t, "account", r.account(true), "1 = 1 + 0 + 0")
		checkList(t, "sessions of the reply", r.sessionsOf(replyKey), []session.ID{sessionID("s")})
		if !r.store.Healthy() || r.store.Lag() != 0 || r.store.Tally.Exchanges.Load() != 1 || r.store.Tally.Pending.Load() != 0 {
			t.Errorf("after the delivery: Healthy = %v, Lag = %v, Tally.Exchanges = %d, Tally.Pending = %d, want true, 0, 1, 0", r.store.Healthy(), r.store.Lag(), r.store.Tally.Exchanges.Load(), r.store.Tally.Pending.Load())
		}
		list, err := r.archive.Browse(t.Context(), store.SessionQuery{Tenant: tenantA})
		if err != nil || len(list.Sessions) != 1 || list.Sessions[0].Name != "s" {
			t.Errorf("Browse = %+v, %v, want only session s", list.Sessions, err)
		}
		shown, err := r.archive.Transcript(t.Context(), tenantA, "s", 0)
		if text := fmt.Sprint(shown.TurnItems); err != nil || !strings.Contains(text, markerWord) || !strings.Contains(text, "Paint the shed.") {
			t.Errorf("Transcript = %s, %v, want the texts of the user and of the reply", text, err)
		}
	})
}

// A stop writes everything that waits: turns, sessions and feedback.
func TestStopWritesEverything(t *testing.T) {
	t.Parallel()
	const n = 700
	r := newFixture(t, nil)
	r.run()
	for i := range n {
		r.playTurn(fmt.Sprint("s", i), 1)
	}
	r.postFeedback(tenantA, sessionID("s0"), newScore("f", 1, 1))
	if err := r.drain(); err != nil {
		t.Error(err)
	}
	<-r.store.Done()
	checkEqual(t, "Tally.Pending", r.store.Tally.Pending.Load(), 0)
	checkAccount(t, "account", accountText(r.balancedAccount(false)), "700 = 700 + 0 + 0")
	r = r.restart(nil)
	for i := range n {
		r.checkStored(fmt.Sprint("s", i), "1 complete")
	}
	entries, err := r.backend.Feedback(t.Context(), tenantA, sessionID("s0"))
	if err != nil || len(entries) != 1 || entries[0].ID != "f" {
		t.Errorf("Feedback(s0) = %+v, %v, want only the entry f", entries, err)
	}
}

// A turn in progress at a kill is stored as a stub (an incomplete exchange without content) at the next start, and a
// second kill adds no second stub. A turn that had ended is complete.
func TestKillLeavesOneStubForTurnInProgress(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := runFixture(t, nil)
		r.playTurn("s", 1)
		x, b := r.startTurn("s", 2)
		time.Sleep(durableAfter)
		checkAccount(t, "account", r.account(true), "2 = 1 + 1 + 0")
		for next, i := r, 0; i < 2; i++ {
			next = next.crash(nil)
			checkAccount(t, "account before the start", accountText(next.balancedAccount(false)), "2 = 1 + 0 + 1")
			next.run()
			time.Sleep(durableAfter)
			next.checkStored("s", "1 complete", "2 incomplete")
			checkAccount(t, "account after the start", next.account(true), "2 = 1 + 0 + 1")
		}
		r.endTurn(x, b) // crash copied the directory; the first store still runs
		time.Sleep(durableAfter)
		r.checkStored("s", "1 complete", "2 complete")
	})
}

// Forgetting a session removes it from memory, the outbox files and the database. A request in progress does not
// restore it. The account still counts its exchanges.
func TestForgettingRemovesASessionEverywhere(t *testing.T) {
	t.Parallel()
	for by, forget := range map[string]func(r *fixture) (int, error){
		"name": func(r *fixture) (int, error) { return r.store.ForgetSession(r.t.Context(), tenantA, "s") },
		"id": func(r *fixture) (int, error) {
			return r.store.ForgetSession(r.t.Context(), tenantA, sessionID("s").String())
		},
		"tenant": func(r *fixture) (int, error) { return r.store.ForgetTenant(r.t.Context(), tenantA) },
	} {
		t.Run(by, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := runFixture(t, nil)
				r.playTurn("s", 1)
				x, b := r.startTurn("s", 2)
				x.Reply.Text = markerWord
				time.Sleep(durableAfter)
				if n, err := r.store.ForgetSession(t.Context(), "them", "s"); n != 0 || err != nil {
					t.Errorf("ForgetSession of another tenant = %d, %v, want 0, nil", n, err)
				}
				if len(filesWith(t, r.dir, markerWord)) == 0 {
					t.Fatalf("no file contains %q before the session is forgotten", markerWord)
				}
				if n, err := forget(r); n != 1 || err != nil {
					t.Errorf("deletion by %s = %d, %v, want 1, nil", by, n, err)
				}
				checkEqual(t, "sessions in memory", r.store.Sessions(), 0)
				checkList(t, "files that hold the word", filesWith(t, r.dir, markerWord), nil)
				r.endTurn(x, b)
				time.Sleep(durableAfter)
				r.checkStored("s")
				checkList(t, "files that hold the word after the request in progress", filesWith(t, r.dir, markerWord), nil)
				if _, err := r.archive.Transcript(t.Context(), tenantA, "s", 0); !errors.Is(err, store.ErrNoSession) {
					t.Errorf("Transcript of a forgotten session: err = %v, want store.ErrNoSession", err)
				}
				if n, err := forget(r); n != 0 || err != nil {
					t.Errorf("second deletion by %s = %d, %v, want 0, nil", by, n, err)
				}
				time.Sleep(time.Second)
				r.playTurn("s", 1) // a new session with the same name
				time.Sleep(durableAfter)
				r.checkStored("s", "1 complete")
				if err := r.drain(); err != nil {
					t.Error(err)
				}
				checkAccount(t, "account", accountText(r.balancedAccount(false)), "3 = 2 + 0 + 0 + 1 opted_out")
			})
		})
	}
}

// While the backend is down, turns wait in the outbox, and no turn is refused. After the outage each turn
// is stored once.
func TestTurnsOfAnOutageAreStoredOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := runFixture(t, nil)
		r.backend.failWrites()
		for turn := 1; turn <= 3; turn++ {
			r.playTurn("s", turn)
			time.Sleep(durableAfter)
		}
		r.checkStored("s")
		checkAccount(t, "account", r.account(true), "3 = 0 + 3 + 0")
		if r.store.Healthy() || r.store.Lag() < durableAfter || r.store.Tally.WriteErrors.Load() == 0 {
			t.Errorf("during the outage: Healthy = %v, Lag = %v, Tally.WriteErrors = %d, want false, >= %v, > 0", r.store.Healthy(), r.store.Lag(), r.store.Tally.WriteErrors.Load(), durableAfter)
		}
		r.backend.allowWrites()
		time.Sleep(durableAfter)
		r.checkStored("s", "1 complete", "2 complete", "3 complete")
		checkAccount(t, "account", r.account(true), "3 = 3 + 0 + 0")
		if !r.store.Healthy() || r.store.Lag() != 0 {
			t.Errorf("after the outage: Healthy = %v, Lag = %v, want true, 0", r.store.Healthy(), r.store.Lag())
		}
		r.checkMemoryIsFree()
	})
}
