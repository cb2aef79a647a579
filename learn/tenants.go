package learn

import (
	"container/list"
	"context"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"precept/bandit"
	"precept/internal/guard"
	"precept/internal/label"
)

const (
	// maxTenants bounds the tenants in memory. If each credential is a tenant, a million may exist.
	maxTenants     = 2000
	minTenants     = 64               // up to this number, idle tenants stay in memory for requests after a quiet night
	tenantsAtStart = 256              // tenants read when the program starts; the rest are read at first use
	idleTime       = 10 * time.Minute // an unused tenant leaves memory after this duration, or at most twice as long
	loadBatchSize  = 200              // tenants read per loadAndEvict call
	maxEvictChecks = 2 * maxTenants   // tenants checked per evict call
)

type tenant struct {
	counters         *bandit.Chooser
	otherDefinitions map[string]int64 // sessions counted under other reward definitions
	newRewards       int              // since the last fit of the priors
	priorsVersion    int64            // backend version of the priors
	usedAt           atomic.Int64     // unix nanoseconds

	// The following fields are guarded by tenantsMu.
	isLoaded  bool          // counters were read
	isQueued  bool          // in beliefs.unread
	checkedAt int64         // unix nanoseconds
	element   *list.Element // in beliefs.order
}

// chooser returns a tenant's chooser. For a tenant that is not in memory, the chooser starts from the priors, and the
// next loadAndEvict reads the counters.
func (b *beliefs) chooser(name string) *bandit.Chooser {
	b.tenantsMu.RLock()
	t := b.tenants[name]
	ready := t != nil && (t.isLoaded || t.isQueued)
	b.tenantsMu.RUnlock()
	if !ready {
		b.tenantsMu.Lock()
		t = b.getOrAddLocked(name)
		if !t.isLoaded && !t.isQueued {
			t.isQueued = true
			b.unread = append(b.unread, name)
		}
		b.tenantsMu.Unlock()
	}
	t.usedAt.Store(b.tools.now().UnixNano())
	return t.counters
}

// peekChooser is like chooser, but neither marks the tenant as used nor queues a read.
func (b *beliefs) peekChooser(name string) *bandit.Chooser { return b.getOrAdd(name).counters }

// getOrAdd returns a tenant. A missing tenant is added without counters, and no read is queued.
func (b *beliefs) getOrAdd(name string) *tenant {
	if t := b.tenant(name); t != nil {
		return t
	}
	b.tenantsMu.Lock()
	defer b.tenantsMu.Unlock()
	return b.getOrAddLocked(name)
}

// getOrAddLocked is getOrAdd for a caller that holds tenantsMu.
func (b *beliefs) getOrAddLocked(name string) *tenant {
	t := b.tenants[name]
	if t == nil {
		t = &tenant{counters: bandit.New(), checkedAt: b.tools.now().UnixNano(), element: b.order.PushFront(name)}
		t.counters.AdvanceTo(b.tools.now())
		b.tenants[name] = t
		b.known.add(name)
	}
	return t
}

func (b *beliefs) tenant(name string) *tenant {
	t, _ := b.get(name)
	return t
}

// get returns a tenant in memory, or nil, and whether the counters were read.
func (b *beliefs) get(name string) (t *tenant, read bool) {
	b.tenantsMu.RLock()
	defer b.tenantsMu.RUnlock()
	t = b.tenants[name]
	return t, t != nil && t.isLoaded
}

func (b *beliefs) names() []string {
	b.tenantsMu.RLock()
	defer b.tenantsMu.RUnlock()
	return slices.Collect(maps.Keys(b.tenants))
}

func (b *beliefs) otherDefinitions(name string) map[string]int64 {
	if t := b.tenant(name); t != nil {
		return t.otherDefinitions
	}
	return nil
}

// replace replaces a tenant with a fresh copy from the backend, and forgets how far other replicas' changes were read.
// The caller holds b.mu.
func (b *beliefs) replace(name string, fresh *tenant) {
	b.positions[name] = ""
	old := b.getOrAdd(name)
	if _, read := b.get(name); read {
		fresh.newRewards = old.newRewards
		fresh.counters.Inherit(old.counters)
		b.provisional.reassign(name, old, fresh)
	}
	b.provisional.addToCounters(name, fresh)
	b.tenantsMu.Lock()
	defer b.tenantsMu.Unlock()
	fresh.usedAt.Store(old.usedAt.Load())
	fresh.isLoaded, fresh.isQueued, fresh.checkedAt, fresh.element = true, old.isQueued, old.checkedAt, old.element
	b.tenants[name] = fresh
}

// load reads a tenant's counters for a caller that needs more than the priors.
func (b *beliefs) load(ctx context.Context, name string) error {
	b.chooser(name)
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.loadLocked(ctx, name)
}

// loadLocked reads the counters for a tenant that is in memory without them. The caller holds b.mu.
func (b *beliefs) loadLocked(ctx context.Context, name string) error {
	if t, read := b.get(name); t == nil || read {
		return nil
	}
	loaded, err := b.readTenant(ctx, name)
	if err != nil {
		return err
	}
	b.replace(name, loaded)
	return nil
}

// isCrowded reports whether settlements must not read further tenants. Otherwise closing thousands of tenants would
// read and evict counters again and again.
func (b *beliefs) isCrowded() bool {
	b.tenantsMu.RLock()
	defer b.tenantsMu.RUnlock()
	return len(b.tenants) > maxTenants/2
}

// loadAndEvict reads the counters for tenants in use, and evicts idle tenants.
func (b *beliefs) loadAndEvict(ctx context.Context) {
	b.tenantsMu.Lock()
	n := min(len(b.unread), loadBatchSize)
	names := b.unread[:n:n]
	b.unread = b.unread[n:]
	b.tenantsMu.Unlock()
	for i, name := range names {
		err := b.tools.guard.RunErr(label.StepLoad, func() error {
			b.mu.Lock()
			defer b.mu.Unlock()
			if err := b.loadLocked(ctx, name); err != nil {
				return err
			}
			b.publish(ctx, name) // sessions may have closed before the read
			return nil
		})
		failed := err != nil && !guard.IsPermanent(err)
		b.tenantsMu.Lock()
		if failed {
			b.unread = append(b.unread, names[i:]...)
		} else if t := b.tenants[name]; t != nil {
			t.isQueued = false
		}
		b.tenantsMu.Unlock()
		if failed {
			b.tools.reportFailure(label.StepLoad, err)
			break
		}
	}
	b.evict()
}

// evict removes idle tenants, and the least recently used tenants beyond maxTenants. Each tenant is checked once per
// idleTime, and more often only if there are more than maxTenants.
func (b *beliefs) evict() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.tenantsMu.Lock()
	defer b.tenantsMu.Unlock()
	now := b.tools.now().UnixNano()
	for range maxEvictChecks {
		last := b.order.Back()
		if last == nil {
			return
		}
		name := last.Value.(string) //nolint:forcetypeassert // all values in the list are strings
		t := b.tenants[name]
		overLimit := len(b.tenants) > maxTenants
		if len(b.tenants) <= minTenants {
			return
		}
		switch used := t.usedAt.Load(); {
		case !overLimit && now-t.checkedAt < int64(idleTime):
			return
		case used > t.checkedAt && (overLimit || now-used < int64(idleTime)):
			t.checkedAt = now
			b.order.MoveToFront(last)
		default:
			b.order.Remove(last)
			delete(b.tenants, name)
			delete(b.positions, name)
			delete(b.feedbackPositions, name)
			b.provisional.detach(name)
		}
	}
}

// knownTenants records whether the process has seen no tenant, one or several.
type knownTenants struct {
	first      string
	hasSeveral bool
}

func (k *knownTenants) add(name string) {
	if k.first == "" {
		k.first = name
	}
	k.hasSeveral = k.hasSeveral || k.first != name
}

func (b *beliefs) onlyTenant() string {
	b.tenantsMu.RLock()
	defer b.tenantsMu.RUnlock()
	if b.known.hasSeveral {
		return ""
	}
	return b.known.first
}

// noteTenant records for onlyTenant that a tenant exists.
func (b *beliefs) noteTenant(name string) {
	b.tenantsMu.Lock()
	defer b.tenantsMu.Unlock()
	b.known.add(name)
}
