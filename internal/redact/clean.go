package redact

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"sync/atomic"

	"github.com/dgraph-io/ristretto/v2"
)

// CleanTexts is a cache of texts that contain nothing to redact. Agents send the same system prompt and the same rules
// files at the start of every session, and later sessions need no scan of these texts. An entry may be evicted at any
// time. CleanTexts is safe for concurrent use.
type CleanTexts struct {
	cache        *ristretto.Cache[uint64, [sha256.Size]byte]
	hits, misses atomic.Int64
}

const (
	minCleanText  = 1 << 10 // minimum length of a text in bytes; the scan of a shorter text is faster than the look-up
	cleanTextCost = 160     // memory of an entry in bytes: digest, keys, counters
)

// NewCleanTexts returns a cache of about size bytes. Close ends its goroutines.
func NewCleanTexts(size int64) (*CleanTexts, error) {
	cache, err := ristretto.NewCache(&ristretto.Config[uint64, [sha256.Size]byte]{
		NumCounters: max(10*size/cleanTextCost, 1), MaxCost: size, BufferItems: 64, IgnoreInternalCost: true,
	})
	if err != nil {
		return nil, fmt.Errorf("cache of clean texts: %w", err)
	}
	return &CleanTexts{cache: cache}, nil
}

// Close ends the goroutines of the cache. A closed cache contains nothing.
func (c *CleanTexts) Close() { c.cache.Close() }

// Hits returns the number of look-ups that found their text.
func (c *CleanTexts) Hits() int64 { return c.hits.Load() }

// Misses returns the number of look-ups that did not find their text.
func (c *CleanTexts) Misses() int64 { return c.misses.Load() }

// digest returns the cache key and the digest of a text. The whole digest is compared, so that a crafted text cannot be
// mistaken for a different text. The digest depends on personal, because a text without secrets may contain personal
// data.
func digest(raw []byte, personal bool) (key uint64, sum [sha256.Size]byte) {
	sum = sha256.Sum256(raw)
	if personal {
		sum[0] ^= 0xff
	}
	return binary.LittleEndian.Uint64(sum[:8]), sum
}

// has reports whether the cache contains the text with the digest, and counts the look-up.
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

// UseCleanTexts makes JSONCached use the cache. The cache may serve several redactors.
func (r *Redactor) UseCleanTexts(c *CleanTexts) { r.clean = c }

// JSONCached is like JSON, for a text that other sessions are likely to send, too. Use JSON for other texts, because
// the digest takes a third of the time of the scan.
func (r *Redactor) JSONCached(dst, raw []byte) []byte {
	if r.clean == nil || len(raw) < minCleanText {
		return r.JSON(dst, raw)
	}
	key, sum := digest(raw, r.m.personal)
	if r.clean.has(key, sum) && len(r.knownSecrets) == 0 { // a text that was clean may repeat a secret of this exchange
		return raw
	}
	out := r.JSON(dst, raw)
	if &out[0] == &raw[0] { // JSON returns raw itself if there is nothing to redact
		r.clean.cache.Set(key, sum, cleanTextCost)
	}
	return out
}
