package store

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"precept/sample"
	"precept/session"
	"precept/store/sqlite"
)

// batch is what the next write takes along; after a failed write it is tried again, grown.
type batch struct {
	spare     []Turn // the list that the queue swaps with
	exchanges []sample.Exchange
	signals   []signal       // what they say of their sessions
	landed    []session.Echo // written, but what waited for them could not be joined yet
	held      int64
	err       error // of the last attempt
	retryAt   time.Time
	last      bool // the program stops: nothing waits any longer
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
	if errors.Is(b.err, sqlite.ErrInvalid) {
		b.err = s.sift(wctx, b, w)
	}
	switch {
	case errors.Is(b.err, ErrVolatile):
		s.healthy(false)
		rest(dirty) // nobody else knows them: they stay within reach
		s.drop(b, &s.Tally.DroppedReadOnly)
		return
	case b.err != nil:
		s.putBack(b, dirty, echoes, now)
		return
	}
	s.healthy(true)
	rest(dirty)
	s.written(b)
	if len(b.landed) < maxEchoes {
		b.landed = append(b.landed, echoes...)
	}
	s.follow(wctx, b, now)
}

// rest says that the sessions may rest when they are idle.
func rest(written []*Session) {
	for _, ses := range written {
		ses.known.Store(true)
	}
}

// sift writes a batch in which something can never be stored: first what is no exchange, then every exchange by itself,
// and drops those that are refused. Better lose them than everything beside and behind them.
func (s *Store) sift(ctx context.Context, b *batch, w session.Batch) error {
	err := s.be.Write(ctx, session.Batch{Rows: w.Rows, Echoes: w.Echoes})
	if errors.Is(err, sqlite.ErrInvalid) {
		s.opts.Failed("write", err)
	} else if err != nil {
		return err
	}
	kept := make([]sample.Exchange, 0, len(b.exchanges))
	for i := range b.exchanges {
		err := s.be.Write(ctx, session.Batch{Exchanges: b.exchanges[i : i+1]})
		switch {
		case errors.Is(err, sqlite.ErrInvalid):
			s.opts.Failed("write", err)
			s.Tally.DroppedBad.Add(1)
			s.Tally.Pending.Add(-1)
		case err != nil:
			b.exchanges = append(kept, b.exchanges[i:]...)
			return err
		default:
			kept = append(kept, b.exchanges[i])
		}
	}
	b.exchanges = kept
	return nil
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
	*b = batch{exchanges: b.exchanges[:0], signals: b.signals, landed: b.landed, spare: b.spare}
}

// drop accounts for a batch that is given up.
func (s *Store) drop(b *batch, reason *atomic.Int64) {
	n := int64(len(b.exchanges))
	reason.Add(n)
	s.Tally.Pending.Add(-n)
	s.heldBytes.Add(-b.held)
	*b = batch{spare: b.spare}
}
