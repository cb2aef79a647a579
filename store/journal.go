package store

import (
	"errors"
	"sync"
	"time"

	"precept/internal/guard"
	"precept/internal/label"
	"precept/internal/sample"
	"precept/internal/session"
	"precept/store/spool"
)

const (
	retryAfter = time.Second
	manyRows   = 10 * flushAt // sessions in waiting
)

// journal is the way from the recorder to the delivery: next is what is admitted and stands nowhere
// yet, ready what is in the spool and is not taken up by the delivery. While the delivery lags,
// what is put down is left to be read back from the spool.
type journal struct {
	spool  *spool.Log // nil without one
	guard  *guard.Guard
	tally  *Tally
	state  *state
	hold   int64 // bytes of exchanges in memory, at most
	failed func(step label.Step, err error)

	mu        sync.Mutex // of what follows, of the recorder's lists, and of the spool
	next      batch      // admitted, and not in the spool yet
	flushes   int64
	putErr    error       // of the last attempt to put it down
	putAt     time.Time   // after a failed one
	ready     batch       // put down, and not taken up by the delivery; empty while lagging
	lagging   bool        // what stands before from is to be read back
	from      spool.Place // where ready begins, while lagging
	fromFlush int64       // the flush that put down what stands before from
	scrub     bool        // what stands in the spool shall not stay there for longer than it must
	full      bool        // the same, at once: there is no room for more
	passing   int         // exchanges on their way past the spool, which is left alone meanwhile
}

// waits says that nothing is put down just now. The caller has mu.
func (j *journal) waits(now time.Time) bool { return now.Before(j.putAt) || j.passing > 0 }

// putDown puts down what was admitted. It says whether the beginnings of turns are in the spool; if
// not, they are no longer in what waits. The caller has mu.
func (j *journal) putDown(now time.Time) (begun bool) {
	j.putErr = j.guard.Err(label.StepSpool, func() (err error) { begun, err = j.put(); return err })
	if errors.Is(j.putErr, guard.ErrPanicked) {
		j.next.begun = nil
		j.sortOut()
	}
	if j.putErr != nil {
		j.state.unspooled.Store(true)
		j.tally.WriteErrors.Add(1)
		j.failed(label.StepSpool, j.putErr)
		j.putAt = now.Add(retryAfter)
	}
	return begun && j.putErr == nil
}

// put makes what is new durable, and queues it for the backend.
func (j *journal) put() (begun bool, err error) {
	if j.next.empty() {
		return false, nil
	}
	if begun = j.spool != nil; begun {
		err = j.write(j.spool.Append)
		j.full = j.full || spool.Full(err) || errors.Is(err, spool.ErrQuota)
		if err != nil {
			begun, j.next.begun = false, nil
		}
		if errors.Is(err, spool.ErrQuota) {
			err = j.overQuota()
		}
		if err != nil {
			return false, err
		}
	}
	j.ready.merge(&j.next)
	j.next.reset()
	if j.spool != nil {
		j.state.unspooled.Store(false)
		if j.lagging || j.ready.held >= j.hold/4 || len(j.ready.rows) >= manyRows {
			j.leave()
		}
	}
	return begun, nil
}

// write appends the next batch to the spool.
func (j *journal) write(to func(n int64, fill func(b []byte) []byte) (end spool.Place, err error)) error {
	end, err := to(j.next.admitted(), j.next.append)
	if err == nil {
		j.next.end = end
	}
	return err
}

// overQuota drops the newest exchanges, counted: what is older waits for its turn. The account and
// what is known of sessions may go a segment beyond it; what is more waits in memory, of each
// session the newest row.
func (j *journal) overQuota() error {
	next := &j.next
	j.tally.DroppedQuota.Add(next.giveUp(droppedQuota, func(*sample.Exchange) bool { return true }))
	j.state.held.Add(-next.held)
	next.held = 0
	next.signals = next.signals[max(0, len(next.signals)-queueLen):]
	if next.end, _ = j.spool.End(); next.empty() {
		return nil
	}
	return j.write(j.spool.AppendOver)
}

// leave lets go of what is put down and was not taken up yet: the backend does not take it as fast
// as it comes, and the spool has it anyway.
func (j *journal) leave() {
	j.state.held.Add(-j.ready.held)
	j.lagging, j.from, j.fromFlush, j.ready = true, j.ready.end, j.ready.flush, batch{}
	j.state.lagging.Store(true)
}

// sortOut takes out of what waits to be put down whatever makes that panic: each thing is tried by
// itself. Where none of them is to blame alone, all exchanges go: the recorder must not stand still
// for ever.
func (j *journal) sortOut() {
	p := &j.next
	before := len(p.rows) + len(p.echoes) + len(p.exchanges) + len(p.signals)
	p.rows = sound(j, p.rows, func(one []session.Row) batch { return batch{rows: one} })
	p.echoes = sound(j, p.echoes, func(one []session.Echo) batch { return batch{echoes: one} })
	p.signals = sound(j, p.signals, func(one []signal) batch { return batch{signals: one} })
	bad := map[string]bool{}
	for i := range p.exchanges {
		x := &p.exchanges[i]
		if !j.guard.On(label.StepSpool, refOf(x), x.ID, func() { (&batch{exchanges: p.exchanges[i : i+1]}).append(nil) }) {
			bad[x.ID] = true
		}
	}
	if len(bad) == 0 && before == len(p.rows)+len(p.echoes)+len(p.exchanges)+len(p.signals) {
		for i := range p.exchanges {
			bad[p.exchanges[i].ID] = true
		}
		p.rows, p.echoes, p.signals = nil, nil, nil
	}
	j.tally.DroppedBad.Add(p.giveUp(droppedBad, func(x *sample.Exchange) bool { return bad[x.ID] }))
}

// sound are those of a list that can be put down without a panic.
func sound[T any](j *journal, list []T, of func(one []T) batch) []T {
	out := list[:0:0]
	for i := range list {
		if j.guard.Step(label.StepSpool, func() { p := of(list[i : i+1]); p.append(nil) }) {
			out = append(out, list[i])
		}
	}
	return out
}

// forget takes out of what the delivery has not taken up yet what is the tenant's and of the
// sessions. The caller has mu.
func (j *journal) forget(tenant string, of func(session.ID) bool) {
	j.next.forget(tenant, of)
	j.ready.forget(tenant, of)
}

// outlive sees to it that the spool does not keep for longer what the backend has deleted.
func (j *journal) outlive(deleted bool, before time.Time) {
	if j.spool == nil {
		return
	}
	j.mu.Lock()
	j.scrub = j.scrub || deleted
	j.mu.Unlock()
	j.spool.TidyQuarantine(before)
}

// take moves what is put down to the end of a batch.
func (j *journal) take(to *batch) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if !j.ready.empty() {
		to.merge(&j.ready)
		j.ready.reset()
	}
}

// backlog says up to where what is put down must be read back, if it must: at is how far it was
// delivered.
func (j *journal) backlog(at spool.Place) (from spool.Place, lagging bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.lagging && !at.Before(j.from) {
		j.lagging = false
		j.state.lagging.Store(false)
		j.state.blind.Store(false)
		j.state.delivered.Store(j.fromFlush)
	}
	return j.from, j.lagging
}

// putBack leaves to the spool what the delivery has taken and cannot hand over, before it crowds
// out what comes in.
func (j *journal) putBack(tail *batch) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if !j.lagging {
		tail.merge(&j.ready)
		j.ready, *tail = *tail, batch{}
		j.leave()
	}
}

// readAgain leaves all that is put down to be read back.
func (j *journal) readAgain() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.state.held.Add(-j.ready.held)
	j.ready = batch{}
	j.from, _ = j.spool.End()
	j.lagging, j.fromFlush = true, j.flushes
	j.state.lagging.Store(true)
	j.state.blind.Store(true)
}

// giveWay leaves what room there is on a full disk to the backend: what it takes can leave the
// spool, and nothing else makes more. Meanwhile what comes waits in memory, within its bound.
func (j *journal) giveWay(now time.Time) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.full, j.putAt = true, now.Add(2*retryAfter)
	j.spool.DropBallast()
}

// tidy leaves a segment behind that has grown large, or that holds what shall not stay, when all of
// it is delivered: at is how far that came, and drained says that nothing is on its way. It returns
// the place behind it, and whether the spool was full. It does something when it is due, or the
// spool is full.
func (j *journal) tidy(at spool.Place, drained, due bool) (next spool.Place, full bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if !due && !j.full {
		return at, false
	}
	end, _ := j.spool.End()
	drained = drained && !j.lagging && j.ready.empty() && at == end
	switch {
	case drained && (j.scrub || j.full || j.spool.Grown()):
		if left, err := j.spool.Leave(); err == nil {
			at, j.scrub = left, false
		}
	case j.scrub:
		j.spool.Rotate() // of what comes now, nothing stands beside it
	}
	full, j.full = j.full, false
	return at, full
}

// setScrub says whether what stands in the spool shall go as soon as it is delivered.
func (j *journal) setScrub(on bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.scrub = on
}

// turnOver takes up all that is put down, and leaves the files of the spool behind. It returns the
// place of what comes now.
func (j *journal) turnOver(to *batch) (at spool.Place, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.lagging {
		return at, errBacklog
	}
	to.merge(&j.ready)
	j.ready = batch{}
	return j.spool.Leave()
}

// unput takes what waits to be put into the spool, when nothing else is on its way. It ends behind
// all that stands in the spool: that may be a segment that was begun for it, whose head tells a
// number without it.
func (j *journal) unput() (b batch, ok bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.lagging || !j.ready.empty() || j.next.empty() {
		return b, false
	}
	b, j.next = j.next, batch{}
	b.end, _ = j.spool.End()
	j.passing = max(len(b.exchanges), 1)
	return b, true
}

// passed ends what unput began. What was not handed over waits again.
func (j *journal) passed(b *batch, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.passing = 0
	if err != nil {
		flush := max(b.flush, j.next.flush)
		b.merge(&j.next)
		b.flush = flush
		j.next = *b
		return
	}
	if j.next.empty() {
		j.putErr = nil
	}
	j.spool.Skip(b.admitted())
}

// trouble says whether what is put down is still to be read back, and why what waits is not in the
// spool.
func (j *journal) trouble() (lagging bool, putErr error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.lagging, j.putErr
}

// errBacklog says that something of an earlier time is still on its way to the backend.
var errBacklog = errors.New("a backlog is being written")
