package proxy

import (
	"encoding/json"
	"time"

	"precept/sample"
	"precept/store"
)

// record hands what is worth keeping to the recorder, and gives the session back. It copies only
// what is new in the turn.
func (t *turn) record() {
	if t.ses == nil {
		if t.unit.Session != nil {
			t.p.opts.Store.Release(t.unit.Session, store.Unchanged)
		}
		return
	}
	defer t.p.opts.Store.Abandon(t.begun) // nothing to do when it was offered
	now := t.p.opts.Now()
	t.over()
	main := t.side == ""
	changed := store.Unchanged
	defer func() { // also when what follows panics
		t.unoffered()
		t.p.opts.Store.Release(t.ses, changed)
		if t.unit.Session != nil {
			t.p.opts.Store.Release(t.unit.Session, changed)
		}
	}()
	if !t.learn {
		t.p.opts.Store.Tally.OptedOut.Add(1)
		if main {
			changed = store.Counted // a row that there is learns that this turn opted out
		}
		return
	}
	switch {
	case t.decided():
		changed = store.Decided
	case main:
		changed = store.Counted
	}
	if t.kept == nil || !t.gathered {
		return
	}
	t.complete(now)
	t.offer(store.Turn{
		Exchange: t.kept, Begun: t.begun, Size: t.size, Signals: t.signals, Answered: t.answered,
	})
}

// decided says that the turn decided something which later turns have to keep to.
func (d *decision) decided() bool {
	return d.isNew || len(d.plan.Picks)+len(d.plan.Matched)+d.plan.Loops > 0 || d.plan.Answered
}

// publish lets other replicas know what was decided, before the client has the whole answer; and
// how far a session has come that goes from one to the other, or that the turn opted out. One that
// stays is written in its own time.
func (t *turn) publish() {
	if !t.p.opts.Store.Shared() {
		return
	}
	if t.claim.LearnOff && t.ses != nil && t.side == "" {
		t.guard("publish", func() { t.p.opts.Store.PublishOptOut(t.ses, t.waited) })
		return
	}
	if t.kept == nil || !t.gathered || !t.learn || !t.decided() && !t.moved && len(t.writs) == 0 {
		return
	}
	t.guard("publish", func() {
		t.complete(t.p.opts.Now())
		t.p.opts.Store.Publish(t.ses, t.unit.Session, t.kept, t.answered, t.waited)
	})
}

// begin admits the turn, before its request goes out.
func (t *turn) begin() {
	if t.ses == nil || t.side != "" || !t.learn || t.set.cfg.Limits.CaptureBytes <= 0 {
		return
	}
	id, err := sample.NewID(t.p.opts.Rand)
	if err != nil {
		return
	}
	t.kept = &sample.Exchange{
		ID: id, Tenant: t.who.tenant, Agent: t.claim.Agent, Session: t.ses.ID.String(), SessionName: t.ses.Name, Run: t.ses.RunName,
		RequestID: t.w.id, Turn: t.turn, At: t.started.UTC(), Dialect: t.dialect.String(), Model: t.req.Model,
		Loops: t.plan.Loops, Book: t.book.Hash(), Config: t.set.hash, Lessons: t.plan.Lessons,
	}
	t.begun = t.p.opts.Store.Begin(t.kept)
}

// gather takes what is kept of the request out of its buffer, which is about to be given back.
func (t *turn) gather() {
	if t.kept == nil {
		return
	}
	t.size = int64(t.newItems(t.kept))
	t.signals, t.answered = t.results.Signals(t.req, t.remembered), t.arguments()
	t.gathered = true
}

// complete adds what became of the turn, once.
func (t *turn) complete(now time.Time) {
	if t.completed {
		return
	}
	t.completed = true
	x := t.kept
	x.Status, x.Outcome, x.LatencyMS = t.watch.status, t.outcome(), ms(now.Sub(t.started))
	if !t.watch.first.IsZero() {
		x.FirstMS = ms(t.watch.first.Sub(t.started))
	}
	size := 0
	if rep := t.watch.reply; rep != nil {
		x.Reply = sample.Reply{
			ID: rep.ID, Text: rep.Text, Finish: rep.Finish, Error: rep.Error,
			InputTokens: max(rep.Usage.Input, 0), CachedTokens: max(rep.Usage.Cached, 0), OutputTokens: max(rep.Usage.Output, 0),
		}
		if rep.Choices > 1 {
			x.Reply.Choices = rep.Choices
		}
		size += len(rep.Text)
		for _, c := range rep.Calls {
			x.Reply.Calls = append(x.Reply.Calls, sample.Call{ID: c.ID, Name: c.Name, Args: c.Args})
			size += len(c.Args)
		}
		x.Truncated = x.Truncated || rep.Cut
	}
	x.Truncated = x.Truncated || t.watch.overflow
	t.size = max(t.size+int64(size), 1)
}

// newItems copies the items that no earlier turn has shown, up to capture_limit.
func (d *decision) newItems(x *sample.Exchange) (size int) {
	from := d.base
	if d.turn <= 1 {
		from = 0
	} else if n := d.req.New(); n < from && d.req.End() == d.req.Len() { // the history was cut or rewritten: what follows the last reply is new
		from = n
	}
	if d.req.Delta || from > d.req.Len() {
		from = 0
	}
	x.NewFrom, x.Given = from, max(d.req.New()-from, 0)
	limit, end := int(d.set.cfg.Learning.CaptureLimit), from
	for ; end < d.req.Len(); end++ {
		n := len(d.req.Raw(end))
		if size+n > limit {
			x.Truncated = true
			break
		}
		size += n
	}
	if from == end {
		return 0
	}
	x.New = make([]json.RawMessage, 0, end-from)
	for room := make([]byte, 0, size); from < end; from++ {
		b := d.req.Raw(from)
		room = append(room, b...)
		x.New = append(x.New, json.RawMessage(room[len(room)-len(b):len(room):len(room)]))
	}
	return size
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
