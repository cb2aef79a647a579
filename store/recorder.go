package store

import (
	"time"

	"precept/internal/guard"
	"precept/internal/label"
	"precept/internal/redact"
	"precept/internal/sample"
	"precept/internal/session"
)

// recorder takes in what requests leave, and puts it into the journal without what must not be
// kept. Its own fields are guarded by the journal's lock.
type recorder struct {
	in        *inbox
	waiting   *waiting
	out       *optouts
	tombs     *tombstones
	journal   *journal
	guard     *guard.Guard
	tally     *Tally
	state     *state
	panicked  func(step label.Step, value any)
	sentiment bool // the user's words count as a signal

	redactor  *redact.Redactor // made fresh for each exchange
	spare     []Turn           // the list that the queue swaps with
	openSpare []*Begun         // and the list of turns that began
	open      []*Begun         // turns that were under way at the last flush
	fresh     []*Begun         // those whose beginning is in the journal's next batch
}

// record puts what is new into the spool: what a crash may cost is what came since the last time.
// It does so in pieces. An exchange is copied when it is redacted, encoded and written, and of many
// that end at once, as when their clients are cut off, the copies would be most of the memory.
func (r *recorder) record(now time.Time, all bool) {
	r.journal.mu.Lock()
	defer r.journal.mu.Unlock()
	for more := true; more; {
		more = r.admitSome()
		r.collect(now, all)
		if r.journal.waits(now) {
			continue
		}
		r.begin()
		r.begun(r.journal.putDown(now))
	}
}

// admitSome admits what was offered, so much of it as is put down at once, and says whether there
// is more. Turns wait in a list, not in a channel: a recorder that is woken for each of them costs
// the request more than the offer itself. The caller has the journal's lock.
func (r *recorder) admitSome() (more bool) {
	r.in.mu.Lock()
	turns, gone, open := r.in.piece(r.spare[:0]), r.in.lost, r.in.open
	r.in.lost, r.in.open, more = nil, r.openSpare[:0], len(r.in.queue) > 0
	r.in.mu.Unlock()
	for i := range turns {
		r.admit(turns[i])
		turns[i] = Turn{}
	}
	r.spare = turns
	for _, l := range gone {
		r.journal.next.over(l.begun, l.reason)
	}
	for _, t := range open {
		if !t.over.Load() {
			r.open = append(r.open, t)
		}
	}
	clear(open)
	r.openSpare = open
	return more
}

// admit redacts a turn's exchange and puts it into the next batch. Nothing unredacted leaves this
// function.
func (r *recorder) admit(t Turn) {
	gone := func(reason string) {
		r.tally.Pending.Add(-1)
		r.state.held.Add(-t.Size)
		r.journal.next.over(t.Begun, reason)
		if reason == droppedOptOut && t.Begun != nil && t.Begun.put {
			r.journal.scrub = true // nor shall its beginning stay in the spool
		}
	}
	defer func() {
		if value := recover(); value != nil {
			r.tally.DroppedBad.Add(1)
			gone(droppedBad)
			at := AtRequest{Value: value}
			if x := t.Exchange; x != nil {
				at.Request = x.RequestID
				r.guard.SetAside(label.StepRecord, refOf(x), x.ID, value)
			}
			r.panicked(label.StepRecord, at)
		}
	}()
	x := t.Exchange
	r.guard.Before(label.StepRecord, refOf(x).ID, x.ID)
	if r.tombs.cover(x.Tenant, x.Session, x.At) || r.out.OptedOut(x, t.Answered) {
		r.tally.OptedOut.Add(1)
		gone(droppedOptOut)
		return
	}
	r.out.redact(r.redactor, x)
	x.Seal() // once, for the spool and the backend: here, because what panics in it costs this exchange
	x.New, x.Reply = nil, sample.Reply{}
	signals := signalsOf(x, t.Signals, r.sentiment)
	r.journal.next.signals = append(r.journal.next.signals, signals...)
	r.journal.next.exchanges = append(r.journal.next.exchanges, *x)
	r.journal.next.held += t.Size
	if t.Begun != nil && t.Begun.put {
		r.journal.next.finish(x.ID)
	}
}

// collect makes the rows of the sessions that changed, and takes what went by.
func (r *recorder) collect(now time.Time, all bool) {
	r.journal.flushes++
	dirty, echoes := r.waiting.drain(now, all, r.journal.flushes, r.state.delivered.Load())
	for _, ses := range dirty {
		ses.dirty.Store(false)
		r.guard.On(label.StepEncode, session.Ref{Tenant: ses.Identity.Tenant, ID: ses.Identity.ID}, "", func() {
			if row, ok := r.out.row(r.redactor, ses); ok {
				r.journal.next.rows = append(r.journal.next.rows, row)
				ses.put.Store(r.journal.flushes)
			}
		})
	}
	if len(r.journal.next.rows) > flushAt {
		r.journal.next.rows = newestRows(r.journal.next.rows)
	}
	if len(r.journal.next.echoes)+len(echoes) <= maxEchoes {
		r.journal.next.echoes = append(r.journal.next.echoes, echoes...)
	}
	r.journal.next.flush = r.journal.flushes
}

// SetPersonal says from now on whether personal data is redacted besides secrets. It may be called
// at any time.
func (r *recorder) SetPersonal(on bool) {
	r.journal.mu.Lock()
	defer r.journal.mu.Unlock()
	r.out.personal.Store(on)
	r.redactor = r.out.newRedactor()
}

// begin adds what is known of the turns that are under way.
func (r *recorder) begin() {
	if !r.in.stubs {
		return
	}
	still := r.open[:0]
	for _, t := range r.open {
		if t.over.Load() {
			continue // its end is in the queue, or was taken
		}
		if !t.put && !r.tombs.cover(t.x.Tenant, t.x.Session, t.x.At) && !r.guard.On(label.StepBegin, refOf(t.x), t.x.ID, func() {
			r.journal.next.begun = append(r.journal.next.begun, r.stub(t.x))
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

// begun says whether what begin added is in the spool. If not, it is added again, where it is under
// way then.
func (r *recorder) begun(written bool) {
	for _, t := range r.fresh {
		t.put = written
	}
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
