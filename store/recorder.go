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

// recorder writes turns, changed sessions' rows and new echo keys to the outbox. It leaves out opted-out content, and
// redacts the rest. handoff.mu guards the fields from redactor on.
type recorder struct {
	inbox      *inbox
	changes    *changeQueue
	optOuts    *optOutFilter
	tombstones *tombstones
	handoff    *handoff
	guard      *guard.Guard
	metrics    *Metrics
	state      *state
	onPanic    func(step label.Step, value any)
	onRecorded func(x *sample.Exchange) // can be nil
	sentiment  bool                     // the user's sentiment is implicit feedback

	redactor      *redact.Redactor // continues the session's placeholder numbers
	reusableTurns []Turn           // empty; the inbox reuses the memory
	inProgress    turnsInProgress
}

type turnsInProgress struct {
	reusableTurns []*TurnStart // empty; inbox.startedTurns reuses the memory
	turns         []*TurnStart // turns in progress at the last flush
	unwritten     []*TurnStart // turns with a stub in handoff.pending
}

// record writes new turns and changed sessions' rows to the outbox. Rows in which only counts changed wait for
// delayedPause, unless all is set. A crash loses at most the turns since the last call.
//
// record works in pieces, because redaction, encoding and writing copy each exchange, and many turns can end together,
// for example when the network fails.
func (r *recorder) record(now time.Time, all bool) {
	r.handoff.mu.Lock()
	defer r.handoff.mu.Unlock()
	for more := true; more; {
		more = r.admitPiece()
		r.collectChanges(now, all)
		if r.handoff.isPaused(now) {
			continue
		}
		r.addStubs()
		r.markStubs(r.handoff.commit(now))
	}
}

// admitPiece admits one piece of the offered turns, and reports whether more remain. The inbox is not a channel,
// because waking the recorder for each turn would slow down requests. The caller holds handoff.mu.
func (r *recorder) admitPiece() (more bool) {
	r.inbox.mu.Lock()
	turns, abandoned, begun := r.inbox.takePiece(r.reusableTurns[:0]), r.inbox.abandoned, r.inbox.startedTurns
	r.inbox.abandoned, r.inbox.startedTurns, more = nil, r.inProgress.reusableTurns[:0], len(r.inbox.queue) > 0
	r.inbox.mu.Unlock()
	for i := range turns {
		r.admit(turns[i])
		turns[i] = Turn{}
	}
	r.reusableTurns = turns
	for _, turn := range abandoned {
		r.handoff.pending.endTurn(turn.start, turn.reason)
	}
	for _, t := range begun {
		if !t.done.Load() {
			r.inProgress.turns = append(r.inProgress.turns, t)
		}
	}
	clear(begun)
	r.inProgress.reusableTurns = begun
	return more
}

// admit redacts one turn's exchange, and adds it to handoff.pending. admit drops the exchange if it opted out, if the
// session was deleted, or if a step panics. No unredacted text leaves admit.
func (r *recorder) admit(t Turn) {
	defer t.addPins(-1)
	drop := func(reason string) {
		r.metrics.Pending.Add(-1)
		r.state.heldBytes.Add(-t.Size)
		r.handoff.pending.endTurn(t.Start, reason)
		if reason == droppedOptOut && t.Start != nil && t.Start.stubWritten {
			r.handoff.pending.scrub = true // the outbox file must also lose the stub
		}
	}
	defer func() {
		if value := recover(); value != nil {
			r.metrics.DroppedBad.Add(1)
			drop(droppedBad)
			atRequest := RequestPanic{Value: value}
			if x := t.Exchange; x != nil {
				atRequest.Request = x.RequestID
				r.guard.SetAside(label.StepRecord, sessionRef(x), x.ID, value)
			}
			r.onPanic(label.StepRecord, atRequest)
		}
	}()
	x := t.Exchange
	r.guard.Before(label.StepRecord, sessionRef(x).ID, x.ID)
	if r.tombstones.covers(x.Tenant, x.Session, x.At) || r.optOuts.OptedOut(x, t.Answered) {
		r.metrics.OptedOut.Add(1)
		drop(droppedOptOut)
		return
	}
	r.optOuts.redactTurn(r.redactor, x)
	if r.onRecorded != nil {
		r.onRecorded(x)
	}
	x.Seal() // encodes the exchange once, for outbox and backend; a panic drops only this exchange
	x.New, x.System, x.Tools, x.Reply = nil, nil, nil, sample.Reply{}
	signals := exchangeSignals(x, t.Signals, r.sentiment)
	r.handoff.pending.signals = append(r.handoff.pending.signals, signals...)
	r.handoff.pending.exchanges = append(r.handoff.pending.exchanges, *x)
	r.handoff.pending.heldBytes += t.Size
	if t.Start != nil && t.Start.stubWritten {
		r.handoff.pending.endedIDs = append(r.handoff.pending.endedIDs, x.ID)
	}
}

// collectChanges starts a new flush, and adds changed sessions' rows and new echo keys to handoff.pending.
func (r *recorder) collectChanges(now time.Time, all bool) {
	r.handoff.flushCount++
	dirty, echoes := r.changes.drain(now, all, r.handoff.flushCount, r.state.delivered.Load())
	for _, ses := range dirty {
		earlier := ses.rowFlush.Swap(r.handoff.flushCount) // set before dirty is cleared, because one of the two must keep the session in memory
		ses.dirty.Store(false)
		encoded := false
		r.guard.RunOn(label.StepEncode, session.Ref{Tenant: ses.Record.Identity.Tenant, ID: ses.Record.Identity.ID}, "", func() {
			var row session.Row
			if row, encoded = r.optOuts.redactedRow(r.redactor, ses); encoded {
				r.handoff.pending.rows = append(r.handoff.pending.rows, row)
			}
		})
		if !encoded {
			ses.rowFlush.Store(earlier)
		}
	}
	if len(r.handoff.pending.rows) > flushAt {
		r.handoff.pending.rows = newestRows(r.handoff.pending.rows)
	}
	if len(r.handoff.pending.echoes)+len(echoes) <= maxEchoes {
		r.handoff.pending.echoes = append(r.handoff.pending.echoes, echoes...)
	}
	r.handoff.pending.flushNumber = r.handoff.flushCount
}

// SetRedactPersonal turns the redaction of personal data on or off.
func (r *recorder) SetRedactPersonal(redactPersonal bool) {
	r.handoff.mu.Lock()
	defer r.handoff.mu.Unlock()
	r.optOuts.redactPersonal.Store(redactPersonal)
	r.redactor = r.optOuts.newRedactor()
}

func (r *recorder) addStubs() {
	if !r.inbox.stubs {
		return
	}
	inProgress := r.inProgress.turns[:0]
	for _, t := range r.inProgress.turns {
		if t.done.Load() {
			continue // ended, and in the inbox or in handoff.pending
		}
		if !t.stubWritten && !r.tombstones.covers(t.exchange.Tenant, t.exchange.Session, t.exchange.At) {
			added := r.guard.RunOn(label.StepBegin, sessionRef(t.exchange), t.exchange.ID, func() {
				r.handoff.pending.stubs = append(r.handoff.pending.stubs, r.newStub(t.exchange))
				t.stubWritten = true
				r.inProgress.unwritten = append(r.inProgress.unwritten, t)
			})
			if !added {
				continue // after a panic the turn has no stub
			}
		}
		inProgress = append(inProgress, t)
	}
	clear(r.inProgress.turns[len(inProgress):])
	r.inProgress.turns = inProgress
}

// markStubs records whether the stubs from the last addStubs were written. If not, the next addStubs adds them again.
func (r *recorder) markStubs(written bool) {
	for _, t := range r.inProgress.unwritten {
		t.stubWritten = written
	}
	clear(r.inProgress.unwritten)
	r.inProgress.unwritten = r.inProgress.unwritten[:0]
}

// newStub returns a turn's stub: identity and decisions, without content.
func (r *recorder) newStub(x *sample.Exchange) outbox.Stub {
	redactor := r.redactor
	redactor.Reset()
	head := sample.Exchange{
		ID: x.ID, Tenant: x.Tenant, Agent: x.Agent, Session: x.Session, SessionName: redactor.Text(x.SessionName), Run: redactor.Text(x.Run), RequestID: x.RequestID,
		Turn: x.Turn, At: x.At, Dialect: x.Dialect, Model: x.Model, Outcome: sample.Incomplete, Lessons: x.Lessons, Book: x.Book, Config: x.Config,
	}
	return outbox.Stub{ID: x.ID, Tenant: x.Tenant, Session: sessionRef(x).ID, Document: head.Encode().Data}
}
