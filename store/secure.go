package store

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"
)

const (
	syncEvery   = 5 * time.Second
	cursorEvery = time.Second
	roomy       = 8 << 20 // a drained segment is left when it has grown so large
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
	if _, ok := s.be.(epochal); ok {
		age = safeAge
	}
	if b.books.At != b.synced {
		if err := s.sync(ctx); err != nil {
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
	drained := !b.lagging && b.ready.empty() && b.tail.empty() && b.books.At == s.spool.end
	switch {
	case drained && (b.scrub || b.full || s.spool.end.Offset > min(roomy, s.spool.quota/4)):
		if at, err := s.spool.retire(); err == nil {
			b.books.At, b.scrub = at, false
		}
	case b.scrub:
		s.spool.fresh = true // of what comes now, nothing stands beside it
	}
	if b.full {
		b.full, b.cursorAt = false, time.Time{}
	}
	return true
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

// keepCursor keeps how far delivery came, and lets go of what is safe.
func (s *Store) keepCursor(b *batch, now time.Time) error {
	if s.spool == nil || now.Before(b.cursorAt) && !b.last {
		return nil
	}
	b.mu.Lock()
	c := s.cursor(b)
	b.mu.Unlock()
	if c.End == b.kept.End && c.Delivered.At == b.kept.Delivered.At && c.Delivered.Admitted == b.kept.Delivered.Admitted && c.Safe.At == b.kept.Safe.At {
		return nil
	}
	if err := writeCursor(s.spool.dir, &c); err != nil {
		b.mu.Lock()
		defer b.mu.Unlock()
		return s.spool.failed(err)
	}
	b.kept = cursorFile{End: c.End, Delivered: ledger{At: c.Delivered.At, Admitted: c.Delivered.Admitted}, Safe: ledger{At: c.Safe.At}}
	b.cursorAt = now.Add(cursorEvery)
	freed, err := release(s.spool.dir, b.safe.At)
	b.mu.Lock()
	s.spool.bytes -= freed
	b.mu.Unlock()
	return err
}

// cursor is the cursor of this moment. The caller has mu.
func (s *Store) cursor(b *batch) cursorFile {
	return cursorFile{
		Version: spoolVersion, Spool: s.spool.name, Boot: s.spool.boot, Epoch: b.epoch,
		Delivered: b.books, Safe: b.safe, End: s.spool.end, Admitted: s.spool.admitted,
	}
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
	if err := s.sync(ctx); err != nil {
		return err
	}
	at, err := s.spool.retire()
	if err != nil {
		return err
	}
	b.books.At, b.scrub = at, false
	b.books.Open = forgetStubs(b.books.Open, s.erased.isErased)
	b.safe, b.marks = b.books.clone(), nil
	c := s.cursor(b)
	if err := writeCursor(s.spool.dir, &c); err != nil {
		return err
	}
	freed, err := release(s.spool.dir, b.safe.At)
	s.spool.bytes -= freed
	return errors.Join(err, os.RemoveAll(filepath.Join(s.spool.dir, quarantineDir)), removeIfThere(filepath.Join(s.spool.dir, damagedCursor)))
}

// errBacklog says that something of an earlier time is still on its way to the backend.
var errBacklog = errors.New("a backlog is being written")

// shut ends the spool.
func (s *Store) shut(b *batch) error {
	if s.spool == nil {
		return nil
	}
	c := s.cursor(b)
	return errors.Join(writeCursor(s.spool.dir, &c), s.spool.close())
}
