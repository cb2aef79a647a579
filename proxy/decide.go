package proxy

import (
	"precept/detect"
	"precept/inject"
	"precept/internal/label"
	"precept/internal/session"
)

// plan is what precept decides for one turn.
type plan struct {
	insert       inject.Plan    // matching lessons, picks (the lessons chosen), loops and edits
	results      detect.Results // judgements (error, ok) about tool results, cached
	number       int            // the turn's number in the session
	earlierItems int            // items sent by an earlier turn
}

// decide plans the insertions and deletions. It needs no time limit, because the searched texts have a maximum size.
func (t *turn) decide() {
	if t.in.body.exceededLimit != "" {
		t.replayBlocks()
		return
	}
	t.mailbox().collect(t.in.r.Context())
	now := t.p.opts.Now()
	rec := t.session.Session.Record
	rec.Lock()
	defer rec.Unlock()
	input := inject.Input{Request: t.in.req, Claim: t.query.Claim, Now: now, Unit: t.session.UnitRecord()}
	if why, side := t.p.resolver.SideReason(rec, &t.query); side {
		t.markSide(why)
		if repeatsConversation(why) && rec.ContinuesWithSystemPrompt(t.in.req) {
			t.plan.insert = t.settings.injector.Replay(rec, input)
		}
		return
	}
	input.Book, input.Beliefs, input.Results = t.book, t.p.opts.Chooser(t.in.identity.tenant), &t.plan.results
	input.Rules, input.NoLearning = t.p.opts.rules(), !t.query.Learn || rec.OptOut.ByRequest
	input.ReadsCommands = t.query.Learn && t.settings.cfg.Limits.CaptureBytes > 0
	if t.p.opts.Meaning != nil {
		input.MeaningMatches = t.p.opts.Meaning(rec.Identity.ID)
	}
	t.plan.insert = t.settings.injector.Plan(rec, input)
	t.session.ChangeUnit(func(u *session.Record) { u.CountTurn(now) })
	t.p.resolver.AddTurn(rec, &t.query)
	t.plan.number, t.plan.earlierItems = rec.Thread.Turns, rec.Thread.ItemsBefore
	if t.query.Learn {
		rec.AddPendingTurn(t.plan.number) // the recorder later looks for opted-out paths, and calls SetOptedOut
	} else {
		rec.SetOptedOut(t.plan.number, true)
		rec.OptOut.ByRequest = rec.OptOut.ByRequest || t.query.Claim.LearnOff
	}
	t.skip = t.plan.insert.SkipReason
	t.p.opts.Consultations.countMatch(t.plan.insert.Matched)
	t.p.opts.Metrics.countDecision(&t.plan.insert)
}

// repeatsConversation reports whether a side request can repeat the session's messages. If so, precept inserts the
// session's blocks again.
func repeatsConversation(why label.Reason) bool {
	return why == label.SideNoTools || why == label.SideTools
}

// replayBlocks inserts the session's blocks (the texts inserted earlier) again into a request that exceeds
// limits.inspect_bytes or limits.items.
func (t *turn) replayBlocks() {
	rec := t.session.Session.Record
	rec.Lock()
	defer rec.Unlock()
	why, side := t.p.resolver.SideReason(rec, &t.query)
	if side && !(repeatsConversation(why) && rec.ContinuesWithSystemPrompt(t.in.req)) {
		return
	}
	if !rec.State.OverLimit {
		rec.State.OverLimit, rec.State.Dirty = true, true
		limit := "limits.inspect_bytes"
		if t.in.body.exceededLimit == label.UninspectedItems {
			limit = "limits.items"
		}
		t.log().Warn("a conversation exceeds an inspection limit and gets no new lessons; raise the named limit", "limit", limit, "session", rec.Identity.ID.String())
	}
	input := inject.Input{Request: t.in.req, Claim: t.query.Claim, Now: t.p.opts.Now(), Unit: t.session.UnitRecord()}
	if !side { // a side request keeps all rules file sections
		input.Rules = t.p.opts.rules()
	}
	t.plan.insert = t.settings.injector.Replay(rec, input)
}

func (t *turn) splice() {
	start, edits := t.p.opts.Now(), t.plan.insert.Edits
	size := len(t.in.body.plain) + 1024
	for i := range edits {
		size += 2 * len(edits[i].Text) // escaping in JSON makes a text longer
	}
	out, err := t.in.req.Splice(t.p.pool.get(size), edits, t.plan.insert.Cuts...)
	if err != nil {
		t.skip = "splice"
		t.p.opts.Metrics.FailedOpen(label.StepSplice)
		return
	}
	o := &t.out
	o.spliced = &payload{data: out}
	t.in.body.charge.add(cap(out))
	o.body, o.original, o.decoded = o.spliced, t.in.body.received, t.in.body.unpacked != nil
	if o.length >= 0 {
		o.length = int64(len(out))
	}
	t.p.opts.Metrics.observePhase("splice", t.p.opts.Now().Sub(start), t.out.span.TraceID())
}

func (t *turn) mailbox() mailbox {
	return mailbox{&t.p.opts, &t.p.commands.pending, t.in.identity.tenant, t.session.Session}
}

// recordRejection records that the upstream accepted only the original bytes. precept then inserts no further text into
// the session, or, if the change only deleted rules file sections, deletes no further section.
func (t *turn) recordRejection() {
	t.p.opts.Metrics.rejectedInjections.Inc()
	ses := t.session.Session
	ses.Record.Mutex.Lock()
	defer ses.Record.Mutex.Unlock()
	if len(t.plan.insert.Edits) == 0 {
		t.settings.injector.RecordRefusedCuts(ses.Record)
		t.session.ChangeUnit(func(u *session.Record) { u.Assignment.CutRefused, u.State.Dirty = true, true })
		return
	}
	t.settings.injector.RecordRefusal(ses.Record)
	t.session.ChangeUnit(func(u *session.Record) { u.Assignment.Refused, u.State.Dirty = true, true })
}
