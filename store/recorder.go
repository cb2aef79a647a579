package store

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"precept/detect"
	"precept/sample"
	"precept/session"
	"precept/store/sqlite"
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
	Exchange *sample.Exchange // nil: nothing of this turn is kept
	Size     int64            // bytes the exchange holds in memory
	Signals  []detect.Signal  // what the new part says of the session
	Answered []string         // arguments of the calls that the new tool results answer, for the opt-out by path
}

// Offer hands a turn over. It never blocks: a full queue, or too many bytes in waiting, drops the turn, counted.
func (s *Store) Offer(t Turn) bool {
	if s.heldBytes.Load()+t.Size > s.opts.HoldBytes {
		s.Tally.DroppedFull.Add(1)
		return false
	}
	s.heldBytes.Add(t.Size)
	select {
	case s.turns <- t:
		s.Tally.Pending.Add(1)
		return true
	default:
		s.heldBytes.Add(-t.Size)
		s.Tally.DroppedFull.Add(1)
		return false
	}
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
		case t := <-s.turns:
			s.admit(b, t)
			if len(b.exchanges) >= flushAt {
				s.flush(ctx, b)
			}
		case <-flush.C:
			s.flush(ctx, b)
			s.resettle(ctx)
			s.live.sweep(shard, s.opts.Now())
			shard++
		case <-closing.C:
			s.flush(ctx, b)
			s.closeDue(ctx)
		}
	}
}

// drain empties the queue and writes what is left, with one bounded attempt.
func (s *Store) drain(b *batch) error {
	ctx, cancel := context.WithTimeout(context.Background(), writeLimit)
	defer cancel()
	for {
		select {
		case t := <-s.turns:
			s.admit(b, t)
			continue
		default:
		}
		break
	}
	b.retryAt, b.last = time.Time{}, true
	s.flush(ctx, b)
	s.resettle(ctx)
	return b.err
}

// batch is what the next write takes along; after a failed write it is tried again, grown.
type batch struct {
	exchanges []sample.Exchange
	signals   []signal       // what they say of their sessions
	landed    []session.Echo // written, but what waited for them could not be joined yet
	held      int64
	err       error // of the last attempt
	retryAt   time.Time
	last      bool // the program stops: nothing waits any longer
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
	if s.optedOut(x, t.Answered) {
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

// flush writes the batch, with the sessions that changed and what went by, in one transaction.
func (s *Store) flush(ctx context.Context, b *batch) {
	now := s.opts.Now()
	if now.Before(b.retryAt) {
		return
	}
	dirty, echoes := s.takeDirty(now, ctx.Err() != nil || b.last)
	// A stop must not tear a write that is under way: it is bounded by itself.
	wctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeLimit)
	defer cancel()
	if len(dirty)+len(echoes)+len(b.exchanges) == 0 {
		b.err = nil
		s.follow(wctx, b, now)
		return
	}
	w := session.Batch{Echoes: echoes, Exchanges: b.exchanges}
	for _, ses := range dirty {
		ses.dirty.Store(false)
		if row, ok := s.encode(ses); ok {
			w.Rows = append(w.Rows, row)
		}
	}
	b.err = s.be.Write(wctx, w)
	switch {
	case errors.Is(b.err, sqlite.ErrInvalid): // it would never be taken: better lose this than everything behind it
		s.opts.Failed("write", b.err)
		s.drop(b, &s.Tally.DroppedBad)
		return
	case errors.Is(b.err, ErrVolatile):
		s.healthy(false)
		s.drop(b, &s.Tally.DroppedReadOnly)
		return
	}
	if b.err != nil {
		s.putBack(b, dirty, echoes, now)
		return
	}
	s.healthy(true)
	for _, ses := range dirty {
		ses.known.Store(true)
	}
	s.written(b)
	if len(b.landed) < maxEchoes {
		b.landed = append(b.landed, echoes...)
	}
	s.follow(wctx, b, now)
}

// follow does what comes after a write; what of it fails is kept for the next time.
func (s *Store) follow(ctx context.Context, b *batch, now time.Time) {
	b.signals, b.landed = s.tell(ctx, b.signals), s.unpark(ctx, b.landed)
	if len(b.signals)+len(b.landed) > 0 {
		b.retryAt = now.Add(time.Second)
	}
}

// takeDirty takes what is to be written: sessions in which something was decided at once, the others every second.
func (s *Store) takeDirty(now time.Time, all bool) ([]*Session, []session.Echo) {
	s.dirtyMu.Lock()
	defer s.dirtyMu.Unlock()
	dirty, echoes := s.dirty, s.echoes
	s.dirty, s.echoes = nil, nil
	if all || now.Sub(s.laterAt) >= laterEvery {
		for _, ses := range s.later {
			if ses.later.Swap(false) && ses.dirty.CompareAndSwap(false, true) {
				dirty = append(dirty, ses)
			}
		}
		s.later, s.laterAt = nil, now
	}
	return dirty, echoes
}

// putBack keeps what a failed write held, and lets the store breathe before the next attempt.
func (s *Store) putBack(b *batch, dirty []*Session, echoes []session.Echo, now time.Time) {
	s.Tally.WriteErrors.Add(1)
	s.healthy(false)
	s.opts.Failed("write", b.err)
	b.retryAt = now.Add(time.Second)
	s.dirtyMu.Lock()
	for _, ses := range dirty {
		if ses.dirty.CompareAndSwap(false, true) {
			s.dirty = append(s.dirty, ses)
		}
	}
	if len(s.echoes)+len(echoes) < maxEchoes {
		s.echoes = append(s.echoes, echoes...)
	}
	s.dirtyMu.Unlock()
}

// written accounts for a batch that is in the store.
func (s *Store) written(b *batch) {
	for i := range b.exchanges {
		if b.exchanges[i].Outcome != sample.Complete {
			s.Tally.Incomplete.Add(1)
		}
	}
	n := int64(len(b.exchanges))
	s.Tally.Exchanges.Add(n)
	s.Tally.Pending.Add(-n)
	s.heldBytes.Add(-b.held)
	*b = batch{exchanges: b.exchanges[:0], signals: b.signals, landed: b.landed}
}

// drop accounts for a batch that is given up.
func (s *Store) drop(b *batch, reason *atomic.Int64) {
	n := int64(len(b.exchanges))
	reason.Add(n)
	s.Tally.Pending.Add(-n)
	s.heldBytes.Add(-b.held)
	*b = batch{}
}
