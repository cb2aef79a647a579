package store

import (
	"time"

	"precept/internal/sample"
	"precept/internal/session"
)

// Lag is how long the oldest exchange that the backend does not have yet has been over; 0: nothing
// waits.
func (s *Store) Lag() time.Duration {
	since := s.state.since.Load()
	if since == 0 {
		return 0
	}
	return max(0, s.opts.Now().Sub(time.UnixMicro(since)))
}

// OutboxBytes is what the rows of the outbox take on the disk; 0 without an outbox.
func (s *Store) OutboxBytes() int64 { return s.state.bytes.Load() }

// look notes how much still waits, and since when. Of what is in the outbox alone it is the time at
// which that began. Call it in Still.
func (s *Store) look() {
	h, d := s.handoff, s.shipper
	h.mu.Lock()
	defer h.mu.Unlock()
	n := int64(len(h.next.exchanges) + h.passing)
	if h.outbox == nil {
		n += int64(len(h.ready.exchanges) + len(d.tail.exchanges))
	} else {
		s.state.bytes.Store(h.outbox.Bytes())
		n += h.outbox.Spooled()
	}
	if h.reached < h.from {
		s.state.since.CompareAndSwap(0, s.opts.Now().UnixMicro())
	} else {
		s.state.since.Store(endOfFirst(d.tail.exchanges, h.ready.exchanges, h.next.exchanges))
	}
	s.inbox.mu.Lock()
	defer s.inbox.mu.Unlock()
	s.Tally.Pending.Store(n + int64(len(s.inbox.queue)))
}

// endOfFirst is when the first exchange of the lists was over, in microseconds since 1970; 0: there
// is none.
func endOfFirst(lists ...[]sample.Exchange) int64 {
	for _, list := range lists {
		if len(list) > 0 {
			over := list[0].At.Add(time.Duration(list[0].LatencyMS * float64(time.Millisecond)))
			return max(over.UnixMicro(), 1)
		}
	}
	return 0
}

// unwritten counts the exchanges that stand in memory alone.
func (s *Store) unwritten() int {
	n := len(s.handoff.next.exchanges)
	if s.handoff.outbox == nil {
		n += len(s.handoff.ready.exchanges) + len(s.shipper.tail.exchanges)
	}
	return n
}

// Undelivered are the sessions of which something is on its way to the backend: they close when it
// is there. ok is false while that cannot be told: something stands in the outbox alone, or the
// backend does not take it. Call it in Still.
func (s *Store) Undelivered() (out map[session.Ref]bool, ok bool) {
	if s.state.lagging.Load() || s.shipper.err != nil {
		return nil, false
	}
	out = map[session.Ref]bool{}
	s.handoff.mu.Lock()
	for _, list := range [][]sample.Exchange{s.handoff.next.exchanges, s.handoff.ready.exchanges, s.shipper.tail.exchanges} {
		for i := range list {
			out[refOf(&list[i])] = true
		}
	}
	s.handoff.mu.Unlock()
	s.inbox.mu.Lock()
	defer s.inbox.mu.Unlock()
	for i := range s.inbox.queue {
		out[refOf(s.inbox.queue[i].Exchange)] = true
	}
	return out, true
}
