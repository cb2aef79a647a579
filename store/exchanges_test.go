package store_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"precept/bandit/trial"
	"precept/internal/sample"
	"precept/internal/session"
	"precept/store"
)

// cachedFixture returns a fixture whose store has a cache of exchanges, limited to size bytes.
func cachedFixture(t testing.TB, size int64) (*fixture, *store.ExchangeCache) {
	t.Helper()
	cache, err := store.NewExchangeCache(size, false)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cache.Close)
	return newFixture(t, func(o *store.Options) { o.Exchanges = cache }), cache
}

// readExchanges returns the number of exchanges that Exchanges returns. It changes the returned list, which must not
// change the cache.
func (r *fixture) readExchanges(id session.ID) int {
	r.t.Helper()
	list, err := r.store.Exchanges(r.t.Context(), tenantA, id)
	if err != nil {
		r.t.Fatal(err)
	}
	for i := range list {
		list[i].Turn = -1
	}
	return len(list)
}

// readUntilCached reads a session until a read hits the cache, because the cache stores entries asynchronously.
func (r *fixture) readUntilCached(c *store.ExchangeCache, id session.ID) {
	r.t.Helper()
	for hits := c.Hits(); c.Hits() == hits; time.Sleep(time.Millisecond) {
		r.readExchanges(id)
	}
}

func TestExchangesAreReadFromTheCache(t *testing.T) {
	t.Parallel()
	r, cache := cachedFixture(t, 1<<20)
	id := r.playOneTurn("s", trial.Assignment{})
	r.readUntilCached(cache, id)
	misses := cache.Misses()
	for range 10 {
		list, err := r.store.Exchanges(t.Context(), tenantA, id)
		if err != nil || len(list) != 1 || list[0].Turn != 1 || len(list[0].New) == 0 {
			t.Fatalf("Exchanges = %+v, %v, want only turn 1, with new items", list, err)
		}
	}
	checkEqual(t, "cache misses after ten reads", cache.Misses(), misses)
	checkEqual(t, "exchanges of another tenant", len(must(r.store.Exchanges(t.Context(), "other", id))), 0)
}

// must returns v, and panics on an error.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// A read returns every exchange that was delivered before the read began.
func TestCachedExchangesAreCurrent(t *testing.T) {
	t.Parallel()
	r, cache := cachedFixture(t, 1<<20)
	id := r.playOneTurn("s", trial.Assignment{})
	var readers sync.WaitGroup
	done := make(chan struct{})
	for range 3 {
		readers.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
					r.readExchanges(id)
				}
			}
		})
	}
	for turn := 2; turn < 60; turn++ {
		r.offer("s", turn)
		r.deliver()
		checkEqual(t, "exchanges after a delivery", r.readExchanges(id), turn)
	}
	close(done)
	readers.Wait()
	if cache.Hits() == 0 {
		t.Error("cache hits = 0, want > 0")
	}
}

func TestForgettingRemovesExchangesFromTheCache(t *testing.T) {
	t.Parallel()
	for name, forget := range map[string]func(r *fixture) error{
		"session": func(r *fixture) error { _, err := r.store.ForgetSession(r.t.Context(), tenantA, "s"); return err },
		"tenant":  func(r *fixture) error { _, err := r.store.ForgetTenant(r.t.Context(), tenantA); return err },
	} {
		r, cache := cachedFixture(t, 1<<20)
		id := r.playOneTurn("s", trial.Assignment{})
		r.readUntilCached(cache, id)
		r.run()
		if err := forget(r); err != nil {
			t.Fatalf("forgetting the %s: %v", name, err)
		}
		checkEqual(t, "exchanges after forgetting the "+name, r.readExchanges(id), 0)
	}
}

func TestRetentionEmptiesTheExchangeCache(t *testing.T) {
	t.Parallel()
	r, cache := cachedFixture(t, 1<<20)
	id := r.playOneTurn("s", trial.Assignment{})
	r.readUntilCached(cache, id)
	r.store.SetRetention(time.Hour)
	r.clock.add(2 * time.Hour)
	r.run()
	for r.exchanges(id) > 0 {
		time.Sleep(time.Millisecond)
	}
	for r.readExchanges(id) > 0 { // the cache is emptied after the deletion
		time.Sleep(time.Millisecond)
	}
}

func TestExchangeCacheSizeIsLimited(t *testing.T) {
	t.Parallel()
	r, cache := cachedFixture(t, 16<<10)
	for i := range 50 {
		r.playOneTurn(fmt.Sprint("s", i), trial.Assignment{})
	}
	for range 3 {
		for i := range 50 {
			checkEqual(t, "exchanges of a session", r.readExchanges(sessionID(fmt.Sprint("s", i))), 1)
		}
	}
	if n := cache.Misses(); n < 100 {
		t.Errorf("cache misses in 150 reads of 50 sessions with a cache of 16 KiB: got %d, want at least 100", n)
	}
}

// Exchanges of a cached session include imported exchanges right after the import.
func TestImportInvalidatesCachedExchanges(t *testing.T) {
	t.Parallel()
	r, cache := cachedFixture(t, 1<<20)
	id := r.playOneTurn("s", trial.Assignment{})
	r.readUntilCached(cache, id)
	second := newExchange(tenantA, "s", 2, r.clock.now())
	if err := r.store.Import(t.Context(), session.Batch{Exchanges: []sample.Exchange{*second}}); err != nil {
		t.Fatal(err)
	}
	checkEqual(t, "exchanges after the import", r.readExchanges(id), 2)
}
