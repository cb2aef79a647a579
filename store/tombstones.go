package store

import (
	"context"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"precept/internal/label"
	"precept/internal/sample"
	"precept/internal/session"
)

// tombstoneAge is the age at which a tombstone is deleted. Requests in progress when the session was deleted have ended
// by then.
const tombstoneAge = 24 * time.Hour

// futureAge is how far ahead of the clock the time of content may be. Content further ahead was written before the
// clock was set back.
const futureAge = time.Minute

// tombstones holds the ids of deleted sessions and the names of deleted tenants, so that no request in progress stores
// content after the deletion.
type tombstones struct {
	mu       sync.RWMutex
	sessions map[session.ID]tombstone
	tenants  map[string]tombstone
	finished uint64    // number of finished erasures
	now      time.Time // last correctClock call
}

type tombstone struct {
	deletedAt    time.Time // when deleted, not in the future (see correctClock)
	originalTime time.Time // original deletion time
	number       uint64    // erasure number, or runningErasure
}

const runningErasure = math.MaxUint64

func (t *tombstones) add(e *session.Erasure) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.set(e, runningErasure)
}

func (t *tombstones) finish(e *session.Erasure) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.finished++
	t.set(e, t.finished)
}

// set sets an erasure's tombstones. The caller holds mu.
func (t *tombstones) set(e *session.Erasure, number uint64) {
	at := e.At.UTC() // strips the monotonic reading; with it, correctClock could not see that the clock was set back
	if len(e.IDs) == 0 {
		t.tenants[e.Tenant] = tombstone{at, at, number}
	}
	for _, id := range e.IDs {
		t.sessions[id] = tombstone{at, at, number}
	}
}

// has reports whether the erasure is known, from this process or from another replica's announcement.
func (t *tombstones) has(e *session.Erasure) bool {
	t.mu.RLock()
	defer t.mu.RUnlock()
	isSame := func(stone tombstone) bool { return stone.originalTime.UnixMicro() == e.At.UnixMicro() }
	if len(e.IDs) == 0 {
		return isSame(t.tenants[e.Tenant])
	}
	return !slices.ContainsFunc(e.IDs, func(id session.ID) bool { return !isSame(t.sessions[id]) })
}

// finishedErasures returns the number of finished erasures. Writers outside the deliverer read it before a write, and
// pass it to erasedSince after the write.
func (t *tombstones) finishedErasures() uint64 {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.finished
}

// erasedSince reports whether an erasure might have missed a write in progress. It returns true if an erasure of the
// session or its tenant is running, or has ended since the finishedErasures call that returned the number finished.
func (t *tombstones) erasedSince(finished uint64, tenant string, id session.ID) bool {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.sessions[id].number > finished || t.tenants[tenant].number > finished
}

// undoer deletes data from writes in progress that an erasure has missed.
type undoer struct {
	tombstones *tombstones
	backend    interface {
		Forget(ctx context.Context, tenant string, id session.ID) (bool, error)
	}
	onFailure func(step label.Step, err error)
}

// undo deletes the session and returns true if an erasure might have missed a write. finished is what finishedErasures
// returned before the write.
func (u *undoer) undo(ctx context.Context, finished uint64, tenant string, id session.ID) bool {
	if !u.tombstones.erasedSince(finished, tenant, id) {
		return false
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeLimit) // ctx might have run out of time
	defer cancel()
	if _, err := u.backend.Forget(ctx, tenant, id); err != nil {
		u.onFailure(label.StepErase, err)
	}
	return true
}

// covers reports whether the session or its tenant was deleted at or after the content's time. Such content must not be
// stored.
func (t *tombstones) covers(tenant, id string, contentTime time.Time) bool {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if len(t.sessions)+len(t.tenants) == 0 {
		return false
	}
	if stone, ok := t.tenants[tenant]; ok && t.coversTime(stone, contentTime) {
		return true
	}
	sid, _ := session.ParseID(id)
	stone, ok := t.sessions[sid]
	return ok && t.coversTime(stone, contentTime)
}

// coversTime reports whether content is older than a deletion. Content with a future time was written before the clock
// was set back, so coversTime compares it with the deletion's original time. The caller holds mu.
func (t *tombstones) coversTime(stone tombstone, contentTime time.Time) bool {
	fromFuture := contentTime.After(t.now.Add(futureAge))
	return !contentTime.After(stone.deletedAt) || fromFuture && !contentTime.After(stone.originalTime)
}

// correctClock sets deletion times in the future to now. Such times come from a clock that was ahead. If they stayed,
// new content would be dropped.
func (t *tombstones) correctClock(now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now = now.UTC() // see set
	t.now = now
	for id, stone := range t.sessions {
		if stone.deletedAt.After(now) {
			stone.deletedAt = now
			t.sessions[id] = stone
		}
	}
	for tenant, stone := range t.tenants {
		if stone.deletedAt.After(now) {
			stone.deletedAt = now
			t.tenants[tenant] = stone
		}
	}
}

func (t *tombstones) withoutDeleted(b session.Batch) session.Batch {
	b.Rows = without(b.Rows, func(r *session.Row) bool { return t.covers(r.Tenant, r.ID.String(), r.Seen) })
	b.Echoes = without(b.Echoes, func(k *session.Echo) bool { return t.covers(k.Tenant, k.ID.String(), k.At) })
	b.Exchanges = without(b.Exchanges, func(x *sample.Exchange) bool { return t.covers(x.Tenant, x.Session, x.At) })
	return b
}

func (t *tombstones) signalsWithoutDeleted(list []signal) []signal {
	return without(list, func(g *signal) bool { return t.covers(g.Ref.Tenant, g.Ref.ID.String(), g.entry.At) })
}

func (t *tombstones) deleteOld(now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	old := func(stone tombstone) bool { return now.Sub(stone.deletedAt) > tombstoneAge }
	maps.DeleteFunc(t.sessions, func(_ session.ID, stone tombstone) bool { return old(stone) })
	maps.DeleteFunc(t.tenants, func(_ string, stone tombstone) bool { return old(stone) })
}

// without returns the items for which drop returns false. It does not change list, and returns list itself if no item
// was dropped.
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
