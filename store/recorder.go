package store

import (
	"context"
	"time"

	"precept/detect"
	"precept/sample"
	"precept/session"
)

const (
	flushEvery = 50 * time.Millisecond
	laterEvery = time.Second
	flushAt    = 500 // exchanges
	queueLen   = 8192
	writeLimit = 10 * time.Second // one attempt to write a batch
)

// Turn is what the proxy hands over when a request is over. The recorder owns it from then on.
type Turn struct {
	Exchange *sample.Exchange
	Size     int64           // bytes the exchange holds in memory
	Signals  []detect.Signal // what the new part says of the session
	Answered []string        // arguments of the calls that the new tool results answer, for the opt-out by path
}

// Offer hands a turn over. It never blocks: a full queue, or too many bytes in waiting, drops the turn, counted.
func (s *Store) Offer(t Turn) bool {
	if s.heldBytes.Load()+t.Size > s.opts.HoldBytes {
		s.Tally.DroppedFull.Add(1)
		return false
	}
	s.queueMu.Lock()
	n := len(s.queue) + 1
	if n <= queueLen {
		s.queue = append(s.queue, t)
		s.heldBytes.Add(t.Size)
		s.Tally.Pending.Add(1)
	}
	s.queueMu.Unlock()
	switch {
	case n > queueLen:
		s.Tally.DroppedFull.Add(1)
		return false
	case n >= flushAt:
		select {
		case s.full <- struct{}{}:
		default: // the recorder knows
		}
	}
	return true
}

// take admits what was offered. Turns wait in a list, not in a channel: a recorder that is woken for each of them costs the
// request more than the offer itself.
func (s *Store) take(b *batch) {
	s.queueMu.Lock()
	turns := s.queue
	s.queue = b.spare[:0]
	s.queueMu.Unlock()
	for i := range turns {
		s.admit(b, turns[i])
		turns[i] = Turn{}
	}
	b.spare = turns
}

// Change says what a turn did to a session's record.
type Change uint8

// The changes.
const (
	Unchanged Change = iota
	Counted          // turns, times: a crash may take back the last second of it
	Decided          // coins were flipped or text was inserted: to be written with the next batch
)

// Release gives a session back after its turn.
func (s *Store) Release(ses *Session, c Change) {
	s.dirtyMu.Lock()
	if ses.gone.Load() {
		c = Unchanged
	}
	if c == Decided && ses.dirty.CompareAndSwap(false, true) {
		s.dirty = append(s.dirty, ses)
	} else if c == Counted && !ses.dirty.Load() && ses.later.CompareAndSwap(false, true) {
		s.later = append(s.later, ses)
	}
	s.dirtyMu.Unlock()
	ses.pins.Add(-1)
}

// Note keeps what went by, to be found again by feedback at once, and after a restart or by another replica.
func (s *Store) Note(echoes ...session.Echo) {
	s.dirtyMu.Lock()
	defer s.dirtyMu.Unlock()
	if len(s.echoes) < maxEchoes {
		s.echoes = append(s.echoes, echoes...)
	}
}

// maxEchoes bounds what waits for a store that does not write; what is beyond it is recognised by this process alone.
const maxEchoes = 200_000

// Run is the recorder. It returns when ctx is done and everything in memory is written, or could not be.
func (s *Store) Run(ctx context.Context) error {
	flush := time.NewTicker(flushEvery)
	defer flush.Stop()
	closing := time.NewTicker(s.closeTick())
	defer closing.Stop()
	b := &batch{}
	shard := 0
	for {
		select {
		case <-ctx.Done():
			return s.drain(b) //nolint:contextcheck // the context has ended; the drain is bounded by itself
		case c := <-s.erased.chores:
			s.do(ctx, b, c)
		case <-s.full:
			s.take(b)
			s.flush(ctx, b)
		case <-flush.C:
			s.take(b)
			s.flush(ctx, b)
			s.resettle(ctx)
			s.live.sweep(shard, s.opts.Now())
			shard++
		case <-closing.C:
			s.take(b)
			s.flush(ctx, b)
			s.closeDue(ctx)
			s.retain(ctx)
		}
	}
}

// drain empties the queue and writes what is left, with one bounded attempt.
func (s *Store) drain(b *batch) error {
	ctx, cancel := context.WithTimeout(context.Background(), writeLimit)
	defer cancel()
	s.take(b)
	b.retryAt, b.last = time.Time{}, true
	s.flush(ctx, b)
	s.resettle(ctx)
	return b.err
}

// admit redacts a turn's exchange and puts it into the batch. Nothing unredacted leaves this function.
func (s *Store) admit(b *batch, t Turn) {
	defer func() {
		if r := recover(); r != nil {
			s.Tally.DroppedBad.Add(1)
			s.Tally.Pending.Add(-1)
			s.heldBytes.Add(-t.Size)
			s.opts.Panicked("record", r)
		}
	}()
	x := t.Exchange
	if s.erased.isErased(x.Tenant, x.Session, x.At) || s.optedOut(x, t.Answered) {
		s.Tally.OptedOut.Add(1)
		s.Tally.Pending.Add(-1)
		s.heldBytes.Add(-t.Size)
		return
	}
	s.redact(x)
	b.signals = append(b.signals, s.implicit(x, t.Signals)...)
	b.exchanges = append(b.exchanges, *x)
	b.held += t.Size
}
