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

// withCache returns a function that adds an exchange cache of about size bytes to the options of a fixture.
func withCache(t testing.TB, size int64) func(o *options) {
	t.Helper()
	cache, err := store.NewExchangeCache(size, false)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cache.Close)
	return func(o *options) { o.Exchanges = cache }
}

// offerTurns offers the turns from through to of three sessions, and writes them to the backend.
func (r *fixture) offerTurns(from, to int) {
	r.t.Helper()
	const last = 6
	for turn := from; turn <= to; turn++ {
		for _, name := range []string{"a", "b", "c"} {
			if turn == 1 {
				r.beginSession(tenantA, name, picked(true))
			}
			if !r.Offer(store.Turn{Exchange: step(name, turn, last, r.clk.now(), turn%2 == 0), Size: 1000}) {
				r.t.Fatal("Offer refused the turn")
			}
			r.clk.add(time.Second)
		}
		r.record()
	}
}

// samplesText returns all stored samples as JSON.
func (r *fixture) samplesText() string {
	r.t.Helper()
	page, err := r.be.NewestSamples(r.ctx(), tenantA, session.ListRange{Limit: 256})
	if err != nil {
		r.t.Fatal(err)
	}
	text, err := json.MarshalIndent(page.List, "", " ")
	if err != nil {
		r.t.Fatal(err)
	}
	return string(text)
}

func TestCloseReadsExchangesFromCache(t *testing.T) {
	t.Parallel()
	r := newFixture(t, withCache(t, 1<<20))
	r.offerTurns(1, 6)
	r.be.takeCalls()
	r.advancePastClose()
	if calls := r.be.takeCalls(); slices.Contains(calls, "read exchanges") || !slices.Contains(calls, "samples") {
		t.Errorf("calls during close = %q, want samples and no read of exchanges", calls)
	}
	same(t, "sessions closed from the cache", r.opts.Exchanges.Hits(), 3)
	r.postFeedback(tenantA, sessionOf("a"), score("late", 1, 1)) // rebuilds the samples after the session left the cache
	r.record()
	same(t, "correction read exchanges from the backend", slices.Contains(r.be.takeCalls(), "read exchanges"), true)
}

// The samples do not depend on whether a close reads the exchanges from the cache or from the backend.
func TestClosingFromMemoryAndFromTheBackendBuildsEqualSamples(t *testing.T) {
	t.Parallel()
	plain := newFixture(t, nil)
	plain.offerTurns(1, 6)
	plain.advancePastClose()
	want := plain.samplesText()
	for name, k := range map[string]struct {
		size       int64
		disturb    func(r *fixture) *fixture // after half of the turns
		fromMemory int64
	}{
		"all sessions in the cache": {1 << 20, func(r *fixture) *fixture { return r }, 3},
		"one session in the cache":  {40 << 10, func(r *fixture) *fixture { return r }, 1},
		"no session in the cache":   {100, func(r *fixture) *fixture { return r }, 0},
		"program killed":            {1 << 20, killed, 0},
		"repeated write": {1 << 20, func(r *fixture) *fixture {
			r.be.failNext("write", 1, errDown)
			return r
		}, 3},
		"repeated delivery": {1 << 20, func(r *fixture) *fixture {
			r.AddEchoes(session.Echo{Tenant: tenantA, Key: 7, ID: sessionOf("a"), At: r.clk.now()})
			r.be.failNext("join", 1, errDown) // the join fails after the exchanges are stored
			return r
		}, 3},
		"exchange stored by another writer": {1 << 20, func(r *fixture) *fixture {
			x := step("a", 4, 6, r.clk.now(), true)
			if err := r.be.backend.Write(r.ctx(), session.Batch{Exchanges: []sample.Exchange{*x}}); err != nil {
				r.t.Fatal(err)
			}
			return r
		}, 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newFixture(t, withCache(t, k.size))
			r.offerTurns(1, 3)
			r = k.disturb(r)
			r.offerTurns(4, 6)
			r.clk.add(2 * time.Second) // longer than the delay of a retry
			r.advancePastClose()
			same(t, "sessions closed from the cache", r.opts.Exchanges.Hits(), k.fromMemory)
			same(t, "samples", r.samplesText(), want)
		})
	}
}

// killed returns a fixture on a copy of the current files, as after a kill of the program.
func killed(r *fixture) *fixture {
	dir := r.t.TempDir()
	files, err := filepath.Glob(filepath.Join(r.dir, "*"))
	if err != nil || len(files) < 2 {
		r.t.Fatalf("Glob = %q, %v, want at least two files", files, err)
	}
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, filepath.Base(name)), data, 0o600)
		}
		if err != nil {
			r.t.Fatal(err)
		}
	}
	return openFixture(r.t, dir, r.clk, withCache(r.t, 1<<20))
}
