package store

import (
	"sync/atomic"
	"time"

	"precept/detect"
	"precept/sample"
	"precept/session"
	"precept/store/spool"
)

const (
	flushEvery = 50 * time.Millisecond
	laterEvery = time.Second
	tidyEvery  = time.Second // how often it is asked whether something is too old
	flushAt    = 500         // exchanges
	queueLen   = 8192
	writeLimit = 10 * time.Second // one attempt to write a batch
)

// Turn is what the proxy hands over when a request is over. The recorder owns it from then on.
type Turn struct {
	Exchange *sample.Exchange
	Begun    *Begun          // what Begin returned for it, nil where it was not called
	Size     int64           // bytes the exchange holds in memory
	Signals  []detect.Signal // what the new part says of the session
	Answered []string        // arguments of the calls that the new tool results answer, for the opt-out by path
}

// Begun is a turn that is under way. If the program dies before it ends, a stub of its exchange
// tells that it was there.
type Begun struct {
	x    *sample.Exchange
	put  bool        // in the spool; the recorder's, as what follows
	at   spool.Place // where
	over atomic.Bool // offered, or given up
}

// Begin admits a turn when its request goes out. Of the exchange, what identifies it and what was
// decided must be set, and not be changed any more; the rest may be filled in until it is offered.
// It never blocks.
func (s *Store) Begin(x *sample.Exchange) *Begun {
	if s.spool == nil {
		return nil
	}
	b := &Begun{x: x}
	s.queueMu.Lock()
	s.open = append(s.open, b)
	s.queueMu.Unlock()
	return b
}

// Abandon ends a turn that was begun and is not offered: something went wrong on the way.
func (s *Store) Abandon(b *Begun) {
	if b != nil && !b.over.Load() {
		s.Tally.DroppedBad.Add(1)
		s.giveUp(b, droppedBad)
	}
}

// giveUp books a turn of which nothing is kept.
func (s *Store) giveUp(b *Begun, reason string) {
	s.queueMu.Lock()
	defer s.queueMu.Unlock()
	s.lost = append(s.lost, lost{b, reason})
	b.end()
}

// end marks a turn that is over. It must be marked when its end can be seen in the queue, or the
// recorder would book a beginning behind the end.
func (b *Begun) end() {
	if b != nil {
		b.over.Store(true)
	}
}

// lost is a turn that was given up.
type lost struct {
	begun  *Begun
	reason string
}

// Offer hands a turn over. It never blocks: a full queue, or too many bytes in waiting, drops the
// turn, counted.
func (s *Store) Offer(t Turn) bool {
	if s.heldBytes.Load()+t.Size > s.opts.HoldBytes {
		s.Tally.DroppedFull.Add(1)
		s.giveUp(t.Begun, droppedFull)
		return false
	}
	s.queueMu.Lock()
	n := len(s.queue) + 1
	if n <= queueLen {
		s.queue = append(s.queue, t)
		s.heldBytes.Add(t.Size)
		s.Tally.Pending.Add(1)
		t.Begun.end()
	}
	s.queueMu.Unlock()
	if n > queueLen {
		s.Tally.DroppedFull.Add(1)
		s.giveUp(t.Begun, droppedFull)
		return false
	}
	if n >= flushAt {
		select {
		case s.full <- struct{}{}:
		default: // the recorder knows
		}
	}
	return true
}

// admitQueued admits what was offered. Turns wait in a list, not in a channel: a recorder that is
// woken for each of them costs the request more than the offer itself.
func (s *Store) admitQueued(b *batch) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s.queueMu.Lock()
	turns, gone, open := s.queue, s.lost, s.open
	s.queue, s.lost, s.open = b.spare[:0], nil, b.openSpare[:0]
	s.queueMu.Unlock()
	for i := range turns {
		s.admit(b, turns[i])
		turns[i] = Turn{}
	}
	b.spare = turns
	for _, l := range gone {
		b.next.over(l.begun, l.reason)
	}
	for _, t := range open {
		if !t.over.Load() {
			b.open = append(b.open, t)
		}
	}
	clear(open)
	b.openSpare = open
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

// Note keeps what went by, to be found again by feedback at once, and after a restart or by another
// replica.
func (s *Store) Note(echoes ...session.Echo) {
	s.dirtyMu.Lock()
	defer s.dirtyMu.Unlock()
	if len(s.echoes) < maxEchoes {
		s.echoes = append(s.echoes, echoes...)
	}
}

// maxEchoes bounds what waits for a store that does not write; what is beyond it is recognised by
// this process alone.
const maxEchoes = 200_000

// admit redacts a turn's exchange and puts it into the next parcel. Nothing unredacted leaves this
// function.
func (s *Store) admit(b *batch, t Turn) {
	gone := func(reason string) {
		s.Tally.Pending.Add(-1)
		s.heldBytes.Add(-t.Size)
		b.next.over(t.Begun, reason)
		if reason == droppedOptOut && t.Begun != nil && t.Begun.put {
			b.blank = append(b.blank, t.Begun) // nor its beginning
		}
	}
	defer func() {
		if r := recover(); r != nil {
			s.Tally.DroppedBad.Add(1)
			gone(droppedBad)
			at := AtRequest{Value: r}
			if x := t.Exchange; x != nil {
				at.Request = x.RequestID
				s.guard.SetAside("record", refOf(x), x.ID, r)
			}
			s.opts.Panicked("record", at)
		}
	}()
	x := t.Exchange
	s.guard.Before("record", refOf(x).ID, x.ID)
	if s.erased.isErased(x.Tenant, x.Session, x.At) || s.optedOut(x, t.Answered) {
		s.Tally.OptedOut.Add(1)
		gone(droppedOptOut)
		return
	}
	s.redact(s.redactor, x)
	x.Seal() // once, for the spool and the backend: here, because what panics in it costs this exchange
	signals := s.implicit(x, t.Signals)
	b.next.signals = append(b.next.signals, signals...)
	b.next.exchanges = append(b.next.exchanges, *x)
	b.next.held += t.Size
	if t.Begun != nil && t.Begun.put {
		b.next.ended = append(b.next.ended, x.ID)
	} else {
		b.next.admitted++
	}
}
