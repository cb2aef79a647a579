package store

import (
	"context"
	"time"

	"precept/store/spool"
)

// passBy hands to a backend that is elsewhere what this machine's full disk has no room for, so
// that capture goes on. What it takes is in no spool, and cannot be written again if the backend
// loses it.
func (s *Store) passBy(ctx context.Context, b *batch) error {
	if s.spool == nil || !s.Shared() {
		return nil
	}
	b.mu.Lock()
	stuck := spool.Full(b.putErr)
	b.mu.Unlock()
	if !stuck {
		return nil
	}
	return s.pass(ctx, b)
}

// pass hands to the backend what the spool could not take, when all that is in the spool is there
// already. Meanwhile nothing is put into the spool: what stands there must not overtake it in the
// books.
func (s *Store) pass(ctx context.Context, b *batch) error {
	p, ok := s.unput(b)
	if !ok {
		return nil
	}
	err := s.hand(ctx, b, &p)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.passing = 0
	if err != nil {
		flush := max(p.flush, b.next.flush)
		p.merge(&b.next)
		p.flush = flush
		b.next = p
		return err
	}
	if b.next.empty() {
		b.putErr = nil
	}
	// Who went back to an earlier place would find turns there that began, and no end of them.
	b.safe, b.marks, b.synced = b.books.clone(), nil, b.books.At
	s.spool.Skip(p.admitted)
	b.cursorAt = time.Time{}
	return nil
}

// unput takes what waits to be put into the spool.
func (s *Store) unput(b *batch) (p parcel, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.lagging || !b.tail.empty() || !b.ready.empty() || b.next.empty() {
		return p, false
	}
	p, b.next = b.next, parcel{}
	p.end = b.books.At
	b.passing = max(len(p.exchanges), 1)
	return p, true
}
