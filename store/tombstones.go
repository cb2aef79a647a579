package store

import (
	"maps"
	"slices"
	"sync"
	"time"

	"precept/internal/sample"
	"precept/internal/session"
)

// tombstoneAge is the age at which a tombstone is deleted. Every request that was in progress when its session was
// deleted has ended by then.
const tombstoneAge = 24 * time.Hour

// tombstones hold the ids of deleted sessions and the names of deleted tenants, with the time of the
// deletion, so that no content of a request in progress is stored after the deletion.
type tombstones struct {
	mu       sync.RWMutex
	sessions map[session.ID]time.Time
	tenants  map[string]time.Time
}

// add adds the tombstones of an erasure.
func (t *tombstones) add(e *session.Erasure) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(e.IDs) == 0 {
		t.tenants[e.Tenant] = e.At
	}
	for _, id := range e.IDs {
		t.sessions[id] = e.At
	}
}

// covers reports whether the session or its tenant was deleted at or after at, the time of some content of the session.
// Such content must not be stored.
func (t *tombstones) covers(tenant, id string, at time.Time) bool {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if len(t.sessions)+len(t.tenants) == 0 {
		return false
	}
	if since, ok := t.tenants[tenant]; ok && !at.After(since) {
		return true
	}
	sid, _ := session.ParseID(id)
	since, ok := t.sessions[sid]
	return ok && !at.After(since)
}

// withoutDeleted returns a batch without the content of deleted sessions.
func (t *tombstones) withoutDeleted(b session.Batch) session.Batch {
	b.Rows = without(b.Rows, func(r *session.Row) bool { return t.covers(r.Tenant, r.ID.String(), r.Seen) })
	b.Echoes = without(b.Echoes, func(k *session.Echo) bool { return t.covers(k.Tenant, k.ID.String(), k.At) })
	b.Exchanges = without(b.Exchanges, func(x *sample.Exchange) bool { return t.covers(x.Tenant, x.Session, x.At) })
	return b
}

// signalsWithoutDeleted returns list without the signals of deleted sessions.
func (t *tombstones) signalsWithoutDeleted(list []signal) []signal {
	return without(list, func(g *signal) bool { return t.covers(g.Ref.Tenant, g.Ref.ID.String(), g.entry.At) })
}

// deleteOld removes the tombstones that are older than tombstoneAge.
func (t *tombstones) deleteOld(now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	old := func(at time.Time) bool { return now.Sub(at) > tombstoneAge }
	maps.DeleteFunc(t.sessions, func(_ session.ID, at time.Time) bool { return old(at) })
	maps.DeleteFunc(t.tenants, func(_ string, at time.Time) bool { return old(at) })
}

// without returns the items of list for which drop returns false. It does not change list, and returns list itself if
// no item was dropped.
func without[T any](list []T, drop func(*T) bool) []T {
	for i := range list {
		if !drop(&list[i]) {
			continue
		}
		out := slices.Clone(list[:i])
		for k := i + 1; k < len(list); k++ {
			if !drop(&list[k]) {
				out = append(out, list[k])
			}
		}
		return out
	}
	return list
}
