package store

import (
	"errors"
	"slices"
	"sync"
	"time"

	"precept/redact"
	"precept/sample"
	"precept/session"
	"precept/store/guard"
	"precept/store/spool"
)

// recorder puts what is new into the spool, whatever the backend does, and leaves it to the
// delivery. The goroutines of both meet in mu.
type recorder struct {
	kit
	in      *inbox
	waiting *waiting
	out     *optouts
	tombs   *tombstones
	spool   *spool.Log // nil without one

	mu       sync.Mutex       // of everything below, and of the spool
	redactor *redact.Redactor // made fresh for each exchange

	spare     []Turn   // the list that the queue swaps with
	openSpare []*Begun // and the list of turns that began
	open      []*Begun // turns that were under way at the last flush
	fresh     []*Begun // those whose beginning is in next
	next      batch    // admitted, and not in the spool yet
	flushes   int64
	putErr    error       // of the last attempt to put it down
	putAt     time.Time   // after a failed one
	ready     batch       // put down, and not taken up by the delivery; empty while lagging
	lagging   bool        // between delivered.At and from, it is in the spool alone
	from      spool.Place // where ready begins, while lagging
	fromFlush int64       // the flush that put down what stands before from
	scrub     bool        // what stands in the spool shall not stay there for longer than it must
	full      bool        // the same, at once: there is no room for more
	passing   int         // exchanges on their way past the spool, which is left alone meanwhile
}

// spoolUp puts what is new into the spool: what a crash may cost is what came since the last time.
// It does so in pieces. An exchange is copied when it is redacted, encoded and written, and of many
// that end at once, as when their clients are cut off, the copies would be most of the memory.
func (r *recorder) spoolUp(now time.Time, all bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for more := true; more; {
		more = r.admitSome()
		r.collect(now, all)
		r.putDown(now)
	}
}

// putDown puts down what was admitted, unless that failed a moment ago. The caller has mu.
func (r *recorder) putDown(now time.Time) {
	if now.Before(r.putAt) || r.passing > 0 {
		return
	}
	if r.putErr = r.guard.Err("spool", r.put); errors.Is(r.putErr, guard.ErrPanicked) {
		r.unbegin()
		r.sortOut()
	}
	if r.putErr != nil {
		r.state.unspooled.Store(true)
		r.failedTo("spool", r.putErr)
		r.putAt = now.Add(retryAfter)
	}
}

// collect makes the rows of the sessions that changed, and takes what went by.
func (r *recorder) collect(now time.Time, all bool) {
	r.flushes++
	dirty, echoes := r.waiting.drain(now, all, r.flushes, r.state.delivered.Load())
	for _, ses := range dirty {
		ses.dirty.Store(false)
		r.guard.On("encode", session.Ref{Tenant: ses.Tenant, ID: ses.ID}, "", func() {
			if row, ok := r.out.row(r.redactor, ses); ok {
				r.next.rows = append(r.next.rows, row)
				ses.put.Store(r.flushes)
			}
		})
	}
	if len(r.next.rows) > flushAt {
		r.next.rows = newestRows(r.next.rows)
	}
	if len(r.next.echoes)+len(echoes) <= maxEchoes {
		r.next.echoes = append(r.next.echoes, echoes...)
	}
	r.next.flush = r.flushes
}

// SetPersonal says from now on whether personal data is redacted besides secrets. It may be called
// at any time.
func (r *recorder) SetPersonal(on bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.out.personal.Store(on)
	r.redactor = r.out.newRedactor()
}

// begin adds what is known of the turns that are under way.
func (r *recorder) begin() {
	still := r.open[:0]
	for _, t := range r.open {
		if t.over.Load() {
			continue // its end is in the queue, or was taken
		}
		if !t.put && !r.tombs.cover(t.x.Tenant, t.x.Session, t.x.At) && !r.guard.On("begin", refOf(t.x), t.x.ID, func() {
			r.next.begun = append(r.next.begun, r.stub(t.x))
			t.put = true
			r.fresh = append(r.fresh, t)
		}) {
			continue // its end is admitted, when it comes
		}
		still = append(still, t)
	}
	clear(r.open[len(still):])
	r.open = still
}

// unbegin takes back what begin added and was not written: it is added again, where it is under way
// then.
func (r *recorder) unbegin() {
	for _, t := range r.fresh {
		t.put = false
	}
	r.next.begun = nil
	r.written()
}

// written lets go of the turns whose beginning was written.
func (r *recorder) written() {
	clear(r.fresh)
	r.fresh = r.fresh[:0]
}

// stub is what is put down of a turn that is under way.
func (r *recorder) stub(x *sample.Exchange) stub {
	out := r.redactor
	out.Fresh()
	head := sample.Exchange{
		ID: x.ID, Tenant: x.Tenant, Agent: x.Agent, Session: x.Session, SessionName: out.Text(x.SessionName), Run: out.Text(x.Run), RequestID: x.RequestID,
		Turn: x.Turn, At: x.At, Dialect: x.Dialect, Model: x.Model, Outcome: sample.Incomplete, Lessons: x.Lessons, Book: x.Book, Config: x.Config,
	}
	return stub{ID: x.ID, Doc: head.Encode().Data}
}

// put makes what is new durable, and queues it for the backend.
func (r *recorder) put() error {
	p := &r.next
	if r.spool != nil {
		r.begin()
	}
	if p.empty() {
		return nil
	}
	if r.spool != nil {
		err := r.putSpool(r.spool.Append)
		r.full = r.full || spool.Full(err) || errors.Is(err, spool.ErrQuota)
		if errors.Is(err, spool.ErrQuota) {
			err = r.overQuota()
		}
		if err != nil {
			r.unbegin()
			return err
		}
		r.written()
	}
	r.ready.merge(p)
	p.reset()
	if r.spool != nil {
		r.state.unspooled.Store(false)
		if r.lagging || r.ready.held >= r.opts.HoldBytes/4 || len(r.ready.rows) >= manyRows {
			r.leave()
		}
	}
	return nil
}

// leave lets go of what is put down and was not taken up yet: the backend does not take it as fast
// as it comes, and the spool has it anyway.
func (r *recorder) leave() {
	r.state.held.Add(-r.ready.held)
	r.lagging, r.from, r.fromFlush, r.ready = true, r.ready.end, r.ready.flush, batch{}
	r.state.lagging.Store(true)
}

// appender is how a batch is appended to the spool.
type appender func(n int64, fill func(b []byte) []byte) (end spool.Place, err error)

// putSpool writes the next batch into the spool.
func (r *recorder) putSpool(put appender) error {
	p := &r.next
	end, err := put(p.admitted(), p.append)
	if err == nil {
		p.end = end
	}
	return err
}

// overQuota drops the newest exchanges, booked: what is older waits for its turn. The books and
// what is known of sessions may go a segment beyond it; what is more waits in memory, of each
// session the newest row.
func (r *recorder) overQuota() error {
	r.unbegin()
	p := &r.next
	r.tally.DroppedQuota.Add(p.giveUp(droppedQuota, func(*sample.Exchange) bool { return true }))
	r.state.held.Add(-p.held)
	p.held = 0
	p.signals = p.signals[max(0, len(p.signals)-queueLen):]
	if p.end, _ = r.spool.End(); p.empty() {
		return nil
	}
	return r.putSpool(r.spool.AppendOver)
}

// forget takes out of what is not put down yet what is the tenant's and of the sessions. The caller
// has mu.
func (r *recorder) forget(tenant string, of func(session.ID) bool) {
	p := &r.next
	p.signals = slices.DeleteFunc(p.signals, func(g signal) bool { return g.Tenant == tenant && of(g.ID) })
	p.echoes = slices.DeleteFunc(p.echoes, func(e session.Echo) bool { return e.Tenant == tenant && of(e.ID) })
	p.rows = slices.DeleteFunc(p.rows, func(r session.Row) bool { return r.Tenant == tenant && of(r.ID) })
}

// outlive sees to it that the spool does not keep for longer what the backend has deleted.
func (r *recorder) outlive(deleted bool, before time.Time) {
	if r.spool == nil {
		return
	}
	r.mu.Lock()
	r.scrub = r.scrub || deleted
	r.mu.Unlock()
	r.spool.TidyAside(before)
}
