package store

import (
	"maps"
	"slices"
	"sync"
	"time"

	"precept/internal/sample"
	"precept/internal/session"
)

// forgottenIn is the life of a tombstone: a request that began before its session was forgotten has
// ended by then.
const forgottenIn = 24 * time.Hour

// tombstones hold forgotten sessions and tenants with the time, so that a request that is in
// progress does not bring a session back.
type tombstones struct {
	mu       sync.RWMutex
	sessions map[session.ID]time.Time
	tenants  map[string]time.Time
}

// put adds the tombstones of an erasure.
func (t *tombstones) put(e *session.Erasure) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(e.IDs) == 0 {
		t.tenants[e.Tenant] = e.At
	}
	for _, id := range e.IDs {
		t.sessions[id] = e.At
	}
}

// cover reports whether content of a session at a time belongs to a forgotten session.
func (t *tombstones) cover(tenant, id string, at time.Time) bool {
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

// remaining returns a batch without the content of forgotten sessions.
func (t *tombstones) remaining(w session.Batch) session.Batch {
	w.Rows = without(w.Rows, func(r *session.Row) bool { return t.cover(r.Tenant, r.ID.String(), r.Seen) })
	w.Echoes = without(w.Echoes, func(k *session.Echo) bool { return t.cover(k.Tenant, k.ID.String(), k.At) })
	w.Exchanges = without(w.Exchanges, func(x *sample.Exchange) bool { return t.cover(x.Tenant, x.Session, x.At) })
	return w
}

// remainingSignals returns the signals of sessions that are not forgotten.
func (t *tombstones) remainingSignals(list []signal) []signal {
	return without(list, func(g *signal) bool { return t.cover(g.Ref.Tenant, g.Ref.ID.String(), g.entry.At) })
}

// tidy removes the tombstones that are older than any request.
func (t *tombstones) tidy(now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	old := func(at time.Time) bool { return now.Sub(at) > forgottenIn }
	maps.DeleteFunc(t.sessions, func(_ session.ID, at time.Time) bool { return old(at) })
	maps.DeleteFunc(t.tenants, func(_ string, at time.Time) bool { return old(at) })
}

// without returns list without the items for which gone is true, in a new list if there are any.
func without[T any](list []T, gone func(*T) bool) []T {
	for i := range list {
		if !gone(&list[i]) {
			continue
		}
		out := slices.Clone(list[:i])
		for k := i + 1; k < len(list); k++ {
			if !gone(&list[k]) {
				out = append(out, list[k])
			}
		}
		return out
	}
	return list
}
