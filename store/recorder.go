package store

import (
	"time"

	"precept/sample"
)

const (
	flushEvery = 50 * time.Millisecond
	laterEvery = time.Second
	tidyEvery  = time.Second // how often it is asked whether something is too old
	flushAt    = 500         // exchanges
	queueLen   = 8192
	writeLimit = 10 * time.Second // one attempt to write a batch
	pieceBytes = 4 << 20          // of exchanges that are put down at once
)

// admitSome admits what was offered, so much of it as is put down at once, and says whether there
// is more. Turns wait in a list, not in a channel: a recorder that is woken for each of them costs
// the request more than the offer itself. The caller has mu.
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
		r.next.over(l.begun, l.reason)
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
		r.next.over(t.Begun, reason)
		if reason == droppedOptOut && t.Begun != nil && t.Begun.put {
			r.scrub = true // nor shall its beginning stay in the spool
		}
	}
	defer func() {
		if value := recover(); value != nil {
			r.tally.DroppedBad.Add(1)
			gone(droppedBad)
			at := AtRequest{Value: value}
			if x := t.Exchange; x != nil {
				at.Request = x.RequestID
				r.guard.SetAside("record", refOf(x), x.ID, value)
			}
			r.opts.Panicked("record", at)
		}
	}()
	x := t.Exchange
	r.guard.Before("record", refOf(x).ID, x.ID)
	if r.tombs.cover(x.Tenant, x.Session, x.At) || r.out.OptedOut(x, t.Answered) {
		r.tally.OptedOut.Add(1)
		gone(droppedOptOut)
		return
	}
	r.out.redact(r.redactor, x)
	x.Seal() // once, for the spool and the backend: here, because what panics in it costs this exchange
	x.New, x.Reply = nil, sample.Reply{}
	signals := r.implicit(x, t.Signals)
	r.next.signals = append(r.next.signals, signals...)
	r.next.exchanges = append(r.next.exchanges, *x)
	r.next.held += t.Size
	if t.Begun != nil && t.Begun.put {
		r.next.finish(x.ID)
	}
}
