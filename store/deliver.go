package store

import (
	"context"
	"errors"
	"sync"
	"time"

	"precept/session"
	"precept/store/spool"
)

const (
	epochEvery = time.Second
	retryAfter = time.Second
	startLimit = 20 * time.Millisecond  // what a start may wait for what the last run left behind
	roundLimit = 150 * time.Millisecond // of reading back, before the delivery looks after other things
	stopLimit  = 3 * time.Second        // what a stop may wait for a backlog: it lies in the spool
	tailBytes  = 2 << 20                // of exchanges, beyond which the backend is not left alone any longer
	manyRows   = 10 * flushAt           // sessions in waiting
)

// delivery is how far the backend has what was put down. It belongs to whoever has handing: one at
// a time hands over, forgets or closes.
type delivery struct {
	handing sync.Mutex

	tail        parcel // taken up, and not delivered
	books, safe ledger
	marks       []mark
	epoch       string

	err       error     // of the last attempt
	retryAt   time.Time // after a failed one
	deliverAt time.Time
	epochAt   time.Time
	syncAt    time.Time
	cursorAt  time.Time

	synced spool.Place // of the last sync
	safeAt spool.Place // of the last checkpoint

	erasuresAt time.Time
	erased     string   // the last announcement of another replica that was followed
	announced  []string // our own
	purge      bool     // the spool holds what was forgotten elsewhere

	started  bool // Open has returned
	volatile bool // the backend keeps nothing
	last     bool // the program stops: nothing waits any longer
}

// flush puts what is new into the spool, and hands what is due to the backend.
func (s *Store) flush(ctx context.Context, b *batch) {
	now := s.opts.Now()
	s.spoolUp(b, now, ctx.Err() != nil || b.last)
	s.handDown(ctx, b, now)
}

// handDown hands what is due to the backend. A failure of it leaves the spool alone: what is new is
// put down meanwhile.
func (s *Store) handDown(ctx context.Context, b *batch, now time.Time) {
	defer s.lag(b)
	s.blankOut(b)
	if now.Before(b.retryAt) {
		return
	}
	// A stop must not tear a write that is under way: it is bounded by itself.
	wctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeLimit)
	defer cancel()
	b.err = s.guard.Err("deliver", func() error {
		if err := s.deliver(wctx, b, now); err != nil || b.last {
			return err
		}
		return s.passBy(wctx, b)
	})
	s.giveWay(b, now)
	if failed := b.err; b.started { // a start does not wait for the disk
		b.err = s.guard.Err("secure", func() error { return s.keep(wctx, b, now, failed) })
	}
	if b.err != nil && !errors.Is(b.err, ErrVolatile) {
		s.failedTo(b.err)
		b.retryAt = now.Add(retryAfter)
	}
}

// giveWay leaves what room there is on a full disk to the backend: what it takes can leave the
// spool, and nothing else makes more. Meanwhile what comes waits in memory, within its bound.
func (s *Store) giveWay(b *batch, now time.Time) {
	if s.spool == nil || !errors.Is(b.err, session.ErrDiskFull) {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.full, b.putAt = true, now.Add(2*retryAfter)
	s.spool.DropBallast()
}

// keep secures what was delivered, and keeps how far that came, whatever failed before.
func (s *Store) keep(ctx context.Context, b *batch, now time.Time, failed error) error {
	tight := s.spool != nil && errors.Is(failed, session.ErrDiskFull)
	if failed == nil || tight {
		failed = errors.Join(failed, s.secure(ctx, b, now))
	}
	if failed != nil {
		s.healthy(false)
	} else if b.tail.empty() && !b.volatile { // also after an outage in which nothing came
		s.healthy(true)
	}
	if err := s.keepCursor(b, now); failed == nil {
		failed = err
	}
	if tight {
		s.spool.Hollow(b.safeAt)
	}
	return failed
}

// deliver hands over what is due. What fails is tried again, whole: every step of it may be
// repeated.
func (s *Store) deliver(ctx context.Context, b *batch, now time.Time) error {
	if err := s.watchEpoch(ctx, b, now); err != nil {
		return err
	}
	if err := s.watchErasures(ctx, b, now); err != nil {
		return err
	}
	if done, err := s.catchUp(ctx, b, now); err != nil || !done {
		return err
	}
	if err := s.purgeDue(ctx, b); err != nil {
		return err
	}
	s.mergeReady(b)
	due := b.last || !now.Before(b.deliverAt) || len(b.tail.exchanges) >= 4*flushAt || b.tail.held >= tailBytes
	if !due || b.tail.empty() {
		return nil
	}
	if err := s.hand(ctx, b, &b.tail); err != nil {
		s.makeRoom(b, err)
		return err
	}
	b.tail = parcel{}
	b.deliverAt = now.Add(s.opts.DeliverEvery)
	return nil
}

// mergeReady takes what is put down from the goroutine that does it.
func (s *Store) mergeReady(b *batch) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.ready.empty() {
		b.tail.merge(&b.ready)
		b.ready = parcel{}
	}
}

// catchUp hands over what is in the spool alone, for as long as this may take. It says whether
// nothing is left of it.
func (s *Store) catchUp(ctx context.Context, b *batch, now time.Time) (done bool, err error) {
	limit, most := roundLimit, replayBytes
	switch {
	case b.last:
		limit = stopLimit
	case !b.started:
		limit, most = startLimit, startBytes
	}
	for {
		from, lagging := s.backlog(b)
		if !lagging {
			return true, nil
		}
		if s.opts.Now().Sub(now) > limit {
			return false, nil
		}
		s.heldBytes.Add(-b.tail.held) // it is read back with the rest
		b.tail = parcel{}
		r := reader{from: s.spool.Reader(), most: most, guard: s.guard}
		p, err := r.next(b.books.At, from)
		if err != nil {
			return false, err
		}
		s.scrubFor(b, &p)
		if err := s.hand(ctx, b, &p); err != nil {
			return false, err
		}
	}
}

// backlog says up to where what is put down must be read back, if it must.
func (s *Store) backlog(b *batch) (from spool.Place, lagging bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.lagging && !b.books.At.Before(b.from) {
		b.lagging = false
		s.lagging.Store(false)
		s.blind.Store(false)
		s.delivered.Store(b.fromFlush)
	}
	return b.from, b.lagging
}

// makeRoom lets go of what the backend does not take and the spool holds anyway, before it crowds
// out what comes in.
func (s *Store) makeRoom(b *batch, err error) {
	switch {
	case s.spool == nil:
		b.tail.rows = newestRows(b.tail.rows)
		b.tail.echoes = b.tail.echoes[max(0, len(b.tail.echoes)-maxEchoes):]
	case errors.Is(err, context.Canceled), b.tail.held < s.opts.HoldBytes/4 && len(b.tail.rows) < manyRows:
	default:
		b.mu.Lock()
		defer b.mu.Unlock()
		if !b.lagging {
			b.tail.merge(&b.ready)
			b.ready, b.tail = b.tail, parcel{}
			s.leave(b)
		}
	}
}

// watchEpoch looks whether the backend has lost what it had taken, and goes back to where it was
// safe.
func (s *Store) watchEpoch(ctx context.Context, b *batch, now time.Time) error {
	be := s.opts.Fleet
	if be == nil || s.spool == nil || now.Before(b.epochAt) {
		return nil
	}
	epoch, err := be.Epoch(ctx)
	if err != nil {
		return err
	}
	b.epochAt = now.Add(epochEvery)
	if b.epoch != "" && epoch != b.epoch {
		b.mu.Lock()
		s.heldBytes.Add(-b.tail.held - b.ready.held)
		b.books, b.marks, b.synced, b.tail, b.ready = b.safe.clone(), nil, spool.Place{}, parcel{}, parcel{}
		b.from, _ = s.spool.End()
		b.lagging, b.fromFlush = true, b.flushes
		s.lagging.Store(true)
		s.blind.Store(true)
		b.mu.Unlock()
	}
	b.epoch = epoch
	return nil
}

// lag tells what still waits.
func (s *Store) lag(b *batch) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s.oldest(b, s.opts.Now())
	n := int64(len(b.next.exchanges) + b.passing)
	if s.spool != nil && b.lagging {
		_, seq := s.spool.End()
		n += max(seq-b.books.Admitted-int64(len(b.books.Open)), 0)
	} else {
		n += int64(len(b.ready.exchanges) + len(b.tail.exchanges))
	}
	s.queueMu.Lock()
	defer s.queueMu.Unlock()
	s.Tally.Pending.Store(n + int64(len(s.queue)))
}
