package redact

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"sync/atomic"

	"github.com/dgraph-io/ristretto/v2"
)

// CleanTexts is a cache that records which texts contain nothing to redact. Agents send the same system prompt and
// rules files in each session, so these are scanned only once. The cache may evict entries at any time. CleanTexts is
// safe for concurrent use.
type CleanTexts struct {
	cache        *ristretto.Cache[uint64, [sha256.Size]byte]
	hits, misses atomic.Int64
}

const (
	minCleanText  = 1 << 10 // in bytes; a shorter text is faster to scan than to look up
	cleanTextCost = 160     // bytes per entry: digest, keys, counters
)

// NewCleanTexts returns a cache with about size bytes. Close ends the cache's goroutines.
func NewCleanTexts(size int64) (*CleanTexts, error) {
	cache, err := ristretto.NewCache(&ristretto.Config[uint64, [sha256.Size]byte]{
		NumCounters: max(10*size/cleanTextCost, 1), MaxCost: size, BufferItems: 64, IgnoreInternalCost: true,
	})
	if err != nil {
		return nil, fmt.Errorf("clean text cache: %w", err)
	}
	return &CleanTexts{cache: cache}, nil
}

// Close ends the cache's goroutines. A closed cache contains nothing.
func (c *CleanTexts) Close() { c.cache.Close() }

// Hits returns how many look-ups found the text.
func (c *CleanTexts) Hits() int64 { return c.hits.Load() }

// Misses returns how many look-ups did not find the text.
func (c *CleanTexts) Misses() int64 { return c.misses.Load() }

// digest returns a text's cache key and digest. The cache compares digests, so a text crafted to have another text's
// key does not count as clean. Key and digest depend on personal, because a text without secrets may contain personal
// data.
func digest(raw []byte, personal bool) (key uint64, sum [sha256.Size]byte) {
	sum = sha256.Sum256(raw)
	if personal {
		sum[0] ^= 0xff
	}
	return binary.LittleEndian.Uint64(sum[:8]), sum
}

func (c *CleanTexts) has(key uint64, sum [sha256.Size]byte) bool {
	found, ok := c.cache.Get(key)
	ok = ok && found == sum
	if ok {
		c.hits.Add(1)
	} else {
		c.misses.Add(1)
	}
	return ok
}

// UseCleanTexts makes JSONCached use the cache. Several redactors may share a cache.
func (r *Redactor) UseCleanTexts(c *CleanTexts) { r.clean = c }

// JSONCached is like JSON, but uses the cache. Call JSONCached only for a text that other sessions are likely to send,
// because the digest makes a scan a third slower.
func (r *Redactor) JSONCached(dst, raw []byte) []byte {
	if r.clean == nil || len(raw) < minCleanText {
		return r.JSON(dst, raw)
	}
	key, sum := digest(raw, r.m.personal)
	if r.clean.has(key, sum) && len(r.knownSecrets) == 0 { // a clean text may repeat a secret from this exchange
		return raw
	}
	out := r.JSON(dst, raw)
	if &out[0] == &raw[0] { // nothing to redact
		r.clean.cache.Set(key, sum, cleanTextCost)
	}
	return out
}
