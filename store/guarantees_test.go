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

// The tests in this file run the store with all its goroutines, mostly in synctest bubbles.

// checkStored checks the stored turns of a session. A session without turns must have no row.
func (f *fixture) checkStored(name string, want ...string) {
	f.t.Helper()
	checkList(f.t, fmt.Sprintf("turns in %q", name), f.storedTurns(name), want)
	_, ok := f.row(sessionID(name))
	checkEqual(f.t, fmt.Sprintf("session %q has a row", name), ok, len(want) > 0)
}

// playTurn begins a session and offers a turn whose reply contains markerWord.
func (f *fixture) playTurn(name string, turn int) {
	f.beginSession(tenantA, name, newAssignment(true))
	x, start := f.startTurn(name, turn)
	x.Reply.Text = "In " + markerWord + "."
	f.endTurn(x, start)
}

func TestTurnIsStoredAndShown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := runFixture(t, nil)
		f.playTurn("s", 1)
		f.addKey(replyKey, sessionID("s"))
		time.Sleep(durableAfter)
		f.checkStored("s", "1 complete")
		checkAccount(t, "account", f.account(true), "1 = 1 + 0 + 0")
		checkList(t, "sessions that the store finds by the reply's key", f.sessionsByKey(replyKey), []session.ID{sessionID("s")})
		if !f.store.Healthy() {
			t.Error("after the delivery: Healthy = false, want true")
		}
		if f.store.Lag() != 0 {
			t.Errorf("after the delivery: Lag = %v, want 0", f.store.Lag())
		}
		if f.store.Metrics.Exchanges.Load() != 1 {
			t.Errorf("after the delivery: Metrics.Exchanges = %d, want 1", f.store.Metrics.Exchanges.Load())
		}
		if f.store.Metrics.Pending.Load() != 0 {
			t.Errorf("after the delivery: Metrics.Pending = %d, want 0", f.store.Metrics.Pending.Load())
		}
		list, err := f.archive.Browse(t.Context(), store.SessionQuery{Tenant: tenantA})
		if err != nil {
			t.Fatal(err)
		}
		if len(list.Sessions) != 1 {
			t.Fatalf("Browse: Sessions = %+v, want 1 item", list.Sessions)
		}
		if list.Sessions[0].Name != "s" {
			t.Errorf(`Browse: Name = %q, want "s"`, list.Sessions[0].Name)
		}
		shown, err := f.archive.Transcript(t.Context(), tenantA, "s", 0)
		if text := fmt.Sprint(shown.TurnItems); err != nil {
			t.Error(err)
		} else if !strings.Contains(text, markerWord) {
			t.Errorf("Transcript = %q, want substring %q", text, markerWord)
		} else if !strings.Contains(text, "Paint the shed.") {
			t.Errorf(`Transcript = %q, want substring "Paint the shed."`, text)
		}
	})
}

func TestStopStoresTurnsAndFeedback(t *testing.T) {
	t.Parallel()
	const n = 700
	f := newFixture(t, nil)
	f.run()
	for i := range n {
		f.playTurn(fmt.Sprint("s", i), 1)
	}
	f.postFeedback(tenantA, sessionID("s0"), newScore("f", 1, 1))
	if err := f.drain(); err != nil {
		t.Error(err)
	}
	<-f.store.Done()
	checkEqual(t, "Metrics.Pending", f.store.Metrics.Pending.Load(), 0)
	checkAccount(t, "account", accountText(f.balancedAccount(false)), "700 = 700 + 0 + 0")
	f = f.restart(nil)
	for i := range n {
		f.checkStored(fmt.Sprint("s", i), "1 complete")
	}
	entries, err := f.backend.Feedback(t.Context(), tenantA, sessionID("s0"))
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) != 1 {
		t.Fatalf("feedback on session s0 = %+v, want 1 entry", entries)
	}
	if entries[0].ID != "f" {
		t.Errorf(`feedback on session s0: ID = %q, want "f"`, entries[0].ID)
	}
}

// A second kill must not add a second stub for the turn in progress.
func TestKillLeavesOneStubForTurnInProgress(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := runFixture(t, nil)
		f.playTurn("s", 1)
		x, start := f.startTurn("s", 2)
		time.Sleep(durableAfter)
		checkAccount(t, "account", f.account(true), "2 = 1 + 1 + 0")
		for next, i := f, 0; i < 2; i++ {
			next = next.crash(nil)
			checkAccount(t, "account before the restart", accountText(next.balancedAccount(false)), "2 = 1 + 0 + 1")
			next.run()
			time.Sleep(durableAfter)
			next.checkStored("s", "1 complete", "2 incomplete")
			checkAccount(t, "account after the restart", next.account(true), "2 = 1 + 0 + 1")
		}
		f.endTurn(x, start) // crash copied the directory; the first store still runs
		time.Sleep(durableAfter)
		f.checkStored("s", "1 complete", "2 complete")
	})
}

// A request in progress must not restore the forgotten session. The account still counts the session's exchanges.
func TestForgetRemovesSessionFromMemoryAndFiles(t *testing.T) {
	t.Parallel()
	for name, forget := range map[string]func(f *fixture) (int, error){
		"session name": func(f *fixture) (int, error) { return f.store.ForgetSession(f.t.Context(), tenantA, "s") },
		"session id": func(f *fixture) (int, error) {
			return f.store.ForgetSession(f.t.Context(), tenantA, sessionID("s").String())
		},
		"tenant": func(f *fixture) (int, error) { return f.store.ForgetTenant(f.t.Context(), tenantA) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := runFixture(t, nil)
				f.playTurn("s", 1)
				x, start := f.startTurn("s", 2)
				x.Reply.Text = markerWord
				time.Sleep(durableAfter)
				if n, err := f.store.ForgetSession(t.Context(), "them", "s"); err != nil {
					t.Error(err)
				} else if n != 0 {
					t.Errorf("sessions deleted by ForgetSession(another tenant) = %d, want 0", n)
				}
				if len(filesWith(t, f.dir, markerWord)) == 0 {
					t.Fatalf("no file contains %q before the session is forgotten", markerWord)
				}
				if n, err := forget(f); err != nil {
					t.Errorf("sessions deleted by %s: %v", name, err)
				} else if n != 1 {
					t.Errorf("sessions deleted by %s = %d, want 1", name, n)
				}
				checkEqual(t, "sessions in memory", f.store.Sessions(), 0)
				checkList(t, "files with the word", filesWith(t, f.dir, markerWord), nil)
				f.endTurn(x, start)
				time.Sleep(durableAfter)
				f.checkStored("s")
				checkList(t, "files with the word after the request in progress", filesWith(t, f.dir, markerWord), nil)
				if _, err := f.archive.Transcript(t.Context(), tenantA, "s", 0); !errors.Is(err, store.ErrNoSession) {
					t.Errorf("Transcript(forgotten session): got error %v, want store.ErrNoSession", err)
				}
				if n, err := forget(f); err != nil {
					t.Errorf("sessions deleted by a second call of %s: %v", name, err)
				} else if n != 0 {
					t.Errorf("sessions deleted by a second call of %s = %d, want 0", name, n)
				}
				time.Sleep(time.Second)
				f.playTurn("s", 1) // a new session with the same name
				time.Sleep(durableAfter)
				f.checkStored("s", "1 complete")
				if err := f.drain(); err != nil {
					t.Error(err)
				}
				checkAccount(t, "account", accountText(f.balancedAccount(false)), "3 = 2 + 0 + 0 + 1 opted_out")
			})
		})
	}
}

func TestTurnsDuringOutageAreStoredOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := runFixture(t, nil)
		f.backend.failWrites()
		for turn := 1; turn <= 3; turn++ {
			f.playTurn("s", turn)
			time.Sleep(durableAfter)
		}
		f.checkStored("s")
		checkAccount(t, "account", f.account(true), "3 = 0 + 3 + 0")
		if f.store.Healthy() {
			t.Error("during the outage: Healthy = true, want false")
		}
		if f.store.Lag() < durableAfter {
			t.Errorf("during the outage: Lag = %v, want at least %v", f.store.Lag(), durableAfter)
		}
		if f.store.Metrics.WriteErrors.Load() == 0 {
			t.Error("during the outage: Metrics.WriteErrors = 0, want at least 1")
		}
		f.backend.allowWrites()
		time.Sleep(durableAfter)
		f.checkStored("s", "1 complete", "2 complete", "3 complete")
		checkAccount(t, "account", f.account(true), "3 = 3 + 0 + 0")
		if !f.store.Healthy() {
			t.Error("after the outage: Healthy = false, want true")
		}
		if f.store.Lag() != 0 {
			t.Errorf("after the outage: Lag = %v, want 0", f.store.Lag())
		}
		f.checkMemoryIsFree()
	})
}
