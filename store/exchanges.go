package store

import (
	"context"
	"fmt"
	"hash/maphash"
	"slices"
	"sync/atomic"
	"time"

	"github.com/dgraph-io/ristretto/v2"

	"precept/internal/sample"
	"precept/internal/session"
)

const (
	maxTTL        = 10 * time.Minute // longest lifetime; content that the backend deletes by age must also leave memory
	sharedTTL     = 10 * time.Second // longest lifetime if other replicas write to the backend
	writtenShards = 4096             // number of write counters; the sessions in a shard share a counter
	exchangeCost  = 1024             // approximate exchange size in memory, without texts
)

// ExchangeCache holds the decoded exchanges for stored sessions, which pages, backtests, exports and the distiller read
// repeatedly. An ExchangeCache is safe for concurrent use.
//
// Sessions are divided into shards by hash. An entry's key contains the shard's write count and the count of deletions,
// so no reader gets an entry from before a write or a deletion. Without other replicas, half the size is reserved for
// open sessions; see openDocuments.
type ExchangeCache struct {
	openDocs     *openDocuments // nil means other replicas write to the backend
	cache        *ristretto.Cache[uint64, []sample.Exchange]
	seed         maphash.Seed
	ttl          time.Duration
	written      [writtenShards]atomic.Uint64 // write counts, by session hash
	forgotten    atomic.Uint64                // number of deletions
	hits, misses atomic.Int64
}

// NewExchangeCache returns a cache for about size bytes. shared means that other replicas write to the backend.
func NewExchangeCache(size int64, shared bool) (*ExchangeCache, error) {
	openBytes := size / 2
	if shared {
		openBytes = 0
	}
	size -= openBytes
	// ristretto needs about ten counters per entry; an entry is assumed to have eight exchanges.
	cache, err := ristretto.NewCache(&ristretto.Config[uint64, []sample.Exchange]{
		NumCounters: max(10*size/(8*exchangeCost), 100), MaxCost: size, BufferItems: 64, IgnoreInternalCost: true,
	})
	if err != nil {
		return nil, fmt.Errorf("exchange cache: %w", err)
	}
	c := &ExchangeCache{cache: cache, seed: maphash.MakeSeed(), ttl: maxTTL, openDocs: newOpenDocuments(openBytes)}
	if shared {
		c.ttl, c.openDocs = sharedTTL, nil
	}
	return c, nil
}

// Close stops the cache's goroutines. A closed cache contains nothing.
func (c *ExchangeCache) Close() { c.cache.Close() }

// Hits returns the number of reads that found the session.
func (c *ExchangeCache) Hits() int64 { return c.hits.Load() }

// Misses returns the number of reads that did not find the session.
func (c *ExchangeCache) Misses() int64 { return c.misses.Load() }

type exchangeReader interface {
	Exchanges(ctx context.Context, tenant string, id session.ID) ([]sample.Exchange, error)
}

// read returns a session's exchanges from the cache c (can be nil) or else from the backend. The caller is allowed to
// change the list, but not the exchanges.
func (c *ExchangeCache) read(ctx context.Context, backend exchangeReader, tenant string, id session.ID) ([]sample.Exchange, error) {
	if c == nil {
		return backend.Exchanges(ctx, tenant, id)
	}
	key := c.key(tenant, id)
	if exchanges, ok := c.cache.Get(key); ok && exchanges[0].Tenant == tenant && exchanges[0].Session == id.String() {
		c.hits.Add(1)
		return slices.Clone(exchanges), nil
	}
	c.misses.Add(1)
	exchanges, err := backend.Exchanges(ctx, tenant, id)
	if err == nil && len(exchanges) > 0 {
		c.cache.SetWithTTL(key, slices.Clone(exchanges), approximateBytes(exchanges), c.ttl)
	}
	return exchanges, err
}

func (c *ExchangeCache) key(tenant string, id session.ID) uint64 {
	return maphash.Comparable(c.seed, struct {
		tenant             string
		id                 session.ID
		written, forgotten uint64
	}{tenant, id, c.shard(id).Load(), c.forgotten.Load()})
}

func (c *ExchangeCache) shard(id session.ID) *atomic.Uint64 {
	return &c.written[maphash.Comparable(c.seed, id)%writtenShards]
}

// invalidateWritten invalidates the entries for sessions with new exchanges. If the write succeeded (stored), it adds
// the accepted exchanges' documents to openDocs.
func (c *ExchangeCache) invalidateWritten(exchanges []sample.Exchange, stored bool) {
	if c == nil {
		return
	}
	for i := range exchanges {
		c.shard(sessionRef(&exchanges[i]).ID).Add(1)
	}
	if stored && c.openDocs != nil {
		c.openDocs.add(exchanges)
	}
}

// readForClose returns a closing session's exchanges, without a backend call if openDocs has all stored exchanges. The
// caller holds deliverer.deliveryMu.
func (c *ExchangeCache) readForClose(ctx context.Context, backend exchangeReader, ref session.Ref, stored int) ([]sample.Exchange, error) {
	if c == nil || c.openDocs == nil {
		return backend.Exchanges(ctx, ref.Tenant, ref.ID)
	}
	if exchanges, ok := c.openDocs.take(ref, stored); ok {
		c.hits.Add(1)
		return exchanges, nil
	}
	c.misses.Add(1)
	return backend.Exchanges(ctx, ref.Tenant, ref.ID)
}

// invalidateAll empties the cache. The caller holds deliverer.deliveryMu.
func (c *ExchangeCache) invalidateAll() {
	if c == nil {
		return
	}
	c.forgotten.Add(1)
	c.cache.Clear()
	if c.openDocs != nil {
		*c.openDocs = *newOpenDocuments(c.openDocs.limit)
	}
}

// dropOlder empties the cache, and drops open sessions without an exchange since the given time.
func (c *ExchangeCache) dropOlder(before time.Time) {
	if c == nil {
		return
	}
	c.forgotten.Add(1)
	c.cache.Clear()
	if c.openDocs != nil {
		c.openDocs.dropOlder(before)
	}
}

func approximateBytes(exchanges []sample.Exchange) (total int64) {
	for i := range exchanges {
		x := &exchanges[i]
		total += exchangeCost + int64(len(x.Reply.Text)+len(x.System)+len(x.Tools))
		for _, item := range x.New {
			total += int64(len(item))
		}
		for k := range x.Reply.Calls {
			total += int64(len(x.Reply.Calls[k].Args))
		}
	}
	return total
}

// Import stores past exchanges in the backend. Readers get them immediately, even if the cache had the session.
func (s *Store) Import(ctx context.Context, b session.Batch) error {
	defer s.options.Exchanges.invalidateWritten(b.Exchanges, false) // an interrupted write can succeed
	return s.options.Backend.Write(ctx, b)
}

// Exchanges returns a session's stored exchanges, oldest first. The caller is allowed to change the list, but not the
// exchanges.
func (s *Store) Exchanges(ctx context.Context, tenant string, id session.ID) ([]sample.Exchange, error) {
	return s.options.Exchanges.read(ctx, s.options.Backend, tenant, id)
}

// ExchangesAtClose returns a closing session's exchanges, oldest first. stored is the number of exchanges in the
// backend. If memory has that many, the backend is not called. Call ExchangesAtClose inside WithDeliveryPaused.
func (s *Store) ExchangesAtClose(ctx context.Context, ref session.Ref, stored int) ([]sample.Exchange, error) {
	return s.options.Exchanges.readForClose(ctx, s.options.Backend, ref, stored)
}
