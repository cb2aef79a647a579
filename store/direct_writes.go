package store

import (
	"context"
	"slices"
	"sync"
	"time"
)

// maxDirectBytes limits the size of all directWrites. Beyond the limit the oldest writes are dropped.
const maxDirectBytes = 4 << 20

// directWrites keeps the newest writes that a shared backend has accepted, but that are not in the outbox: posted
// feedback, deletions and opt-out marks. They are repeated if the backend loses acknowledged data. A nil directWrites,
// for a backend that this process owns, keeps nothing.
type directWrites struct {
	now func() time.Time

	mu    sync.Mutex
	list  []directWrite // oldest first
	bytes int
}

type directWrite struct {
	at     time.Time
	tenant string // tenant of posted feedback; "" for other writes
	bytes  int
	repeat func(ctx context.Context)
}

// add keeps an accepted write. tenant is set for posted feedback only.
func (d *directWrites) add(tenant string, bytes int, repeat func(ctx context.Context)) {
	if d == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.list = append(d.list, directWrite{d.now(), tenant, bytes, repeat})
	d.bytes += bytes
	for d.bytes > maxDirectBytes {
		d.bytes -= d.list[0].bytes
		d.list = slices.Delete(d.list, 0, 1)
	}
}

func (d *directWrites) drop(match func(w *directWrite) bool) {
	if d == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.list = slices.DeleteFunc(d.list, func(w directWrite) bool {
		matches := match(&w)
		if matches {
			d.bytes -= w.bytes
		}
		return matches
	})
}

func (d *directWrites) isEmpty() bool {
	if d == nil {
		return true
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.list) == 0
}

// repeat repeats all kept writes, in order, after the backend has lost data.
func (d *directWrites) repeat(ctx context.Context) {
	if d == nil {
		return
	}
	d.mu.Lock()
	list := d.list
	d.list, d.bytes = nil, 0
	d.mu.Unlock()
	for i := range list {
		list[i].repeat(ctx)
	}
}
