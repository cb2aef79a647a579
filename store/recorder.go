package store

import (
	"time"

	"precept/internal/guard"
	"precept/internal/label"
	"precept/internal/redact"
	"precept/internal/sample"
	"precept/internal/session"
	"precept/store/outbox"
)

// recorder moves the data of requests into the outbox, without opted-out and unredacted content.
// The lock of the handoff guards its own lists.
type recorder struct {
	inbox     *inbox
	waiting   *waiting
	optouts   *optouts
	tombs     *tombstones
	handoff   *handoff
	guard     *guard.Guard
	tally     *Tally
	state     *state
	panicked  func(step label.Step, value any)
	kept      func(x *sample.Exchange) // nil: not called
	sentiment bool                     // the user's words count as a signal

	redactor *redact.Redactor // takes the numbers of the session of each exchange
	spare    []Turn           // list for the next swap with the queue
	started  startedTurns
}

// startedTurns are the turns in progress, as the recorder knows them.
type startedTurns struct {
	spare     []*TurnStart // list for the next swap with the started turns
	open      []*TurnStart // turns in progress at the last flush
	unwritten []*TurnStart // turns whose start is in the next batch
}

// record writes new turns to the outbox: a crash costs at most the turns since the last call.
// record works in pieces, because an exchange is copied for redaction, encoding and writing. After
// many simultaneous ends, as when clients are cut off, the copies would otherwise take most of the
// memory.
func (r *recorder) record(now time.Time, all bool) {
	r.handoff.mu.Lock()
	defer r.handoff.mu.Unlock()
	for more := true; more; {
		more = r.admitSome()
		r.collect(now, all)
		if r.handoff.isPaused(now) {
			continue
		}
		r.addPending()
		r.markStarts(r.handoff.commit(now))
	}
}

// admitSome admits one piece of the offered turns, and reports whether turns remain. Turns wait in
// a list instead of a channel, because waking the recorder for each turn costs the request more
// than the offer. The caller holds the lock of the handoff.
func (r *recorder) admitSome() (more bool) {
	r.inbox.mu.Lock()
	turns, gone, open := r.inbox.piece(r.spare[:0]), r.inbox.abandoned, r.inbox.open
	r.inbox.abandoned, r.inbox.open, more = nil, r.started.spare[:0], len(r.inbox.queue) > 0
	r.inbox.mu.Unlock()
	for i := range turns {
		r.admit(turns[i])
		turns[i] = Turn{}
	}
	r.spare = turns
	for _, l := range gone {
		r.handoff.next.endTurn(l.begun, l.reason)
	}
	for _, t := range open {
		if !t.done.Load() {
			r.started.open = append(r.started.open, t)
		}
	}
	clear(open)
	r.started.spare = open
	return more
}

// admit redacts the exchange of a turn, and adds the exchange to the next batch. No unredacted text
// leaves admit.
func (r *recorder) admit(t Turn) {
	defer t.pin(-1)
	gone := func(reason string) {
		r.tally.Pending.Add(-1)
		r.state.heldBytes.Add(-t.Size)
		r.handoff.next.endTurn(t.Start, reason)
		if reason == droppedOptOut && t.Start != nil && t.Start.put {
			r.handoff.next.scrub = true // the start of the turn must leave the outbox, too
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
	if r.tombs.cover(x.Tenant, x.Session, x.At) || r.optouts.OptedOut(x, t.Answered) {
		r.tally.OptedOut.Add(1)
		gone(droppedOptOut)
		return
	}
	r.optouts.redactTurn(r.redactor, x)
	if r.kept != nil {
		r.kept(x)
	}
	x.Seal() // encodes the exchange once for outbox and backend; a panic here drops only this exchange
	x.New, x.System, x.Tools, x.Reply = nil, nil, nil, sample.Reply{}
	signals := signalsOf(x, t.Signals, r.sentiment)
	r.handoff.next.signals = append(r.handoff.next.signals, signals...)
	r.handoff.next.exchanges = append(r.handoff.next.exchanges, *x)
	r.handoff.next.held += t.Size
	if t.Start != nil && t.Start.put {
		r.handoff.next.ended = append(r.handoff.next.ended, x.ID)
	}
}

// collect encodes the rows of changed sessions, and collects the new echo keys.
func (r *recorder) collect(now time.Time, all bool) {
	r.handoff.flushes++
	dirty, echoes := r.waiting.drain(now, all, r.handoff.flushes, r.state.delivered.Load())
	for _, ses := range dirty {
		earlier := ses.put.Swap(r.handoff.flushes) // before dirty: the session must stay in memory meanwhile
		ses.dirty.Store(false)
		encoded := false
		r.guard.On(label.StepEncode, session.Ref{Tenant: ses.Record.Identity.Tenant, ID: ses.Record.Identity.ID}, "", func() {
			var row session.Row
			if row, encoded = r.optouts.row(r.redactor, ses); encoded {
				r.handoff.next.rows = append(r.handoff.next.rows, row)
			}
		})
		if !encoded {
			ses.put.Store(earlier)
		}
	}
	if len(r.handoff.next.rows) > flushAt {
		r.handoff.next.rows = newestRows(r.handoff.next.rows)
	}
	if len(r.handoff.next.echoes)+len(echoes) <= maxEchoes {
		r.handoff.next.echoes = append(r.handoff.next.echoes, echoes...)
	}
	r.handoff.next.flush = r.handoff.flushes
}

// SetPersonal turns the redaction of personal data on or off; secrets are always redacted.
// SetPersonal is safe for concurrent use.
func (r *recorder) SetPersonal(on bool) {
	r.handoff.mu.Lock()
	defer r.handoff.mu.Unlock()
	r.optouts.personal.Store(on)
	r.redactor = r.optouts.newRedactor()
}

// addPending adds the starts of turns in progress to the next batch.
func (r *recorder) addPending() {
	if !r.inbox.stubs {
		return
	}
	still := r.started.open[:0]
	for _, t := range r.started.open {
		if t.done.Load() {
			continue // the queue has the end, or the end is recorded
		}
		if !t.put && !r.tombs.cover(t.x.Tenant, t.x.Session, t.x.At) && !r.guard.On(label.StepBegin, refOf(t.x), t.x.ID, func() {
			r.handoff.next.starts = append(r.handoff.next.starts, r.stub(t.x))
			t.put = true
			r.started.unwritten = append(r.started.unwritten, t)
		}) {
			continue // the end is recorded later
		}
		still = append(still, t)
	}
	clear(r.started.open[len(still):])
	r.started.open = still
}

// markStarts notes whether the outbox has the starts that begin added. Otherwise the next begin adds the
// starts again.
func (r *recorder) markStarts(written bool) {
	for _, t := range r.started.unwritten {
		t.put = written
	}
	clear(r.started.unwritten)
	r.started.unwritten = r.started.unwritten[:0]
}

// stub returns the start of a turn for the outbox.
func (r *recorder) stub(x *sample.Exchange) outbox.Stub {
	out := r.redactor
	out.Reset()
	head := sample.Exchange{
		ID: x.ID, Tenant: x.Tenant, Agent: x.Agent, Session: x.Session, SessionName: out.Text(x.SessionName), Run: out.Text(x.Run), RequestID: x.RequestID,
		Turn: x.Turn, At: x.At, Dialect: x.Dialect, Model: x.Model, Outcome: sample.Incomplete, Lessons: x.Lessons, Book: x.Book, Config: x.Config,
	}
	return outbox.Stub{ID: x.ID, Tenant: x.Tenant, Session: refOf(x).ID, Document: head.Encode().Data}
}
