package learn

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync/atomic"

	"precept/bandit"
	"precept/internal/guard"
	"precept/internal/label"
)

const (
	// tenantsMost is the number of tenants in memory, the most recently used. With a tenant for
	// each credential a million tenants may exist.
	tenantsMost = 2000
	tenantStep  = 200 // tenants per read of the backend
)

// tenant holds the beliefs about the lessons of one tenant.
type tenant struct {
	counters         *bandit.Chooser
	otherDefinitions map[string]int64 // sessions counted under other definitions of reward
	rewards          int
	version          int64
	used             atomic.Int64 // sequence number of the last use
	read             bool         // the counters of the backend are loaded; guarded by tenantsMu
}

// of returns the chooser of a tenant.
func (b *beliefs) of(name string) *bandit.Chooser {
	t := b.tenant(name)
	if t == nil {
		t = b.add(name)
	}
	t.used.Store(b.asked.Add(1))
	return t.counters
}

func (b *beliefs) add(name string) *tenant {
	b.tenantsMu.Lock()
	defer b.tenantsMu.Unlock()
	t := b.tenants[name]
	if t == nil {
		t = &tenant{counters: bandit.New()}
		t.counters.Today(b.tools.now())
		b.tenants[name] = t
		if len(b.unread) < tenantsMost { // other tenants are read at the next use
			b.unread = append(b.unread, name)
		}
	}
	return t
}

// tenant returns a tenant in memory, or nil.
func (b *beliefs) tenant(name string) *tenant {
	b.tenantsMu.RLock()
	defer b.tenantsMu.RUnlock()
	return b.tenants[name]
}

// otherDefinitions returns the number of sessions that were counted under other definitions of reward.
func (b *beliefs) otherDefinitions(name string) map[string]int64 {
	if t := b.tenant(name); t != nil {
		return t.otherDefinitions
	}
	return nil
}

// put replaces a tenant by a fresh copy from the backend.
func (b *beliefs) put(name string, fresh *tenant) {
	b.tenantsMu.Lock()
	defer b.tenantsMu.Unlock()
	if old := b.tenants[name]; old != nil {
		fresh.rewards = old.rewards
		fresh.counters.Inherit(old.counters)
		fresh.used.Store(old.used.Load())
	}
	fresh.read = true
	b.tenants[name] = fresh
}

// room reports whether a tenant is in memory or fits into memory.
func (b *beliefs) room(name string) bool {
	b.tenantsMu.RLock()
	defer b.tenantsMu.RUnlock()
	return b.tenants[name] != nil || len(b.tenants) < tenantsMost
}

// load reads a tenant that is not in memory, for callers that need more than the priors.
func (b *beliefs) load(ctx context.Context, name string) error {
	b.of(name)
	b.mu.Lock()
	defer b.mu.Unlock()
	if t := b.tenant(name); t == nil || t.read {
		return nil
	}
	loaded, err := b.read(ctx, name)
	if err != nil {
		return err
	}
	b.put(name, loaded)
	return nil
}

// names returns the tenants in memory.
func (b *beliefs) names() []string {
	b.tenantsMu.RLock()
	defer b.tenantsMu.RUnlock()
	return slices.Sorted(maps.Keys(b.tenants))
}

// tidy reads used tenants that are not in memory, and drops tenants beyond the bound.
func (b *beliefs) tidy(ctx context.Context) {
	b.tenantsMu.Lock()
	n := min(len(b.unread), tenantStep)
	names := b.unread[:n:n]
	b.unread = b.unread[n:]
	many := len(b.tenants) > tenantsMost
	b.tenantsMu.Unlock()
	for _, name := range names {
		if err := b.tools.guard.Err(label.StepLoad, func() error { return b.load(ctx, name) }); err != nil && !guard.Poisoned(err) {
			b.tools.failed(label.StepLoad, err)
			b.tenantsMu.Lock()
			b.unread = append(b.unread, name)
			b.tenantsMu.Unlock()
			return
		}
	}
	if many {
		b.drop()
	}
}

// drop removes the least recently used tenants from memory. The backend has their counters.
func (b *beliefs) drop() {
	b.mu.Lock()
	defer b.mu.Unlock()
	gone := b.oldest()
	for at := range b.provisional {
		if gone[at.Tenant] {
			delete(b.provisional, at)
		}
	}
	for name := range gone {
		delete(b.positions, name)
		delete(b.feedbackPositions, name)
	}
}

func (b *beliefs) oldest() map[string]bool {
	b.tenantsMu.Lock()
	defer b.tenantsMu.Unlock()
	names := slices.SortedFunc(maps.Keys(b.tenants), func(x, y string) int {
		return cmp.Compare(b.tenants[x].used.Load(), b.tenants[y].used.Load())
	})
	gone := map[string]bool{}
	for _, name := range names[:max(len(names)-tenantsMost*9/10, 0)] { // some at a time: this looks at all of them
		gone[name] = true
		delete(b.tenants, name)
	}
	b.unread = slices.DeleteFunc(b.unread, func(name string) bool { return gone[name] })
	return gone
}
