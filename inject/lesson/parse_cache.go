package lesson

import "sync"

// ParseCache shares parsed texts among a bank's readers. All readers must have equal secret finders, because the
// results of the finders are shared as well. A ParseCache is safe for concurrent use. A nil ParseCache is empty.
type ParseCache struct {
	mu      sync.Mutex
	entries map[string]*entry
}

// NewParseCache returns an empty cache.
func NewParseCache() *ParseCache { return &ParseCache{entries: map[string]*entry{}} }

// get returns the cached entry with e's name, path and text, or nil.
func (p *ParseCache) get(e *entry) *entry {
	if p == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if cached := p.entries[e.name]; cached != nil && cached.path == e.path && cached.raw == e.raw {
		return cached
	}
	return nil
}

// put replaces the cached entries by those of the given entries that have no faults. A faulty entry is not shared,
// because it holds the last valid version that its reader has seen.
func (p *ParseCache) put(entries map[string]*entry) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	clear(p.entries)
	for name, e := range entries {
		if len(e.errs) == 0 {
			p.entries[name] = e
		}
	}
}
