package learn_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"precept/internal/sample"
	"precept/internal/session"
	"precept/store"
)

// withCache returns a function that sets an exchange cache of size bytes in the options.
func withCache(t testing.TB, size int64) func(o *options) {
	t.Helper()
	cache, err := store.NewExchangeCache(size, false)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cache.Close)
	return func(o *options) { o.Exchanges = cache }
}

// offerTurns offers the turns from through to in each of three sessions, and delivers them to the backend.
func (f *fixture) offerTurns(from, to int) {
	f.t.Helper()
	const last = 6
	for turn := from; turn <= to; turn++ {
		for _, name := range []string{"a", "b", "c"} {
			if turn == 1 {
				f.beginSession(tenantA, name, newAssignment(injected))
			}
			if !f.Offer(store.Turn{Exchange: toolTurn(name, turn, last, f.clock.now(), turn%2 == 0), Size: 1000}) {
				f.t.Fatal("Offer(turn) = false, want true")
			}
			f.clock.add(time.Second)
		}
		f.deliverAndCorrect()
	}
}

func (f *fixture) samplesText() string {
	f.t.Helper()
	page, err := f.backend.ListSamples(f.ctx(), tenantA, session.ListRange{Limit: 256})
	if err != nil {
		f.t.Fatal(err)
	}
	text, err := json.MarshalIndent(page.List, "", " ")
	if err != nil {
		f.t.Fatal(err)
	}
	return string(text)
}

func TestCloseReadsExchangesFromCache(t *testing.T) {
	t.Parallel()
	f := newFixture(t, withCache(t, 1<<20))
	f.offerTurns(1, 6)
	f.backend.takeCalls()
	f.advancePastClose()
	if calls := f.backend.takeCalls(); slices.Contains(calls, "read exchanges") {
		t.Errorf(`backend calls during the close = %q, want no "read exchanges" in the list`, calls)
	} else if !slices.Contains(calls, "samples") {
		t.Errorf(`backend calls during the close = %q, want "samples" in the list`, calls)
	}
	assertEqual(t, "sessions closed from the cache", f.opts.Exchanges.Hits(), 3)
	f.postFeedback(tenantA, sessionID("a"), userScore("late", 1, 1)) // the learner builds the samples again, and must read the exchanges again, because the session has left the cache
	f.deliverAndCorrect()
	assertEqual(t, "the correction reads exchanges from the backend", slices.Contains(f.backend.takeCalls(), "read exchanges"), true)
}

func TestSamplesDoNotDependOnTheCache(t *testing.T) {
	t.Parallel()
	plain := newFixture(t, nil)
	plain.offerTurns(1, 6)
	plain.advancePastClose()
	want := plain.samplesText()
	for name, tc := range map[string]struct {
		size       int64
		disturb    func(f *fixture) *fixture // runs when half the turns have been offered
		fromMemory int64
	}{
		"all sessions in the cache": {1 << 20, func(f *fixture) *fixture { return f }, 3},
		"one session in the cache":  {40 << 10, func(f *fixture) *fixture { return f }, 1},
		"no session in the cache":   {100, func(f *fixture) *fixture { return f }, 0},
		"program killed":            {1 << 20, copyAfterKill, 0},
		"repeated write": {1 << 20, func(f *fixture) *fixture {
			f.backend.failNext("write", 1, errDown)
			return f
		}, 3},
		"repeated delivery": {1 << 20, func(f *fixture) *fixture {
			f.AddEchoes(session.Echo{Tenant: tenantA, Key: 7, ID: sessionID("a"), At: f.clock.now()})
			f.backend.failNext("unpark", 1, errDown) // the step unpark comes after the exchanges are stored
			return f
		}, 3},
		"exchange stored by another writer": {1 << 20, func(f *fixture) *fixture {
			x := toolTurn("a", 4, 6, f.clock.now(), true)
			if err := f.backend.backend.Write(f.ctx(), session.Batch{Exchanges: []sample.Exchange{*x}}); err != nil {
				f.t.Fatal(err)
			}
			return f
		}, 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, withCache(t, tc.size))
			f.offerTurns(1, 3)
			f = tc.disturb(f)
			f.offerTurns(4, 6)
			f.clock.add(2 * time.Second) // longer than the delay before a retry
			f.advancePastClose()
			assertEqual(t, "sessions closed from the cache", f.opts.Exchanges.Hits(), tc.fromMemory)
			assertEqual(t, "samples", f.samplesText(), want)
		})
	}
}

// copyAfterKill returns a fixture that uses a copy of the files, as if the process had been killed.
func copyAfterKill(f *fixture) *fixture {
	dir := f.t.TempDir()
	files, err := filepath.Glob(filepath.Join(f.dir, "*"))
	if err != nil {
		f.t.Fatal(err)
	}
	if len(files) < 2 {
		f.t.Fatalf("files to copy = %q, want at least 2 items", files)
	}
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, filepath.Base(name)), data, 0o600)
		}
		if err != nil {
			f.t.Fatal(err)
		}
	}
	return openFixture(f.t, dir, f.clock, withCache(f.t, 1<<20))
}
