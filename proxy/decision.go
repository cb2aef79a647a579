package proxy

import (
	"precept/detect"
	"precept/inject"
	"precept/lesson"
	"precept/session"
)

// decision is what is inserted into a request.
type decision struct {
	sender
	book    *lesson.Book
	results detect.Results // what was judged of the tool results, by whoever asked first
	plan    inject.Plan
	out     *payload // what goes to the upstream, where something is inserted
	turn    int      // number of the turn in its session
	base    int      // items of the list that an earlier turn has shown
}

// prepare decides what goes out. Whatever fails in it, the client's bytes go out.
func (d *decision) prepare(f *forwarding) {
	if d.body.tail != nil {
		return
	}
	if d.set.nameless {
		d.uninspected("tenant_unknown")
		return
	}
	begin := d.p.opts.Now()
	if !d.guard("parse", d.parse) || d.req == nil || d.left() {
		return
	}
	if !d.guard("identify", d.identify) || d.ses == nil {
		return
	}
	if !d.guard("decide", d.decide) {
		d.plan = inject.Plan{}
	}
	d.p.opts.Metrics.phase("decide", d.p.opts.Now().Sub(begin), d.span.TraceID())
	if len(d.plan.Edits) == 0 {
		return
	}
	if !d.guard("splice", func() { d.splice(f) }) {
		f.body, f.length, f.decoded, f.original = d.body, int64(len(d.body.data)), false, nil
	}
}

// decide asks the rooms below what to insert. It needs no clock to stay within its budget: the text
// that is matched is bounded, and so is the history that is looked at.
func (d *decision) decide() {
	d.mailbox().collect(d.r.Context())
	now := d.p.opts.Now()
	rec := d.ses.Record
	rec.Lock()
	defer rec.Unlock()
	if d.beside(rec) {
		if (d.side == session.SideNoTools || d.side == session.SideTools) && rec.GoesOn(d.req) {
			d.plan = d.set.injector.Replay(rec, inject.Turn{Request: d.req, Claim: d.claim, Now: now, Unit: d.unit.record()})
		}
		return
	}
	d.plan = d.set.injector.Plan(rec, inject.Turn{
		Request: d.req, Claim: d.claim, Book: d.book, Beliefs: d.p.opts.Beliefs(d.who.tenant), Results: &d.results, Now: now,
		Unit: d.unit.record(),
	})
	d.unit.change(func(u *session.Record) { u.CountTurn(now) })
	d.p.quotes.Asked(d.who.scope(), rec.ID, d.req, now)
	d.turn, d.base = rec.Turns, rec.ItemsBefore
	d.await(rec)
	d.skip = d.plan.Skip
	d.p.opts.Consulted.note(d.plan.Matched)
	m := d.p.opts.Metrics
	if d.plan.Spent {
		m.FailedOpen("match")
	}
	m.matched.Add(float64(len(d.plan.Matched)))
	m.picked.Add(float64(len(d.plan.Picks)))
	for i := range d.plan.Picks {
		if d.plan.Picks[i].Injected {
			m.injected.Inc()
		} else {
			m.withheld.Inc()
		}
	}
	m.loops.Add(float64(d.plan.Loops))
}

// splice makes the body that goes out.
func (d *decision) splice(f *forwarding) {
	begin := d.p.opts.Now()
	room := len(d.plain) + 1024
	for i := range d.plan.Edits {
		room += 2 * len(d.plan.Edits[i].Text)
	}
	out, err := d.req.Splice(d.p.pool.get(room), d.plan.Edits)
	if err != nil {
		d.skip = "splice"
		d.p.opts.Metrics.FailedOpen("splice")
		return
	}
	d.out = &payload{data: out}
	d.p.inFlight.add(&d.request, int64(cap(out)))
	f.body, f.original = d.out, d.body
	if f.length >= 0 {
		f.length = int64(len(out))
	}
	f.decoded = d.unpacked != nil
	d.p.opts.Metrics.phase("splice", d.p.opts.Now().Sub(begin), d.span.TraceID())
}

// rejected notes that the upstream took the original where it had refused ours.
func (d *decision) rejected() {
	d.p.opts.Metrics.rejected.Inc()
	d.ses.Lock()
	defer d.ses.Unlock()
	d.set.injector.Refused(d.ses.Record)
	d.unit.change(func(u *session.Record) { u.Assignment.Refused, u.Dirty = true, true })
}
