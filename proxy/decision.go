package proxy

import (
	"precept/detect"
	"precept/inject"
	"precept/inject/lesson"
	"precept/internal/label"
	"precept/internal/session"
)

// decision is what is inserted into a request.
type decision struct {
	sender
	pending *pendingReplies
	book    *lesson.Book
	results detect.Results // what was judged of the tool results, by whoever asked first
	plan    inject.Plan
	spliced *payload // what goes to the upstream, where something is inserted
	number  int      // of the turn in its session
	base    int      // items of the list that an earlier turn has shown
}

// prepare decides what goes out. Whatever fails in it, the client's bytes go out.
func (d *decision) prepare() {
	if d.body.tail != nil {
		return
	}
	if d.set.nameless {
		d.uninspected(label.UninspectedTenant)
		return
	}
	begin := d.opts.Now()
	if !d.guard(label.StepParse, d.parse) || d.req == nil || d.left() {
		return
	}
	if !d.guard(label.StepIdentify, d.identify) || d.ses == nil {
		return
	}
	if !d.guard(label.StepDecide, d.decide) {
		d.plan = inject.Plan{}
	}
	d.opts.Metrics.phase("decide", d.opts.Now().Sub(begin), d.span.TraceID())
	if len(d.plan.Edits) == 0 {
		return
	}
	if !d.guard(label.StepSplice, d.splice) {
		d.out.body, d.out.length, d.out.decoded, d.out.original = d.body, int64(len(d.body.data)), false, nil
	}
}

// decide asks the rooms below what to insert. It needs no clock to stay within its budget: the text
// that is matched is bounded, and so is the history that is looked at.
func (d *decision) decide() {
	d.mailbox().collect(d.r.Context())
	now := d.opts.Now()
	rec := d.ses.Record
	rec.Lock()
	defer rec.Unlock()
	if d.beside(rec) {
		if (d.found.Side == label.SideNoTools || d.found.Side == label.SideTools) && rec.GoesOn(d.req) {
			d.plan = d.set.injector.Replay(rec, inject.Turn{Request: d.req, Claim: d.query.Claim, Now: now, Unit: d.found.UnitRecord()})
		}
		return
	}
	d.plan = d.set.injector.Plan(rec, inject.Turn{
		Request: d.req, Claim: d.query.Claim, Book: d.book, Beliefs: d.opts.Beliefs(d.who.tenant), Results: &d.results, Now: now,
		Unit: d.found.UnitRecord(),
	})
	d.found.ChangeUnit(func(u *session.Record) { u.CountTurn(now) })
	d.resolver.Asked(rec, &d.query)
	d.number, d.base = rec.Thread.Turns, rec.Thread.ItemsBefore
	d.await(rec)
	d.skip = d.plan.Skip
	d.opts.Consulted.note(d.plan.Matched)
	m := d.opts.Metrics
	if d.plan.Spent {
		m.FailedOpen(label.StepMatch)
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

// mailbox is where the session finds the answers to its commands.
func (d *decision) mailbox() mailbox { return mailbox{d.opts, d.pending, d.who.tenant, d.ses} }

// splice makes the body that goes out.
func (d *decision) splice() {
	begin := d.opts.Now()
	room := len(d.plain) + 1024
	for i := range d.plan.Edits {
		room += 2 * len(d.plan.Edits[i].Text)
	}
	out, err := d.req.Splice(d.pool.get(room), d.plan.Edits)
	if err != nil {
		d.skip = "splice"
		d.opts.Metrics.FailedOpen(label.StepSplice)
		return
	}
	d.spliced = &payload{data: out}
	d.charge.add(cap(out))
	d.out.body, d.out.original, d.out.decoded = d.spliced, d.body, d.unpacked != nil
	if d.out.length >= 0 {
		d.out.length = int64(len(out))
	}
	d.opts.Metrics.phase("splice", d.opts.Now().Sub(begin), d.span.TraceID())
}

// rejected notes that the upstream took the original where it had refused ours.
func (d *decision) rejected() {
	d.opts.Metrics.rejected.Inc()
	d.ses.Lock()
	defer d.ses.Unlock()
	d.set.injector.Refused(d.ses.Record)
	d.found.ChangeUnit(func(u *session.Record) { u.Assignment.Refused, u.State.Dirty = true, true })
}

// await notes, when a turn begins, whether anything of it may be kept: no, or not known before the
// recorder has looked for paths that opted out. The caller has the record's lock.
func (d *decision) await(rec *session.Record) {
	if d.query.Learn {
		rec.Await(d.number)
	} else {
		rec.Judged(d.number, true)
		rec.OptOut.Asked = rec.OptOut.Asked || d.query.Claim.LearnOff
	}
}
