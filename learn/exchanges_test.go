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

// withCache returns a change of the options of a fixture that adds a cache of exchanges of about size bytes.
func withCache(t testing.TB, size int64) func(o *options) {
	t.Helper()
	cache, err := store.NewExchangeCache(size, false)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cache.Close)
	return func(o *options) { o.Exchanges = cache }
}

// offerTurns offers turns of three sessions, from turn number from up to turn number to, and writes the turns to the
// backend.
func (r *fixture) offerTurns(from, to int) {
	r.t.Helper()
	const last = 6
	for turn := from; turn <= to; turn++ {
		for _, name := range []string{"a", "b", "c"} {
			if turn == 1 {
				r.beginSession(tenantA, name, picked(true))
			}
			if !r.Offer(store.Turn{Exchange: step(name, turn, last, r.clk.now(), turn%2 == 0), Size: 1000}) {
				r.t.Fatal("Offer refused the turn, want the turn accepted")
			}
			r.clk.add(time.Second)
		}
		r.record()
	}
}

// samplesText returns all samples in the database as JSON.
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

func TestClosingTakesExchangesFromMemory(t *testing.T) {
	t.Parallel()
	r := newFixture(t, withCache(t, 1<<20))
	r.offerTurns(1, 6)
	r.be.takeCalls()
	r.advancePastClose()
	if calls := r.be.takeCalls(); slices.Contains(calls, "read exchanges") || !slices.Contains(calls, "samples") {
		t.Errorf("closing made calls %q, want samples and no read of exchanges", calls)
	}
	same(t, "sessions closed from memory", r.opts.Exchanges.Hits(), 3)
	r.postFeedback(tenantA, sessionOf("a"), score("late", 1, 1)) // the samples are built again after the session left the memory
	r.record()
	same(t, "exchanges are read from the backend, after the session left memory", slices.Contains(r.be.takeCalls(), "read exchanges"), true)
}

// The samples do not depend on the place from which closing takes the exchanges.
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
		"memory":                          {1 << 20, func(r *fixture) *fixture { return r }, 3},
		"memory for some of the sessions": {40 << 10, func(r *fixture) *fixture { return r }, 1},
		"no memory":                       {100, func(r *fixture) *fixture { return r }, 0},
		"a killed program":                {1 << 20, killed, 0},
		"a write that is repeated": {1 << 20, func(r *fixture) *fixture {
			r.be.failNext("write", 1, errDown)
			return r
		}, 3},
		"a delivery that is repeated": {1 << 20, func(r *fixture) *fixture {
			r.AddEchoes(session.Echo{Tenant: tenantA, Key: 7, ID: sessionOf("a"), At: r.clk.now()})
			r.be.failNext("join", 1, errDown) // the join fails after the exchanges are stored
			return r
		}, 3},
		"an exchange that another writer stored": {1 << 20, func(r *fixture) *fixture {
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
			r.clk.add(2 * time.Second) // past the delay of a retry
			r.advancePastClose()
			same(t, "sessions closed from memory", r.opts.Exchanges.Hits(), k.fromMemory)
			same(t, "samples", r.samplesText(), want)
		})
	}
}

// killed returns a fixture on a copy of the present files, as after a kill of the program.
func killed(r *fixture) *fixture {
	dir := r.t.TempDir()
	files, err := filepath.Glob(filepath.Join(r.dir, "*"))
	if err != nil || len(files) < 2 {
		r.t.Fatalf("files of the fixture: got %q, error %v, want at least two files and no error", files, err)
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
