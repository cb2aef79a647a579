package store

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"precept/internal/label"
	"precept/internal/sample"
	"precept/internal/session"
	"precept/store/outbox"
)

const (
	retryAfter = time.Second
	manyRows   = 10 * flushAt // session rows in ready at which ready is dropped from memory and read back from the outbox
)

// handoff carries rows from the recorder to the shipper. next is accepted and not durable yet;
// ready is in the outbox, and still in memory for the shipper. If the backend does not keep up,
// ready leaves memory, and the shipper reads its rows back from the outbox.
type handoff struct {
	outbox   *outbox.Outbox // nil: rows wait in memory alone
	tools    tools
	maxBytes int64 // bytes of exchanges in memory, at most

	mu      sync.Mutex // guards the fields below and the recorder's lists
	next    batch
	ready   batch
	from    int64     // the sequence number before the first row of ready
	reached int64     // last row that the shipper has delivered or has in memory
	since   int64     // flush of the row reached
	flushes int64     // the number of the last flush
	putErr  error     // error of the last append
	putAt   time.Time // earliest next append after a failure
	full    bool      // the outbox had no room: safe rows must be deleted at once
	passing int       // exchanges that bypass the outbox; no append meanwhile

	documents []byte // room for the documents of an append, which end with the append
}

// maxSpareDocuments is the largest room for documents that stays for the next append.
const maxSpareDocuments = 2 * pieceBytes

// isPaused reports whether appends pause. The caller holds mu.
func (h *handoff) isPaused(now time.Time) bool { return now.Before(h.putAt) || h.passing > 0 }

// commit makes next durable, and appends next to ready for the shipper. begun reports whether the
// starts of turns are in the outbox; otherwise commit removes the starts from next. The caller
// holds mu.
func (h *handoff) commit(now time.Time) (begun bool) {
	if h.next.empty() {
		return false
	}
	offered := len(h.next.exchanges)
	h.putErr = h.tools.guard.Err(label.StepSpool, h.append)
	if begun = h.putErr == nil && h.outbox != nil; !begun {
		h.next.starts = nil
	}
	if h.putErr != nil {
		h.tools.state.outboxFailed.Store(true)
		h.tools.tally.WriteErrors.Add(1)
		h.tools.failed(label.StepSpool, h.putErr)
		h.putAt = now.Add(retryAfter)
		return false
	}
	if h.outbox != nil {
		h.tools.state.durable.Store(h.next.flush)
		h.tools.state.outboxTakes(h.next.dropped[droppedQuota] > 0 || offered == 0 && h.tools.state.outboxFull.Load())
	}
	h.ready.merge(&h.next)
	h.next.reset()
	if h.outbox != nil && (h.from > h.reached || h.ready.held >= h.maxBytes/4 || len(h.ready.rows) >= manyRows) {
		h.dropDurable()
	}
	return begun
}

// append writes next to the outbox.
func (h *handoff) append() error {
	if h.outbox == nil {
		return nil
	}
	rows, buf, bad := h.next.documents(h.documents, func(of session.Ref, exchange string, f func()) bool {
		return h.tools.guard.On(label.StepSpool, of, exchange, f)
	})
	if h.documents = buf; cap(buf) > maxSpareDocuments {
		h.documents = nil
	}
	h.tools.tally.DroppedBad.Add(bad)
	dropped, err := h.dropOver(rows)
	if err != nil {
		return err
	}
	if dropped {
		return h.append()
	}
	f := outbox.Flush{Rows: rows, Stubs: h.next.starts, Ended: h.next.ended, Dropped: h.next.dropped, Scrub: h.next.scrub}
	last, err := h.outbox.Append(&f)
	if err == nil {
		h.next.last = last
		return nil
	}
	h.full = h.full || errors.Is(err, outbox.ErrFull) || errors.Is(err, outbox.ErrQuota)
	if !errors.Is(err, outbox.ErrQuota) || len(h.next.exchanges) == 0 {
		return err
	}
	// The newest exchanges are dropped and counted: older exchanges wait first. State of sessions
	// may exceed the quota.
	h.next.starts = nil
	exchanges := h.next.dropExchanges(droppedQuota, func(*sample.Exchange) bool { return true })
	h.tools.state.heldBytes.Add(-h.next.held)
	h.next.held = 0
	surplus := max(0, len(h.next.signals)-queueLen)
	h.next.signals = h.next.signals[surplus:]
	h.countDropped("limits.outbox_bytes", exchanges, int64(surplus))
	return h.append()
}

// dropOver drops the new exchanges of tenants for which the outbox has no room, and reports whether some were
// dropped: a tenant that floods must not take the room of the others.
func (h *handoff) dropOver(rows []outbox.Row) (dropped bool, err error) {
	room, err := h.outbox.Over(rows)
	if err != nil || len(room.Full)+len(room.Limited) == 0 {
		return false, err
	}
	before := int64(len(h.next.exchanges))
	full := h.next.dropExchanges(droppedQuota, func(x *sample.Exchange) bool { return room.Full[x.Tenant] })
	limited := h.next.dropExchanges(droppedTenant, func(x *sample.Exchange) bool { return room.Limited[x.Tenant] })
	freed := h.next.held * (full + limited) / max(before, 1) // the batch knows no size of a single exchange
	h.tools.state.heldBytes.Add(-freed)
	h.next.held -= freed
	h.full = true // safe rows must be deleted at once
	h.countDropped("limits.outbox_bytes", full, h.next.dropSignals(room.Full))
	h.countDropped("limits.tenant_bytes", limited, h.next.dropSignals(room.Limited))
	return full+limited > 0, nil
}

// countDropped counts and logs exchanges and implicit feedback for which the outbox has no room.
func (h *handoff) countDropped(limit string, exchanges, signals int64) {
	if exchanges+signals == 0 {
		return
	}
	t := h.tools.tally
	if limit == "limits.tenant_bytes" {
		t.DroppedTenant.Add(exchanges)
		t.Signals.Tenant.Add(signals)
	} else {
		t.DroppedQuota.Add(exchanges)
		t.Signals.Quota.Add(signals)
	}
	h.tools.failed(label.StepSpool, fmt.Errorf(
		"%w: %s is in use, and %d new exchanges and %d ratings of the traffic were dropped; repair the store, or raise %s",
		errNoRoom, limit, exchanges, signals, limit))
}

// errNoRoom reports that the outbox drops exchanges.
var errNoRoom = errors.New("the outbox is full")

// dropDurable removes the rows from memory that are in the outbox and not yet at the shipper. The
// caller holds mu.
func (h *handoff) dropDurable() {
	h.tools.state.heldBytes.Add(-h.ready.held)
	h.from, h.since = h.ready.last, h.ready.flush
	h.ready = batch{last: h.ready.last, flush: h.ready.flush}
	h.tools.state.lagging.Store(true)
}

// forget removes sessions of a tenant from the rows that the shipper has not taken. The caller
// holds mu.
func (h *handoff) forget(tenant string, of func(session.ID) bool) {
	h.next.forget(tenant, of)
	h.ready.forget(tenant, of)
}

// take moves ready to the end of a batch.
func (h *handoff) take(to *batch) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ready.empty() {
		return
	}
	to.merge(&h.ready)
	h.ready.reset()
	h.from, h.since, h.reached = h.ready.last, h.ready.flush, h.ready.last
}

// setReached notes that the backend has the rows up to a sequence number.
func (h *handoff) setReached(to int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.reached = max(h.reached, to)
}

// backlog returns the sequence number up to which rows must be read back, and reports whether such
// rows remain.
func (h *handoff) backlog() (until int64, lagging bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.reached >= h.from {
		if h.tools.state.lagging.Swap(false) {
			h.tools.state.blind.Store(false)
			h.tools.state.delivered.Store(h.since)
		}
		return h.from, false
	}
	return h.from, true
}

// putBack leaves an undeliverable batch to the outbox, before the batch fills the memory for new
// rows.
func (h *handoff) putBack(tail *batch) {
	h.mu.Lock()
	defer h.mu.Unlock()
	tail.merge(&h.ready)
	h.ready, *tail = *tail, batch{}
	h.reached, _ = h.outbox.Delivered()
	h.dropDurable()
}

// readAgain makes the shipper read all durable rows back.
func (h *handoff) readAgain() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.tools.state.heldBytes.Add(-h.ready.held)
	h.reached, h.from = h.outbox.Delivered()
	h.ready, h.since = batch{last: h.from, flush: h.flushes}, h.flushes
	h.tools.state.lagging.Store(true)
	h.tools.state.blind.Store(true)
}

// yieldDisk stops appending while the disk is full, so that the backend gets the remaining space:
// only delivered rows can leave the outbox and free space. Meanwhile new rows wait in memory,
// within the bound.
func (h *handoff) yieldDisk(now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.full, h.putAt = true, now.Add(3*retryAfter) // after the next attempt of the shipper
	h.outbox.YieldDisk()
}

// wasFull reports whether the outbox had no room since the last time.
func (h *handoff) wasFull() (full bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	full, h.full = h.full, false
	return full
}

// takeForBypass removes and returns the rows that wait for an append, if nothing else is on its way to the
// backend.
func (h *handoff) takeForBypass() (b batch, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.reached < h.from || !h.ready.empty() || h.next.empty() {
		return b, false
	}
	b, h.next = h.next, batch{last: h.next.last, flush: h.next.flush}
	b.last = h.ready.last
	h.passing = max(len(b.exchanges), 1)
	return b, true
}

// endBypass ends takeForBypass. Undelivered rows wait again.
func (h *handoff) endBypass(b *batch, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.passing = 0
	if err != nil {
		b.ended = append(b.ended, h.next.ended...)
		b.scrub = b.scrub || h.next.scrub
		for reason, n := range h.next.dropped {
			b.drop(reason, n)
		}
		flush := max(b.flush, h.next.flush)
		b.merge(&h.next)
		b.flush = flush
		h.next = *b
		return
	}
	if h.next.empty() {
		h.putErr = nil
	}
}

// trouble reports whether rows are still to be read back, and returns the error of the last append.
func (h *handoff) trouble() (lagging bool, putErr error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.reached < h.from, h.putErr
}

// errBacklog reports that earlier rows are still on their way to the backend.
var errBacklog = errors.New("a backlog is being written")
