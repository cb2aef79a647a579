package store

import (
	"context"
	"errors"
	"time"

	"precept/sample"
	"precept/session"
)

// batch is the recorder's own: what it has in hand between a turn's end and the backend.
type batch struct {
	spare     []Turn   // the list that the queue swaps with
	openSpare []*Begun // and the list of turns that began
	open      []*Begun // turns that were under way at the last flush
	next      parcel   // admitted, and not in the spool yet
	delivery

	err     error     // of the last attempt
	retryAt time.Time // after a failed one
	last    bool      // the program stops: nothing waits any longer
}

// flush puts what is new into the spool, and hands what is due to the backend.
func (s *Store) flush(ctx context.Context, b *batch) {
	now := s.opts.Now()
	s.collect(b, now, ctx.Err() != nil || b.last)
	if now.Before(b.retryAt) {
		return
	}
	// A stop must not tear a write that is under way: it is bounded by itself.
	wctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeLimit)
	defer cancel()
	b.err = s.put(b)
	if b.err == nil {
		b.err = s.deliver(wctx, b, now)
	}
	if b.err != nil && !errors.Is(b.err, ErrVolatile) {
		s.Tally.WriteErrors.Add(1)
		s.healthy(false)
		s.opts.Failed(stepOf(b.err), b.err)
		b.retryAt = now.Add(time.Second)
	}
	s.lag(b)
}

// collect makes the rows of the sessions that changed, and takes what went by.
func (s *Store) collect(b *batch, now time.Time, all bool) {
	dirty, echoes := s.takeDirty(now, all)
	b.flushes++
	for _, ses := range dirty {
		ses.dirty.Store(false)
		if row, ok := s.encode(ses); ok {
			b.next.rows = append(b.next.rows, row)
			ses.put.Store(b.flushes)
		}
	}
	if len(b.next.echoes)+len(echoes) <= maxEchoes {
		b.next.echoes = append(b.next.echoes, echoes...)
	}
	b.next.flush = b.flushes
	if s.spool == nil {
		return
	}
	still := b.open[:0]
	for _, t := range b.open {
		switch {
		case t.over.Load():
			continue // its end is in the queue, or was taken
		case !t.put:
			b.next.begun = append(b.next.begun, s.stub(t.x))
			b.next.admitted++
			t.put = true
		}
		still = append(still, t)
	}
	clear(b.open[len(still):])
	b.open = still
}

// stub is what is put down of a turn that is under way.
func (s *Store) stub(x *sample.Exchange) stub {
	r := s.redactor
	r.Fresh()
	head := sample.Exchange{
		ID: x.ID, Tenant: x.Tenant, Agent: x.Agent, Session: x.Session, SessionName: r.Text(x.SessionName), RequestID: x.RequestID,
		Turn: x.Turn, At: x.At, Dialect: x.Dialect, Model: x.Model, Outcome: sample.Incomplete, Lessons: x.Lessons, Book: x.Book, Config: x.Config,
	}
	return stub{x.ID, head.AppendJSON(nil)}
}

// put makes what is new durable, and queues it for the backend.
func (s *Store) put(b *batch) error {
	p := &b.next
	if p.empty() {
		return nil
	}
	if len(p.rows) > flushAt {
		p.rows = newestRows(p.rows)
	}
	if s.spool != nil {
		s.spool.buf = p.append(s.spool.buf[:0])
		end, err := s.spool.write(s.spool.buf, p.admitted)
		if cap(s.spool.buf) > replayBytes {
			s.spool.buf = nil
		}
		if errors.Is(err, errQuota) {
			end, err = s.overQuota(p)
		}
		if err != nil {
			return err
		}
		p.end = end
		if b.lagging {
			s.heldBytes.Add(-p.held)
			b.from, b.fromFlush = p.end, p.flush
			*p = parcel{}
			return nil
		}
	}
	b.tail.merge(p)
	*p = parcel{}
	return nil
}

// overQuota drops the newest exchanges, booked: what is older waits for its turn.
func (s *Store) overQuota(p *parcel) (place, error) {
	begun := make(map[string]bool, len(p.ended))
	for _, id := range p.ended {
		begun[id] = true
		p.voids = append(p.voids, void{id, droppedQuota})
	}
	for i := range p.exchanges {
		if !begun[p.exchanges[i].ID] {
			p.admitted--
			p.drop(droppedQuota, 1)
		}
	}
	s.Tally.DroppedQuota.Add(int64(len(p.exchanges)))
	s.heldBytes.Add(-p.held)
	p.exchanges, p.ended, p.held = nil, nil, 0
	quota := s.spool.quota
	defer func() { s.spool.quota = quota }()
	s.spool.quota += segmentBytes // the books and the sessions may go beyond it
	return s.spool.write(p.append(s.spool.buf[:0]), p.admitted)
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
