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
	retryAfter  = time.Second  // pause after a failed append or delivery
	maxHeldRows = 10 * flushAt // session rows at which a batch is dropped from memory, to be read back from the outbox
)

// handoff passes rows from the recorder to the deliverer through two batches: pending holds redacted rows and stubs
// (for turns in progress) that are not in the outbox yet, and ready holds rows that the outbox has. If the backend is
// too slow, ready is dropped from memory, and later read back.
type handoff struct {
	outbox   *outbox.Outbox // nil means rows wait only in memory
	deps     sharedDeps
	maxBytes int64 // largest total size for exchanges in memory

	mu               sync.Mutex // guards the fields below and the recorder's lists
	pending          batch
	ready            batch
	lastTaken        int64 // sequence number of the last row delivered or in the deliverer's memory
	backlogEnd       int64 // sequence number of the last row before ready; rows after lastTaken, up to backlogEnd, are only in the outbox
	backlogFlush     int64 // flush that ends at backlogEnd
	flushCount       int64
	appendErr        error
	nextAppend       time.Time // earliest time for the next append after a failure
	releaseRequested bool      // safe rows must be deleted, because the outbox had no room
	bypassing        int       // exchanges in a delivery that bypasses the outbox; appends pause until it ends

	documentBuffer []byte // reused by the next append
}

const maxDocumentBuffer = 2 * pieceBytes

// The caller holds mu.
func (h *handoff) isPaused(now time.Time) bool { return now.Before(h.nextAppend) || h.bypassing > 0 }

// commit appends pending to the outbox, then moves it to the end of ready. If stubsWritten is false, the stubs are not
// in the outbox, and were dropped. The caller holds mu.
func (h *handoff) commit(now time.Time) (stubsWritten bool) {
	if h.pending.isEmpty() {
		return false
	}
	offered := len(h.pending.exchanges)
	h.appendErr = h.deps.guard.RunErr(label.StepOutbox, h.appendToOutbox)
	if stubsWritten = h.appendErr == nil && h.outbox != nil; !stubsWritten {
		h.pending.stubs = nil
	}
	if h.appendErr != nil {
		h.deps.state.outboxFailed.Store(true)
		h.deps.metrics.WriteErrors.Add(1)
		h.deps.onFailure(label.StepOutbox, h.appendErr)
		h.nextAppend = now.Add(retryAfter)
		return false
	}
	if h.outbox != nil {
		h.deps.state.durable.Store(h.pending.flushNumber)
		h.deps.state.recordAppend(h.pending.dropped[droppedQuota] > 0 || offered == 0 && h.deps.state.outboxFull.Load())
	}
	h.ready.merge(&h.pending)
	h.pending.reset()
	if h.outbox != nil && (h.backlogEnd > h.lastTaken || h.ready.heldBytes >= h.maxBytes/4 || len(h.ready.rows) >= maxHeldRows) {
		h.dropReady()
	}
	return stubsWritten
}

// appendToOutbox writes pending to the outbox. It drops and counts exchanges that cannot be encoded or do not fit into
// the outbox. The caller holds mu.
func (h *handoff) appendToOutbox() error {
	if h.outbox == nil {
		return nil
	}
	rows, buf, undecodable := h.pending.encodeRows(h.documentBuffer, func(ref session.Ref, exchange string, f func()) bool {
		return h.deps.guard.RunOn(label.StepOutbox, ref, exchange, f)
	})
	h.documentBuffer = buf
	if cap(buf) > maxDocumentBuffer {
		h.documentBuffer = nil
	}
	h.deps.metrics.DroppedBad.Add(undecodable)
	dropped, err := h.dropOverQuota(rows)
	if err != nil {
		return err
	}
	if dropped {
		return h.appendToOutbox()
	}
	f := outbox.Flush{Rows: rows, Stubs: h.pending.stubs, Ended: h.pending.endedIDs, Dropped: h.pending.dropped, Scrub: h.pending.scrub}
	last, err := h.outbox.Append(&f)
	if err == nil {
		h.pending.lastSequence = last
		return nil
	}
	h.releaseRequested = h.releaseRequested || errors.Is(err, outbox.ErrFull) || errors.Is(err, outbox.ErrQuota)
	if !errors.Is(err, outbox.ErrQuota) || len(h.pending.exchanges) == 0 {
		return err
	}
	// The outbox is at the quota, so new exchanges are dropped. Rows, echo keys and up to queueLen signals are still
	// appended, because a flush without exchanges is allowed to exceed the quota.
	h.pending.stubs = nil
	exchanges := h.pending.dropExchanges(droppedQuota, func(*sample.Exchange) bool { return true })
	h.deps.state.heldBytes.Add(-h.pending.heldBytes)
	h.pending.heldBytes = 0
	surplus := max(0, len(h.pending.signals)-queueLen)
	h.pending.signals = h.pending.signals[surplus:]
	h.countDropped("limits.outbox_bytes", exchanges, int64(surplus))
	return h.appendToOutbox()
}

// dropOverQuota drops new exchanges from tenants over their outbox quota. Otherwise one tenant could fill the outbox
// for all tenants.
func (h *handoff) dropOverQuota(rows []outbox.Row) (dropped bool, err error) {
	refused, err := h.outbox.RefusedTenants(rows)
	if err != nil || len(refused.OverQuota)+len(refused.OverTenantQuota) == 0 {
		return false, err
	}
	before := int64(len(h.pending.exchanges))
	overQuota := h.pending.dropExchanges(droppedQuota, func(x *sample.Exchange) bool { return refused.OverQuota[x.Tenant] })
	overTenantQuota := h.pending.dropExchanges(droppedTenant, func(x *sample.Exchange) bool { return refused.OverTenantQuota[x.Tenant] })
	freed := h.pending.heldBytes * (overQuota + overTenantQuota) / max(before, 1) // estimated from the average exchange size
	h.deps.state.heldBytes.Add(-freed)
	h.pending.heldBytes -= freed
	h.releaseRequested = true
	h.countDropped("limits.outbox_bytes", overQuota, h.pending.dropSignals(refused.OverQuota))
	h.countDropped("limits.tenant_bytes", overTenantQuota, h.pending.dropSignals(refused.OverTenantQuota))
	return overQuota+overTenantQuota > 0, nil
}

func (h *handoff) countDropped(limit string, exchanges, signals int64) {
	if exchanges+signals == 0 {
		return
	}
	t, full := h.deps.metrics, "the outbox"
	if limit == "limits.tenant_bytes" {
		full = "a tenant's share of the outbox"
		t.DroppedTenant.Add(exchanges)
		t.Signals.Tenant.Add(signals)
	} else {
		t.DroppedQuota.Add(exchanges)
		t.Signals.Quota.Add(signals)
	}
	h.deps.onFailure(label.StepOutbox, fmt.Errorf(
		"%s is full (%s): %d new exchanges and %d implicit ratings were dropped; repair the store, or raise %s",
		full, limit, exchanges, signals, limit))
}

// dropReady frees the memory held by ready, which is later read back from the outbox. The caller holds mu.
func (h *handoff) dropReady() {
	h.deps.state.heldBytes.Add(-h.ready.heldBytes)
	h.backlogEnd, h.backlogFlush = h.ready.lastSequence, h.ready.flushNumber
	h.ready = batch{lastSequence: h.ready.lastSequence, flushNumber: h.ready.flushNumber}
	h.deps.state.lagging.Store(true)
}

// forget removes a tenant's selected sessions. The caller holds mu.
func (h *handoff) forget(tenant string, match func(session.ID) bool) {
	h.pending.forget(tenant, match)
	h.ready.forget(tenant, match)
}

func (h *handoff) takeReady(dst *batch) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ready.isEmpty() {
		return
	}
	dst.merge(&h.ready)
	h.ready.reset()
	h.backlogEnd, h.backlogFlush, h.lastTaken = h.ready.lastSequence, h.ready.flushNumber, h.ready.lastSequence
}

func (h *handoff) setTaken(sequence int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lastTaken = max(h.lastTaken, sequence)
}

// backlog returns the sequence number of the last row to read back from the outbox, and whether such rows remain. If
// none remain, it clears state.lagging.
func (h *handoff) backlog() (until int64, lagging bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.lastTaken >= h.backlogEnd {
		if h.deps.state.lagging.Swap(false) {
			h.deps.state.lookupsMayMiss.Store(false)
			h.deps.state.delivered.Store(h.backlogFlush)
		}
		return h.backlogEnd, false
	}
	return h.backlogEnd, true
}

// dropFromMemory frees the memory held by undelivered and ready for new rows. The rows are later read back from the
// outbox.
func (h *handoff) dropFromMemory(undelivered *batch) {
	h.mu.Lock()
	defer h.mu.Unlock()
	undelivered.merge(&h.ready)
	h.ready, *undelivered = *undelivered, batch{}
	h.lastTaken, _ = h.outbox.Delivered()
	h.dropReady()
}

// rereadAll frees the memory held by ready. The deliverer then reads all undelivered rows back from the outbox.
func (h *handoff) rereadAll() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.deps.state.heldBytes.Add(-h.ready.heldBytes)
	h.lastTaken, h.backlogEnd = h.outbox.Delivered()
	h.ready, h.backlogFlush = batch{lastSequence: h.backlogEnd, flushNumber: h.flushCount}, h.flushCount
	h.deps.state.lagging.Store(true)
	h.deps.state.lookupsMayMiss.Store(true)
}

// pauseAppends pauses appends while the disk is full, so that the backend gets the remaining space: the outbox can free
// space only by deleting delivered rows. New rows wait in memory.
func (h *handoff) pauseAppends(now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.releaseRequested, h.nextAppend = true, now.Add(3*retryAfter) // later than the next delivery
	h.outbox.FreeSpace()
}

func (h *handoff) takeReleaseRequest() (releaseNow bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	releaseNow, h.releaseRequested = h.releaseRequested, false
	return releaseNow
}

// takeForBypass removes and returns pending, so that the caller can deliver it without the outbox. Appends pause until
// endBypass. ok is false if pending is empty or earlier rows are undelivered.
func (h *handoff) takeForBypass() (b batch, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.lastTaken < h.backlogEnd || !h.ready.isEmpty() || h.pending.isEmpty() {
		return b, false
	}
	b, h.pending = h.pending, batch{lastSequence: h.pending.lastSequence, flushNumber: h.pending.flushNumber}
	b.lastSequence = h.ready.lastSequence
	h.bypassing = max(len(b.exchanges), 1)
	return b, true
}

// endBypass resumes appends. After a failed delivery, b returns to pending.
func (h *handoff) endBypass(b *batch, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.bypassing = 0
	if err != nil {
		b.endedIDs = append(b.endedIDs, h.pending.endedIDs...)
		b.scrub = b.scrub || h.pending.scrub
		for reason, n := range h.pending.dropped {
			b.addDropped(reason, n)
		}
		flush := max(b.flushNumber, h.pending.flushNumber)
		b.merge(&h.pending)
		b.flushNumber = flush
		h.pending = *b
		return
	}
	if h.pending.isEmpty() {
		h.appendErr = nil
	}
}

func (h *handoff) lagAndAppendError() (lagging bool, appendErr error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.lastTaken < h.backlogEnd, h.appendErr
}

var errBacklog = errors.New("a backlog is being written")
