package store

import (
	"errors"
	"sync"
	"time"

	"precept/sample"
	"precept/session"
	"precept/store/guard"
	"precept/store/spool"
)

// batch is the recorder's own: what it has in hand between a turn's end and the backend. Its two
// goroutines meet in mu: one puts what is new into the spool, whatever the backend does; the other
// one hands it over.
type batch struct {
	mu sync.Mutex // of everything up to delivery, and of the spool

	spare     []Turn   // the list that the queue swaps with
	openSpare []*Begun // and the list of turns that began
	open      []*Begun // turns that were under way at the last flush
	fresh     []*Begun // those whose beginning is in next
	next      parcel   // admitted, and not in the spool yet
	flushes   int64
	putErr    error       // of the last attempt to put it down
	putAt     time.Time   // after a failed one
	ready     parcel      // put down, and not taken up by the delivery; empty while lagging
	lagging   bool        // between books.At and from, it is in the spool alone
	from      spool.Place // where ready begins, while lagging
	fromFlush int64       // the flush that put down what stands before from
	blank     []*Begun    // of which nothing shall stay in the spool, not even that they began
	scrub     bool        // what stands in the spool shall not stay there for longer than it must
	full      bool        // the same, at once: there is no room for more
	passing   int         // exchanges on their way past the spool, which is left alone meanwhile

	delivery // the delivery's own
}

// spoolUp puts what is new into the spool: what a crash may cost is what came since the last time.
func (s *Store) spoolUp(b *batch, now time.Time, all bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s.collect(b, now, all)
	if now.Before(b.putAt) || b.passing > 0 {
		return
	}
	if b.putErr = s.guard.Err("spool", func() error { return s.put(b) }); errors.Is(b.putErr, guard.ErrPanicked) {
		b.unbegin()
		s.sortOut(b)
	}
	if b.putErr != nil {
		s.unspooled.Store(true)
		s.failedTo(b.putErr)
		b.putAt = now.Add(retryAfter)
	}
}

// failedTo tells of a failed write. What it held is kept for the next one.
func (s *Store) failedTo(err error) {
	s.Tally.WriteErrors.Add(1)
	s.opts.Failed(stepOf(err), err)
}

// collect makes the rows of the sessions that changed, and takes what went by.
func (s *Store) collect(b *batch, now time.Time, all bool) {
	b.flushes++
	dirty, echoes := s.drainDirty(now, all, b.flushes)
	for _, ses := range dirty {
		ses.dirty.Store(false)
		s.guard.On("encode", session.Ref{Tenant: ses.Tenant, ID: ses.ID}, "", func() {
			if row, ok := s.encode(ses); ok {
				b.next.rows = append(b.next.rows, row)
				ses.put.Store(b.flushes)
			}
		})
	}
	if len(b.next.rows) > flushAt {
		b.next.rows = newestRows(b.next.rows)
	}
	if len(b.next.echoes)+len(echoes) <= maxEchoes {
		b.next.echoes = append(b.next.echoes, echoes...)
	}
	b.next.flush = b.flushes
}

// begin adds what is known of the turns that are under way.
func (s *Store) begin(b *batch) {
	still := b.open[:0]
	for _, t := range b.open {
		if t.over.Load() {
			continue // its end is in the queue, or was taken
		}
		if !t.put && !s.erased.isErased(t.x.Tenant, t.x.Session, t.x.At) && !s.guard.On("begin", refOf(t.x), t.x.ID, func() {
			b.next.begun = append(b.next.begun, s.stub(t.x))
			b.next.admitted++
			t.put = true
			b.fresh = append(b.fresh, t)
		}) {
			continue // its end is admitted, when it comes
		}
		still = append(still, t)
	}
	clear(b.open[len(still):])
	b.open = still
}

// unbegin takes back what begin added and was not written: it is added again, where it is under way
// then.
func (b *batch) unbegin() {
	for _, t := range b.fresh {
		t.put = false
	}
	b.next.admitted -= int64(len(b.next.begun))
	b.next.begun = nil
	b.written()
}

// written lets go of the turns whose beginning was written.
func (b *batch) written() {
	clear(b.fresh)
	b.fresh = b.fresh[:0]
}

// stub is what is put down of a turn that is under way.
func (s *Store) stub(x *sample.Exchange) stub {
	r := s.redactor
	r.Fresh()
	head := sample.Exchange{
		ID: x.ID, Tenant: x.Tenant, Agent: x.Agent, Session: x.Session, SessionName: r.Text(x.SessionName), Run: r.Text(x.Run), RequestID: x.RequestID,
		Turn: x.Turn, At: x.At, Dialect: x.Dialect, Model: x.Model, Outcome: sample.Incomplete, Lessons: x.Lessons, Book: x.Book, Config: x.Config,
	}
	return stub{ID: x.ID, Doc: head.AppendJSON(nil)}
}

// put makes what is new durable, and queues it for the backend.
func (s *Store) put(b *batch) error {
	p := &b.next
	if s.spool != nil {
		s.begin(b)
	}
	if p.empty() {
		return nil
	}
	if s.spool != nil {
		err := s.putSpool(b, s.spool.Append)
		b.full = b.full || spool.Full(err) || errors.Is(err, spool.ErrQuota)
		if errors.Is(err, spool.ErrQuota) {
			err = s.overQuota(b)
		}
		if err != nil {
			b.unbegin()
			return err
		}
		b.written()
	}
	b.ready.merge(p)
	*p = parcel{}
	if s.spool != nil {
		s.unspooled.Store(false)
		if b.lagging || b.ready.held >= s.opts.HoldBytes/4 || len(b.ready.rows) >= manyRows {
			s.leave(b)
		}
	}
	return nil
}

// leave lets go of what is put down and was not taken up yet: the backend does not take it as fast
// as it comes, and the spool has it anyway.
func (s *Store) leave(b *batch) {
	s.heldBytes.Add(-b.ready.held)
	b.lagging, b.from, b.fromFlush, b.ready = true, b.ready.end, b.ready.flush, parcel{}
	s.lagging.Store(true)
}

// appender is how a parcel is appended to the spool.
type appender func(n int64, fill func(b []byte) []byte) (from, end spool.Place, err error)

// putSpool writes the next parcel into the spool.
func (s *Store) putSpool(b *batch, put appender) error {
	p := &b.next
	from, end, err := put(p.admitted, p.append)
	if err != nil {
		return err
	}
	p.end = end
	for i, t := range b.fresh {
		t.at = from
		t.at.Offset += int64(p.begun[i].at)
	}
	return nil
}

// overQuota drops the newest exchanges, booked: what is older waits for its turn. The books and
// what is known of sessions may go a segment beyond it; what is more waits in memory, of each
// session the newest row.
func (s *Store) overQuota(b *batch) error {
	b.unbegin()
	p := &b.next
	s.Tally.DroppedQuota.Add(p.giveUp(droppedQuota, func(*sample.Exchange) bool { return true }))
	s.heldBytes.Add(-p.held)
	p.held = 0
	p.signals = p.signals[max(0, len(p.signals)-queueLen):]
	if p.end, _ = s.spool.End(); p.empty() {
		return nil
	}
	return s.putSpool(b, s.spool.AppendOver)
}

// drainDirty takes what is to be written: sessions in which something was decided at once, the
// others every second.
func (s *Store) drainDirty(now time.Time, all bool, flush int64) ([]*Session, []session.Echo) {
	s.dirtyMu.Lock()
	defer s.dirtyMu.Unlock()
	dirty, echoes := s.dirty, s.echoes
	s.dirty, s.echoes = nil, nil
	s.moving.add(flush, echoes, s.delivered.Load())
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
