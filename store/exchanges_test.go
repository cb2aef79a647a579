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

// cachedFixture returns a fixture and its exchange cache of size bytes.
func cachedFixture(t testing.TB, size int64) (*fixture, *store.ExchangeCache) {
	t.Helper()
	cache, err := store.NewExchangeCache(size, false)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cache.Close)
	return newFixture(t, func(o *store.Options) { o.Exchanges = cache }), cache
}

// readExchanges returns the number of a session's exchanges. It edits the list, which must not change the cache.
func (f *fixture) readExchanges(id session.ID) int {
	f.t.Helper()
	list, err := f.store.Exchanges(f.t.Context(), tenantA, id)
	if err != nil {
		f.t.Fatal(err)
	}
	for i := range list {
		list[i].Turn = -1
	}
	return len(list)
}

// readUntilCached reads a session until a read hits the cache, which stores entries asynchronously.
func (f *fixture) readUntilCached(c *store.ExchangeCache, id session.ID) {
	f.t.Helper()
	for hits := c.Hits(); c.Hits() == hits; time.Sleep(time.Millisecond) {
		f.readExchanges(id)
	}
}

func TestExchangesReadsTheCache(t *testing.T) {
	t.Parallel()
	f, cache := cachedFixture(t, 1<<20)
	id := f.playOneTurn("s", trial.Assignment{})
	f.readUntilCached(cache, id)
	misses := cache.Misses()
	for range 10 {
		list, err := f.store.Exchanges(t.Context(), tenantA, id)
		if err != nil {
			t.Fatal(err)
		}
		if len(list) != 1 {
			t.Fatalf("Exchanges = %+v, want 1 exchange", list)
		}
		if list[0].Turn != 1 {
			t.Fatalf("Exchanges: Turn = %d, want 1", list[0].Turn)
		}
		if len(list[0].New) == 0 {
			t.Fatal("Exchanges: New is empty")
		}
	}
	checkEqual(t, "cache misses after ten reads", cache.Misses(), misses)
	checkEqual(t, "another tenant's exchanges", len(must(f.store.Exchanges(t.Context(), "other", id))), 0)
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// While turns are delivered, three goroutines read the session and so fill the cache with older lists.
func TestExchangesReturnsNewDeliveries(t *testing.T) {
	t.Parallel()
	f, cache := cachedFixture(t, 1<<20)
	id := f.playOneTurn("s", trial.Assignment{})
	var readers sync.WaitGroup
	done := make(chan struct{})
	for range 3 {
		readers.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
					f.readExchanges(id)
				}
			}
		})
	}
	for turn := 2; turn < 60; turn++ {
		f.offer("s", turn)
		f.deliver()
		checkEqual(t, "exchanges after a delivery", f.readExchanges(id), turn)
	}
	close(done)
	readers.Wait()
	if cache.Hits() == 0 {
		t.Error("cache hits: got 0, want above 0")
	}
}

func TestForgetEmptiesExchangeCache(t *testing.T) {
	t.Parallel()
	for name, forget := range map[string]func(f *fixture) error{
		"session": func(f *fixture) error { _, err := f.store.ForgetSession(f.t.Context(), tenantA, "s"); return err },
		"tenant":  func(f *fixture) error { _, err := f.store.ForgetTenant(f.t.Context(), tenantA); return err },
	} {
		f, cache := cachedFixture(t, 1<<20)
		id := f.playOneTurn("s", trial.Assignment{})
		f.readUntilCached(cache, id)
		f.run()
		if err := forget(f); err != nil {
			t.Fatalf("error from forgetting the %s: %v", name, err)
		}
		checkEqual(t, "exchanges after forgetting the "+name, f.readExchanges(id), 0)
	}
}

func TestRetentionEmptiesExchangeCache(t *testing.T) {
	t.Parallel()
	f, cache := cachedFixture(t, 1<<20)
	id := f.playOneTurn("s", trial.Assignment{})
	f.readUntilCached(cache, id)
	f.store.SetRetention(time.Hour)
	f.clock.add(2 * time.Hour)
	f.run()
	for f.exchangeCount(id) > 0 {
		time.Sleep(time.Millisecond)
	}
	for f.readExchanges(id) > 0 { // the cache is emptied after the deletion
		time.Sleep(time.Millisecond)
	}
}

func TestExchangeCacheSizeIsLimited(t *testing.T) {
	t.Parallel()
	f, cache := cachedFixture(t, 16<<10)
	for i := range 50 {
		f.playOneTurn(fmt.Sprint("s", i), trial.Assignment{})
	}
	for range 3 {
		for i := range 50 {
			checkEqual(t, "exchanges in a session", f.readExchanges(sessionID(fmt.Sprint("s", i))), 1)
		}
	}
	if n := cache.Misses(); n < 100 {
		t.Errorf("misses of a 16 KiB cache in 150 reads of 50 sessions: got %d, want at least 100", n)
	}
}

func TestImportInvalidatesCachedExchanges(t *testing.T) {
	t.Parallel()
	f, cache := cachedFixture(t, 1<<20)
	id := f.playOneTurn("s", trial.Assignment{})
	f.readUntilCached(cache, id)
	second := newExchange(tenantA, "s", 2, f.clock.now())
	if err := f.store.Import(t.Context(), session.Batch{Exchanges: []sample.Exchange{*second}}); err != nil {
		t.Fatal(err)
	}
	checkEqual(t, "exchanges after the import", f.readExchanges(id), 2)
}
