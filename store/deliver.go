package store

import (
	"context"
	"errors"
	"time"

	"precept/sample"
	"precept/session"
)

const (
	syncEvery   = 5 * time.Second
	cursorEvery = time.Second
	epochEvery  = time.Second
	catchUp     = 150 * time.Millisecond // what a start may wait for what the last run left behind
	tailBytes   = 2 << 20                // of exchanges, beyond which the backend is not left alone any longer
	roomy       = 8 << 20                // a drained segment is left when it has grown so large
)

// delivery is how far the backend has what was put down.
type delivery struct {
	tail    parcel // put down, in memory, and not delivered
	lagging bool   // between books.At and from, it is in the spool alone
	from    place  // where tail begins, while lagging
	flushes int64
	// fromFlush is the flush that put down what stands before from.
	fromFlush int64

	books, safe ledger
	marks       []mark
	cursorAt    time.Time
	syncAt      time.Time
	deliverAt   time.Time
	epochAt     time.Time
	epoch       string

	synced, written, writtenSafe place // of the last sync and the last cursor
}

// mark is a ledger that the backend had synced at a time.
type mark struct {
	at     time.Time
	ledger ledger
}

// deliver hands what is due to the backend. What fails is tried again, whole: every step of it may be repeated.
func (s *Store) deliver(ctx context.Context, b *batch, now time.Time) error {
	if err := s.watchEpoch(ctx, b, now); err != nil {
		return err
	}
	for b.lagging && b.books.At.before(b.from) {
		if err := s.deliverBacklog(ctx, b, now); err != nil {
			return err
		}
		if s.opts.Now().Sub(now) > catchUp && !b.last {
			return nil
		}
	}
	if b.lagging {
		b.lagging = false
		s.delivered.Store(b.fromFlush)
	}
	due := b.last || !now.Before(b.deliverAt) || len(b.tail.exchanges) >= 4*flushAt || b.tail.held >= tailBytes
	if due && !b.tail.empty() {
		if err := s.hand(ctx, b, &b.tail); err != nil {
			s.makeRoom(b, err)
			return err
		}
		b.tail = parcel{}
		b.deliverAt = now.Add(s.opts.DeliverEvery)
	}
	return s.settleCursor(ctx, b, now)
}

// deliverBacklog reads the next stretch of the spool back, and hands it over.
func (s *Store) deliverBacklog(ctx context.Context, b *batch, now time.Time) error {
	p, head, err := replay(s.spool.dir, b.books.At, b.from)
	if err != nil {
		return err
	}
	if head != nil {
		b.books.lost(head.Admitted)
	}
	if err := s.hand(ctx, b, &p); err != nil {
		return err
	}
	return s.settleCursor(ctx, b, now)
}

// hand gives a parcel to the backend, and books it.
func (s *Store) hand(ctx context.Context, b *batch, p *parcel) error {
	if p.crashed {
		if stubs := b.books.stubs(); len(stubs) > 0 {
			if err := s.be.Write(ctx, session.Batch{Exchanges: stubs}); err != nil && !errors.Is(err, session.ErrInvalid) {
				return err
			}
			s.Tally.Incomplete.Add(int64(len(stubs)))
		}
	}
	err := s.write(ctx, p)
	if errors.Is(err, ErrVolatile) { // nobody else knows the sessions: they stay within reach
		s.Tally.DroppedReadOnly.Add(int64(len(p.exchanges)))
		s.heldBytes.Add(-p.held)
		s.delivered.Store(p.flush)
		s.healthy(false)
		return nil
	}
	if err != nil {
		return err
	}
	b.books.advance(p)
	s.handed(b, p)
	return nil
}

// write puts a parcel down in the backend: the sessions and what was said in them, then what the traffic said of them, then what waited for it.
func (s *Store) write(ctx context.Context, p *parcel) error {
	w := session.Batch{Rows: newestRows(p.rows), Echoes: p.echoes, Exchanges: p.exchanges}
	err := error(nil)
	if len(w.Rows)+len(w.Echoes)+len(w.Exchanges) > 0 {
		if err = s.be.Write(ctx, w); errors.Is(err, session.ErrInvalid) {
			err = s.sift(ctx, w)
		}
	}
	if err != nil {
		return &stepError{"write", err}
	}
	if err = s.tell(ctx, p.signals); err != nil {
		return &stepError{"implicit", err}
	}
	if err = s.unpark(ctx, p.echoes); err != nil {
		return &stepError{"unpark", err}
	}
	return nil
}

// stepError says which step failed.
type stepError struct {
	step string
	err  error
}

func (e *stepError) Error() string { return e.err.Error() }
func (e *stepError) Unwrap() error { return e.err }

// stepOf names the step that failed.
func stepOf(err error) string {
	if e, ok := errors.AsType[*stepError](err); ok {
		return e.step
	}
	return "spool"
}

// sift writes a batch in which something can never be stored: first what is no exchange, then every exchange by itself,
// and drops those that are refused. Better lose them than everything beside and behind them.
func (s *Store) sift(ctx context.Context, w session.Batch) error {
	err := s.be.Write(ctx, session.Batch{Rows: w.Rows, Echoes: w.Echoes})
	if errors.Is(err, session.ErrInvalid) {
		s.opts.Failed("write", err)
	} else if err != nil {
		return err
	}
	for i := range w.Exchanges {
		err := s.be.Write(ctx, session.Batch{Exchanges: w.Exchanges[i : i+1]})
		switch {
		case errors.Is(err, session.ErrInvalid):
			s.opts.Failed("write", err)
			w.Exchanges[i].Outcome = refused
		case err != nil:
			return err
		}
	}
	return nil
}

// refused marks an exchange that the backend can never take.
const refused = "refused"

// handed accounts for a parcel that the backend has.
func (s *Store) handed(b *batch, p *parcel) {
	for i := range p.exchanges {
		switch p.exchanges[i].Outcome {
		case refused:
			b.books.refuse()
			s.Tally.DroppedBad.Add(1)
			continue
		case sample.Complete:
		default:
			s.Tally.Incomplete.Add(1)
		}
		s.Tally.Exchanges.Add(1)
	}
	s.heldBytes.Add(-p.held)
	if p.flush > 0 {
		s.delivered.Store(p.flush)
	}
	s.healthy(true)
}

// makeRoom lets go of what the backend does not take and the spool holds anyway, before it crowds out what comes in.
func (s *Store) makeRoom(b *batch, err error) {
	if s.spool == nil || errors.Is(err, context.Canceled) || b.tail.held < s.opts.HoldBytes/4 && len(b.tail.rows) < 4*flushAt {
		return
	}
	s.heldBytes.Add(-b.tail.held)
	b.lagging, b.from, b.fromFlush, b.tail = true, b.tail.end, b.tail.flush, parcel{}
}

// watchEpoch looks whether the backend has lost what it had taken, and goes back to where it was safe.
func (s *Store) watchEpoch(ctx context.Context, b *batch, now time.Time) error {
	be, ok := s.be.(interface {
		Epoch(ctx context.Context) (string, error)
	})
	if !ok || s.spool == nil || now.Before(b.epochAt) {
		return nil
	}
	epoch, err := be.Epoch(ctx)
	if err != nil {
		return err
	}
	b.epochAt = now.Add(epochEvery)
	if b.epoch != "" && epoch != b.epoch {
		s.heldBytes.Add(-b.tail.held)
		b.books, b.marks = b.safe.clone(), nil
		b.lagging, b.from, b.fromFlush, b.tail = true, s.spool.end, b.flushes, parcel{}
	}
	b.epoch = epoch
	return nil
}

// settleCursor keeps how far delivery came, and lets go of what is safe.
func (s *Store) settleCursor(ctx context.Context, b *batch, now time.Time) error {
	if s.spool == nil {
		return nil
	}
	if !now.Before(b.syncAt) {
		b.syncAt = now.Add(syncEvery)
		if b.books.At != b.synced {
			if err := s.sync(ctx); err != nil {
				return err
			}
			b.synced = b.books.At
			b.marks = append(b.marks, mark{now, b.books.clone()})
		}
		for len(b.marks) > 0 && now.Sub(b.marks[0].at) >= safeAge {
			b.safe, b.marks = b.marks[0].ledger, b.marks[1:]
		}
		if b.books.At == s.spool.end && s.spool.end.Offset > roomy {
			s.spool.fresh = true
		}
		s.spool.fill()
	}
	if now.Before(b.cursorAt) && !b.last || b.books.At == b.written && b.safe.At == b.writtenSafe {
		return nil
	}
	return s.writeCursor(b, now)
}

// sync makes what the backend took survive a power cut, where it does not by itself.
func (s *Store) sync(ctx context.Context) error {
	if be, ok := s.be.(interface {
		Sync(ctx context.Context) error
	}); ok {
		return be.Sync(ctx)
	}
	return nil
}

func (s *Store) writeCursor(b *batch, now time.Time) error {
	if err := writeCursor(s.spool.dir, &b.books, &b.safe); err != nil {
		return s.spool.failed(err)
	}
	b.cursorAt, b.written, b.writtenSafe = now.Add(cursorEvery), b.books.At, b.safe.At
	return s.spool.release(b.safe.At)
}

// lag tells what still waits.
func (s *Store) lag(b *batch) {
	s.queueMu.Lock()
	n := int64(len(s.queue))
	s.queueMu.Unlock()
	n += int64(len(b.next.exchanges) + len(b.tail.exchanges))
	if s.spool != nil && b.lagging {
		n += max(s.spool.admitted-b.books.Admitted-int64(len(b.books.Open)), 0)
	}
	s.Tally.Pending.Store(n)
	s.lagging.Store(b.lagging)
}

// purge empties the spool's files of what is delivered: what was forgotten shall not stand there either.
func (s *Store) purge(b *batch) error {
	if s.spool == nil {
		return nil
	}
	s.spool.fresh = true
	if err := s.spool.rotate(); err != nil {
		return err
	}
	b.books.At = s.spool.end
	b.safe, b.marks = b.books.clone(), nil
	return s.writeCursor(b, s.opts.Now())
}

// shut ends the spool.
func (s *Store) shut(b *batch) error {
	if s.spool == nil {
		return nil
	}
	return errors.Join(writeCursor(s.spool.dir, &b.books, &b.safe), s.spool.close())
}
