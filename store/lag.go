package store

import (
	"time"

	"precept/internal/sample"
	"precept/internal/session"
)

// Lag returns the age of the oldest exchange or posted feedback that the backend does not have; 0 means none.
func (s *Store) Lag() time.Duration {
	since := s.state.oldestUndelivered.Load()
	if since == 0 {
		return 0
	}
	return max(0, s.options.Now().Sub(time.UnixMicro(since)))
}

// OutboxBytes returns the disk space taken by outbox rows, in bytes; 0 means no outbox.
func (s *Store) OutboxBytes() int64 { return s.state.outboxBytes.Load() }

// LatePosts returns the number of posted feedback entries that only the outbox has.
func (s *Store) LatePosts() int64 {
	if s.poster.late.outbox == nil {
		return 0
	}
	return s.poster.late.outbox.PostCount()
}

// OutboxLimit returns the limit on the disk space for outbox rows, in bytes; 0 means no outbox.
func (s *Store) OutboxLimit() int64 { return s.options.Queue.MaxBytes }

// updateLag updates Metrics.Pending, state.outboxBytes and state.oldestUndelivered. Rows that must be read back have
// unknown times; oldestUndelivered then stays unchanged, or becomes the current time if it was 0. The caller holds
// deliverer.deliveryMu.
func (s *Store) updateLag() {
	h, d := s.deliverer.handoff, s.deliverer
	h.mu.Lock()
	defer h.mu.Unlock()
	n := int64(len(h.pending.exchanges) + h.bypassing) // exchanges that the outbox does not have
	if h.outbox == nil {
		n += int64(len(h.ready.exchanges) + len(d.undelivered.exchanges))
	} else {
		s.state.outboxBytes.Store(h.outbox.Bytes())
		n += h.outbox.Spooled()
	}
	if h.lastTaken < h.backlogEnd {
		s.state.oldestUndelivered.CompareAndSwap(0, s.options.Now().UnixMicro())
	} else {
		s.state.oldestUndelivered.Store(oldestEnd(d.undelivered.exchanges, h.ready.exchanges, h.pending.exchanges))
	}
	if oldest, since := s.poster.late.oldestReceived, s.state.oldestUndelivered.Load(); !oldest.IsZero() && (since == 0 || oldest.UnixMicro() < since) {
		s.state.oldestUndelivered.Store(oldest.UnixMicro())
	}
	s.inbox.mu.Lock()
	defer s.inbox.mu.Unlock()
	s.Metrics.Pending.Store(n + int64(len(s.inbox.queue)))
}

// oldestEnd returns the end time of the first exchange in the first non-empty list, in Unix microseconds; 0 means none.
func oldestEnd(lists ...[]sample.Exchange) int64 {
	for _, list := range lists {
		if len(list) > 0 {
			end := list[0].At.Add(time.Duration(list[0].LatencyMS * float64(time.Millisecond)))
			return max(end.UnixMicro(), 1)
		}
	}
	return 0
}

// countInMemory returns the number of exchanges that are neither in the backend nor in the outbox.
func (s *Store) countInMemory() int {
	h := s.deliverer.handoff
	n := len(h.pending.exchanges)
	if h.outbox == nil {
		n += len(h.ready.exchanges) + len(s.deliverer.undelivered.exchanges)
	}
	return n
}

// UndeliveredSessions returns the sessions that must not close, because the backend lacks some of their exchanges. ok
// is false if these sessions are unknown, because rows are only in the outbox or the backend accepts no writes. Call
// UndeliveredSessions inside WithDeliveryPaused.
func (s *Store) UndeliveredSessions() (refs map[session.Ref]bool, ok bool) {
	if s.state.lagging.Load() || s.deliverer.err != nil {
		return nil, false
	}
	refs = map[session.Ref]bool{}
	h := s.deliverer.handoff
	h.mu.Lock()
	for _, list := range [][]sample.Exchange{h.pending.exchanges, h.ready.exchanges, s.deliverer.undelivered.exchanges} {
		for i := range list {
			refs[sessionRef(&list[i])] = true
		}
	}
	h.mu.Unlock()
	s.inbox.mu.Lock()
	defer s.inbox.mu.Unlock()
	for i := range s.inbox.queue {
		refs[sessionRef(s.inbox.queue[i].Exchange)] = true
	}
	return refs, true
}
