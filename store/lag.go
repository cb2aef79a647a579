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

// SpoolBytes is what the spool takes on the disk; 0 without one.
func (s *Store) SpoolBytes() int64 { return s.state.spooled.Load() }

// look notes how much still waits, and since when. Of what is in the spool alone it is the time at
// which that began. Call it in Still.
func (s *Store) look() {
	j, d := s.journal, s.delivery
	j.mu.Lock()
	defer j.mu.Unlock()
	n, behind := int64(len(j.next.exchanges)+j.passing), false
	if j.spool != nil {
		s.state.spooled.Store(j.spool.Bytes())
		behind = j.lagging
	}
	if behind {
		_, seq := j.spool.End()
		n += max(seq-d.delivered.Admitted-int64(len(d.delivered.Open)), 0)
		s.state.since.CompareAndSwap(0, s.opts.Now().UnixMicro())
	} else {
		n += int64(len(j.ready.exchanges) + len(d.tail.exchanges))
		s.state.since.Store(endOfFirst(d.tail.exchanges, j.ready.exchanges, j.next.exchanges))
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
	n := len(s.journal.next.exchanges)
	if s.journal.spool == nil {
		n += len(s.journal.ready.exchanges) + len(s.delivery.tail.exchanges)
	}
	return n
}

// Undelivered are the sessions of which something is on its way to the backend: they close when it
// is there. ok is false while that cannot be told: something stands in the spool alone, or the
// backend does not take it. Call it in Still.
func (s *Store) Undelivered() (out map[session.Ref]bool, ok bool) {
	if s.state.lagging.Load() || s.delivery.err != nil {
		return nil, false
	}
	out = map[session.Ref]bool{}
	s.journal.mu.Lock()
	for _, list := range [][]sample.Exchange{s.journal.next.exchanges, s.journal.ready.exchanges, s.delivery.tail.exchanges} {
		for i := range list {
			out[refOf(&list[i])] = true
		}
	}
	s.journal.mu.Unlock()
	s.inbox.mu.Lock()
	defer s.inbox.mu.Unlock()
	for i := range s.inbox.queue {
		out[refOf(s.inbox.queue[i].Exchange)] = true
	}
	return out, true
}
