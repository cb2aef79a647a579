package store

import (
	"context"
	"errors"
	"time"

	"precept/store/spool"
)

const (
	syncEvery   = 5 * time.Second
	cursorEvery = time.Second
)

// safeAge is how old a delivery to a server must be before the spool lets go of it: a server may
// lose what it acknowledged in its last seconds.
const safeAge = 15 * time.Second

// mark is a ledger that the backend had synced at a time.
type mark struct {
	at     time.Time
	ledger ledger
}

// secure finds out what of the delivered is safe, from time to time. When the disk is full it does
// so at once: the spool's place may be all that is missing.
func (s *Store) secure(ctx context.Context, b *batch, now time.Time) error {
	if s.spool == nil || !s.tidySpool(b, !now.Before(b.syncAt)) {
		return nil
	}
	b.syncAt = now.Add(syncEvery)
	age := time.Duration(0)
	if s.Shared() {
		age = safeAge
	}
	if b.books.At != b.synced {
		if err := s.be.Sync(ctx); err != nil {
			return err
		}
		b.synced = b.books.At
		b.marks = append(b.marks, mark{now, b.books.clone()})
	}
	for len(b.marks) > 0 && now.Sub(b.marks[0].at) >= age {
		b.safe, b.marks = b.marks[0].ledger, b.marks[1:]
	}
	return nil
}

// tidySpool leaves a segment behind that has grown large, or that holds what shall not stay, when
// all of it is delivered. It says whether it is time to secure what was delivered.
func (s *Store) tidySpool(b *batch, due bool) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !due && !b.full {
		return false
	}
	end, _ := s.spool.End()
	drained := !b.lagging && b.ready.empty() && b.tail.empty() && b.books.At == end
	switch {
	case drained && (b.scrub || b.full || s.spool.Grown()):
		if at, err := s.spool.Leave(); err == nil {
			b.books.At, b.scrub = at, false
		}
	case b.scrub:
		s.spool.Rotate() // of what comes now, nothing stands beside it
	}
	if b.full {
		b.full, b.cursorAt = false, time.Time{}
	}
	return true
}

// keepCursor keeps how far delivery came, and lets go of what is safe.
func (s *Store) keepCursor(b *batch, now time.Time) error {
	if s.spool == nil || now.Before(b.cursorAt) && !b.last {
		return nil
	}
	b.mu.Lock()
	c, err := checkpoint(b)
	b.mu.Unlock()
	if err == nil {
		err = s.spool.Keep(c)
	}
	if err == nil {
		b.cursorAt, b.safeAt = now.Add(cursorEvery), c.Safe.At
	}
	return err
}

// checkpoint is that of this moment. The caller has mu.
func checkpoint(b *batch) (c spool.Checkpoint, err error) {
	c.Epoch = b.epoch
	if c.Delivered, err = b.books.ack(); err == nil {
		c.Safe, err = b.safe.ack()
	}
	return c, err
}

// purge empties the spool's files: what was forgotten shall not stand there either. What was put
// down meanwhile is delivered first, while nothing else is put down.
func (s *Store) purge(ctx context.Context, b *batch) error {
	if s.spool == nil {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.lagging {
		return errBacklog
	}
	b.tail.merge(&b.ready)
	b.ready = parcel{}
	if !b.tail.empty() {
		if err := s.hand(ctx, b, &b.tail); err != nil {
			return err
		}
		b.tail = parcel{}
	}
	if err := s.be.Sync(ctx); err != nil {
		return err
	}
	at, err := s.spool.Leave()
	if err != nil {
		return err
	}
	b.books.At, b.scrub = at, false
	b.books.Open = forgetStubs(b.books.Open, s.erased.isErased)
	b.safe, b.marks = b.books.clone(), nil
	c, err := checkpoint(b)
	if err == nil {
		err = s.spool.Keep(c)
	}
	if err == nil {
		err = s.spool.DropAside()
	}
	return err
}

// errBacklog says that something of an earlier time is still on its way to the backend.
var errBacklog = errors.New("a backlog is being written")

// shut ends the spool.
func (s *Store) shut(b *batch) error {
	if s.spool == nil {
		return nil
	}
	c, err := checkpoint(b)
	if err == nil {
		err = s.spool.Keep(c)
	}
	return errors.Join(err, s.spool.Close())
}
