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
	// maxTenants is the number of tenants in memory, the most recently used. With a tenant for
	// each credential a million tenants may exist.
	maxTenants     = 2000
	minTenants     = 64               // with at most this number in memory, idle tenants stay: the first request after a night must not start from the priors
	tenantsAtStart = 256              // tenants that are read at a start; further tenants are read at their first use
	tenantIdle     = 10 * time.Minute // a tenant leaves memory between one and two times this duration after its last use
	tenantStep     = 200              // tenants per read of the backend
	evictStep      = 2 * maxTenants   // tenants that one call of evict looks at
)

// tenant holds the beliefs about the lessons of one tenant.
type tenant struct {
	counters         *bandit.Chooser
	otherDefinitions map[string]int64 // sessions counted under other definitions of reward
	rewards          int              // rewards since the last fit of the priors
	version          int64            // version of the priors in the backend
	used             atomic.Int64     // time of the last use, in unix nanoseconds

	// The following fields are guarded by tenantsMu.
	read    bool          // the counters of the backend are loaded
	queued  bool          // the tenant is in beliefs.unread
	checked int64         // time of the last check for use, in unix nanoseconds
	element *list.Element // in beliefs.order
}

// chooser returns the chooser of a tenant for a request or a report. A tenant that is not in memory
// starts from the priors, and the next call of tidy reads its counters.
func (b *beliefs) chooser(name string) *bandit.Chooser {
	b.tenantsMu.RLock()
	t := b.tenants[name]
	ready := t != nil && (t.read || t.queued)
	b.tenantsMu.RUnlock()
	if !ready {
		b.tenantsMu.Lock()
		t = b.getOrAddLocked(name)
		if !t.read && !t.queued {
			t.queued = true
			b.unread = append(b.unread, name)
		}
		b.tenantsMu.Unlock()
	}
	t.used.Store(b.tools.now().UnixNano())
	return t.counters
}

// chooserAtClosing returns the chooser of a tenant whose session closes. Unlike chooser, chooserAtClosing does not
// count as a use of the tenant, and does not queue the tenant for reading.
func (b *beliefs) chooserAtClosing(name string) *bandit.Chooser { return b.getOrAdd(name).counters }

// getOrAdd returns a tenant. A missing tenant is added without its counters and is not queued for
// reading.
func (b *beliefs) getOrAdd(name string) *tenant {
	if t := b.tenant(name); t != nil {
		return t
	}
	b.tenantsMu.Lock()
	defer b.tenantsMu.Unlock()
	return b.getOrAddLocked(name)
}

// getOrAddLocked returns a tenant, and adds the tenant if it is missing. The caller holds tenantsMu.
func (b *beliefs) getOrAddLocked(name string) *tenant {
	t := b.tenants[name]
	if t == nil {
		t = &tenant{counters: bandit.New(), checked: b.tools.now().UnixNano(), element: b.order.PushFront(name)}
		t.counters.Today(b.tools.now())
		b.tenants[name] = t
		b.known.add(name)
	}
	return t
}

// tenant returns a tenant in memory, or nil.
func (b *beliefs) tenant(name string) *tenant {
	t, _ := b.get(name)
	return t
}

// get returns a tenant in memory, or nil, and reports whether its counters were read.
func (b *beliefs) get(name string) (t *tenant, read bool) {
	b.tenantsMu.RLock()
	defer b.tenantsMu.RUnlock()
	t = b.tenants[name]
	return t, t != nil && t.read
}

// names returns the names of the tenants in memory.
func (b *beliefs) names() []string {
	b.tenantsMu.RLock()
	defer b.tenantsMu.RUnlock()
	return slices.Collect(maps.Keys(b.tenants))
}

// otherDefinitions returns the number of sessions that were counted under other definitions of reward.
func (b *beliefs) otherDefinitions(name string) map[string]int64 {
	if t := b.tenant(name); t != nil {
		return t.otherDefinitions
	}
	return nil
}

// replace replaces a tenant by a fresh copy from the backend, whose position is not known. The caller holds b.mu.
func (b *beliefs) replace(name string, fresh *tenant) {
	b.positions[name] = ""
	old := b.getOrAdd(name)
	if _, read := b.get(name); read {
		fresh.rewards = old.rewards
		fresh.counters.Inherit(old.counters)
		b.openRewards.reassign(name, old, fresh)
	}
	b.openRewards.addTo(name, fresh)
	b.tenantsMu.Lock()
	defer b.tenantsMu.Unlock()
	fresh.used.Store(old.used.Load())
	fresh.read, fresh.queued, fresh.checked, fresh.element = true, old.queued, old.checked, old.element
	b.tenants[name] = fresh
}

// load reads a tenant that is not in memory, for callers that need more than the priors.
func (b *beliefs) load(ctx context.Context, name string) error {
	b.chooser(name)
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.loadHeld(ctx, name)
}

// loadHeld reads the counters of a tenant that is in memory without its counters. The caller holds b.mu.
func (b *beliefs) loadHeld(ctx context.Context, name string) error {
	if t, read := b.get(name); t == nil || read {
		return nil
	}
	loaded, err := b.read(ctx, name)
	if err != nil {
		return err
	}
	b.replace(name, loaded)
	return nil
}

// isCrowded reports whether memory holds so many tenants that a settlement reads no further tenant.
// Otherwise the closings of thousands of tenants would read and evict counters again and again.
func (b *beliefs) isCrowded() bool {
	b.tenantsMu.RLock()
	defer b.tenantsMu.RUnlock()
	return len(b.tenants) > maxTenants/2
}

// tidy reads used tenants that are not in memory, and drops tenants without a recent use.
func (b *beliefs) tidy(ctx context.Context) {
	b.tenantsMu.Lock()
	n := min(len(b.unread), tenantStep)
	names := b.unread[:n:n]
	b.unread = b.unread[n:]
	b.tenantsMu.Unlock()
	for i, name := range names {
		err := b.tools.guard.Err(label.StepLoad, func() error {
			b.mu.Lock()
			defer b.mu.Unlock()
			if err := b.loadHeld(ctx, name); err != nil {
				return err
			}
			b.publish(ctx, name) // sessions may have closed while the tenant was not in memory
			return nil
		})
		failed := err != nil && !guard.Poisoned(err)
		b.tenantsMu.Lock()
		if failed {
			b.unread = append(b.unread, names[i:]...)
		} else if t := b.tenants[name]; t != nil {
			t.queued = false
		}
		b.tenantsMu.Unlock()
		if failed {
			b.tools.failed(label.StepLoad, err)
			break
		}
	}
	b.evict()
}

// evict removes tenants without a recent use from memory, and the least recently used tenants beyond
// maxTenants. The backend has their counters. Each tenant is checked once in tenantIdle, and more
// often only beyond maxTenants.
func (b *beliefs) evict() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.tenantsMu.Lock()
	defer b.tenantsMu.Unlock()
	now := b.tools.now().UnixNano()
	for range evictStep {
		last := b.order.Back()
		if last == nil {
			return
		}
		name := last.Value.(string) //nolint:forcetypeassert // the list holds names only
		t := b.tenants[name]
		many := len(b.tenants) > maxTenants
		if len(b.tenants) <= minTenants {
			return
		}
		switch used := t.used.Load(); {
		case !many && now-t.checked < int64(tenantIdle):
			return
		case used > t.checked && (many || now-used < int64(tenantIdle)):
			t.checked = now
			b.order.MoveToFront(last)
		default:
			b.order.Remove(last)
			delete(b.tenants, name)
			delete(b.positions, name)
			delete(b.feedbackPositions, name)
			b.openRewards.release(name)
		}
	}
}

// knownTenants records whether the process has seen no tenant, one tenant or several.
type knownTenants struct {
	first   string
	several bool
}

func (k *knownTenants) add(name string) {
	if k.first == "" {
		k.first = name
	}
	k.several = k.several || k.first != name
}

// onlyTenant returns the only tenant that has ever been seen; "" for none and for several.
func (b *beliefs) onlyTenant() string {
	b.tenantsMu.RLock()
	defer b.tenantsMu.RUnlock()
	if b.known.several {
		return ""
	}
	return b.known.first
}

// noteTenant records the name of a tenant of the backend for onlyTenant.
func (b *beliefs) noteTenant(name string) {
	b.tenantsMu.Lock()
	defer b.tenantsMu.Unlock()
	b.known.add(name)
}
