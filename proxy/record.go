package proxy

import (
	"bytes"
	"encoding/json"
	"slices"

	"precept/detect"
	"precept/inject/lesson"
	"precept/inject/writ"
	"precept/internal/label"
	"precept/internal/sample"
	"precept/internal/session"
	"precept/internal/wire"
	"precept/store"
)

// draft holds a turn's exchange (the stored part of request and reply) until the recorder gets the exchange.
type draft struct {
	exchange     *sample.Exchange
	start        *store.TurnStart // registration at the store
	size         int64            // bytes in exchange
	signals      []detect.Signal  // signals in the request, such as a test run's outcome
	hasNewWork   bool             // commit, branch or pull request in a tool result
	answeredArgs []string         // arguments of calls with a result; the recorder searches them for opted-out paths
}

// draftExchange makes the turn's draft, and registers the turn at the store before the request is sent. Side requests
// (for a title, for example) and opted-out turns get no draft.
func (t *turn) draftExchange() {
	if !t.isMain() || !t.query.Learn || t.settings.cfg.Limits.CaptureBytes <= 0 {
		return
	}
	id, err := sample.NewID(t.p.opts.Rand)
	if err != nil {
		return
	}
	member, plan := t.session.Session.Record.MemberNow(), &t.plan.insert
	t.draft = &draft{exchange: &sample.Exchange{
		ID: id, Tenant: t.in.identity.tenant, Agent: t.query.Claim.Agent, Session: member.ID.String(), SessionName: member.Name, Run: member.UnitName,
		RequestID: t.w.id, Caller: t.in.identity.caller(), Turn: t.plan.number, At: t.in.started.UTC(), Dialect: t.in.dialect.String(), Model: t.in.req.Model,
		Loops: plan.Loops, Book: t.book.Hash(), Config: t.settings.hash, Lessons: plan.Lessons, Facts: sample.TurnFacts{Tags: slices.Clone(t.query.Claim.Tags)},
	}}
	t.draft.start = t.p.opts.Store.BeginTurn(t.draft.exchange)
}

// discard drops an incomplete draft, because an opt-out could be in the missing part.
func (t *turn) discard() {
	if t.draft != nil {
		t.p.opts.Store.Abandon(t.draft.start)
		t.draft = nil
	}
}

// copyRequest copies the request into the draft, before the request's buffer returns to the pool.
func (t *turn) copyRequest() {
	if t.draft == nil {
		return
	}
	size := t.copyNewItems(t.draft.exchange)
	if t.plan.number <= 1 {
		size += t.copyPrompt(t.draft.exchange, size)
		t.draft.exchange.Facts.Task = session.FirstWords(t.in.req)
	}
	t.draft.size = int64(size)
	t.draft.signals, t.draft.answeredArgs = t.plan.results.Signals(t.in.req, t.earlierCall), t.answeredArguments()
	if results, failed := t.plan.results.Failed(t.in.req, t.earlierCall); results > 0 {
		t.draft.exchange.ResultJudgements = &sample.ResultJudgements{Results: results, Failed: failed}
		if len(failed) > 0 {
			t.draft.exchange.Facts.Kinds = t.plan.results.FailedKinds(t.in.req, t.earlierCall)
		}
	}
	t.addWork()
}

// addWork adds the commits, branches and pull requests in the tool results to the session, so that feedback on this
// work finds the session.
func (t *turn) addWork() {
	refs := t.plan.results.WorkRefs(t.in.req, t.earlierCall)
	if len(refs) == 0 {
		return
	}
	rec := t.session.Session.Record
	rec.Lock()
	keys, id := rec.AddWork(t.plan.number, refs), rec.Identity.ID
	rec.Unlock()
	echoes := make([]session.Echo, len(keys))
	for i, k := range keys {
		echoes[i] = session.Echo{Tenant: t.in.identity.tenant, Key: k, ID: id, At: t.in.started}
	}
	t.draft.hasNewWork = len(keys) > 0
	t.holdKeys(echoes)
}

// copyNewItems copies the new items, up to learning.capture_limit.
func (t *turn) copyNewItems(exchange *sample.Exchange) (size int) {
	req, from := t.in.req, t.plan.earlierItems
	if t.plan.number <= 1 {
		from = 0
	} else if n := req.FirstNew(); n < from && req.End() == req.Len() { // in a rewritten history, items after the last reply are new
		from = n
	}
	if req.Delta || from > req.Len() {
		from = 0
	}
	exchange.FirstNew, exchange.Repeated = from, max(req.FirstNew()-from, 0)
	limit, end := int(t.settings.cfg.Learning.CaptureLimit), from
	for ; end < req.Len(); end++ {
		n := len(req.Raw(end))
		if size+n > limit {
			exchange.Truncated = true
			break
		}
		size += n
	}
	if from == end {
		return 0
	}
	exchange.New = make([]json.RawMessage, 0, end-from)
	for copied := make([]byte, 0, size); from < end; from++ {
		b := req.Raw(from)
		copied = append(copied, b...)
		exchange.New = append(exchange.New, json.RawMessage(copied[len(copied)-len(b):len(copied):len(copied)]))
	}
	return size
}

// copyPrompt copies the system prompt and the tools, which every turn sends again. used is the size of the turn's
// items.
func (t *turn) copyPrompt(exchange *sample.Exchange, used int) (size int) {
	limit := int(t.settings.cfg.Learning.CaptureLimit) - used
	keep := func(raw []byte) json.RawMessage {
		if size+len(raw) > limit {
			exchange.Truncated = true
			return nil
		}
		size += len(raw)
		return bytes.Clone(raw)
	}
	system, tools := t.in.req.Prompt()
	exchange.System, exchange.Tools = keep(system), keep(tools)
	return size
}

// answeredArguments returns the arguments of calls with new results, so that the recorder can drop a result if the call
// named an opted-out path. sample.UnknownArgs stands for arguments that only the provider has.
func (t *turn) answeredArguments() []string {
	var args []string
	req := t.in.req
	for i := max(req.FirstNew(), 0); i < req.Len(); i++ {
		for _, res := range req.Item(i).Results {
			if c, ok := req.FindCall(res.CallID); ok {
				args = append(args, c.Args)
			} else if c, ok := t.earlierCall(res.CallID); ok && !session.HasHashedArgs(c) {
				args = append(args, c.Args)
			} else if req.Delta && res.CallID != "" {
				args = append(args, sample.UnknownArgs)
			}
		}
	}
	return args
}

func (t *turn) earlierCall(id string) (wire.Call, bool) {
	ses := t.session.Session
	ses.Record.Mutex.Lock()
	defer ses.Record.Mutex.Unlock()
	c, ok := ses.Record.Thread.Calls[id]
	return c, ok
}

// publish writes the session before the client has the whole reply, because the next turn may reach a different
// replica. The end of the reply waits for the write if the turn opted out, made decisions or has /lesson commands, or
// if the session moves between replicas.
func (t *turn) publish() {
	st := t.p.opts.Store
	if !st.IsShared() {
		return
	}
	if t.query.Claim.LearnOff && t.isMain() {
		t.runStep(label.StepPublish, func() { st.PublishOptOut(t.session.Session, t.session.Waited) })
		return
	}
	if t.draft == nil {
		return
	}
	t.runStep(label.StepPublish, func() {
		t.completeDraft()
		if !t.hasDecided() && !t.session.MayHaveMoved && len(t.reply.commands) == 0 {
			st.PublishCounts(t.session.Session, t.draft.exchange, t.draft.answeredArgs)
			return
		}
		st.Publish(t.session.Session, t.session.Unit, t.draft.exchange, t.draft.answeredArgs, t.session.Waited)
	})
}

// record ends the turn.
func (t *turn) record() {
	t.release()
	if t.reply.reader != nil {
		t.resolveReply() // of a cut reply, the received part is used
	}
	t.runStep(label.StepWritCommand, t.queueCommands)
	t.runStep(label.StepRecord, t.offer)
	t.p.inFlight.replyCopyBytes.Add(-t.reply.copied)
}

// offer passes the draft to the recorder. If the recorder has no room, offer only searches the turn for an opt-out,
// because the session's row needs the result.
func (t *turn) offer() {
	st := t.p.opts.Store
	if t.session.Session == nil {
		return
	}
	defer t.abandonUnoffered()
	t.end()
	changed := t.storeChange()
	defer func() { // even when a step panics
		t.handleUnoffered()
		st.Release(t.session.Session, changed)
		if t.session.Unit != nil {
			st.Release(t.session.Unit, changed)
		}
	}()
	if !t.query.Learn {
		t.p.opts.Tally.OptedOut.Add(1)
		return
	}
	if t.draft == nil {
		return
	}
	t.completeDraft()
	t.advanceTo(phaseOffered)
	d := t.draft
	if !st.Offer(store.Turn{
		Exchange: d.exchange, Start: d.start, Size: d.size, Signals: d.signals, Answered: d.answeredArgs, Session: t.session.Session, Unit: t.session.Unit,
	}) {
		_ = st.OptedOut(d.exchange, d.answeredArgs)
	}
}

// completeDraft adds the reply and the outcome to the draft. Only the first call has an effect.
func (t *turn) completeDraft() {
	if !t.advanceTo(phaseComplete) {
		return
	}
	exchange, r := t.draft.exchange, &t.reply
	exchange.Status, exchange.Outcome, exchange.LatencyMS = r.status, t.outcome(), milliseconds(t.p.opts.Now().Sub(t.in.started))
	if !r.headersAt.IsZero() {
		exchange.FirstByteMS = milliseconds(r.headersAt.Sub(t.in.started))
	}
	size := 0
	if rep := r.parsed; rep != nil {
		exchange.Reply = sample.Reply{
			ID: rep.ID, Text: rep.Text, Finish: rep.Finish, Error: rep.Error,
			InputTokens: max(rep.Usage.Input, 0), CachedTokens: max(rep.Usage.Cached, 0), OutputTokens: max(rep.Usage.Output, 0),
			Written: rep.Usage.Written, WrittenHour: rep.Usage.WrittenHour,
		}
		if rep.Choices > 1 {
			exchange.Reply.Choices = rep.Choices
		}
		size += len(rep.Text)
		for _, c := range rep.Calls {
			exchange.Reply.Calls = append(exchange.Reply.Calls, sample.Call{ID: c.ID, Name: c.Name, Args: c.Args})
			size += len(c.Args)
		}
		t.draft.answeredArgs = append(t.draft.answeredArgs, rep.HostedArgs...)
		exchange.Truncated = exchange.Truncated || rep.Cut
	}
	t.draft.size = max(t.draft.size+int64(size), 1)
}

// hasDecided reports whether the turn made a decision that later turns must repeat.
func (t *turn) hasDecided() bool {
	p := &t.plan.insert
	return t.session.IsNew || len(p.Picks)+len(p.Matched)+p.Loops > 0 || p.Answered || t.draft != nil && t.draft.hasNewWork
}

// storeChange returns how the turn changed the session. An opt-out counts as a change, because an existing row must
// show it.
func (t *turn) storeChange() store.Change {
	switch {
	case t.query.Learn && t.hasDecided():
		return store.DecisionsChanged
	case t.isMain(), t.query.Learn && t.in.body.exceededLimit != "" && t.session.Session != nil:
		return store.CountsChanged
	}
	return store.Unchanged
}

// handleUnoffered decides the opt-out for a turn that the recorder did not get. After a failed step, the turn counts as
// opted out and the keys are dropped, because nothing searched the turn for an opt-out. With capture off, the keys
// stay. A side request's keys are dropped if the session has an opt-out.
func (t *turn) handleUnoffered() {
	if !t.query.Learn || t.phase >= phaseOffered {
		return
	}
	ses := t.session.Session
	ses.Record.Mutex.Lock()
	keep := t.settings.cfg.Limits.CaptureBytes <= 0
	if t.isMain() {
		ses.Record.SetOptedOut(t.plan.number, !keep)
	} else {
		keep = len(ses.Record.OptOut.Turns) == 0
	}
	ses.Record.Mutex.Unlock()
	t.p.opts.Store.ReleaseKeys(t.w.id, keep)
}

func (t *turn) abandonUnoffered() {
	if t.draft != nil {
		t.p.opts.Store.Abandon(t.draft.start)
	}
}

// findCommands returns the reply's /lesson commands. The session's next turn then waits for the answers.
func (t *turn) findCommands() []writ.Command {
	rep, ses := t.reply.parsed, t.session.Session
	if !t.settings.cfg.Writ.Enabled || t.p.opts.Bank == nil || t.draft == nil || !rep.Complete || t.reply.reader.Dropped() {
		return nil
	}
	found := writ.Parse(rep.Text, rep.Cut)
	if len(found) > 0 {
		t.p.commands.pending.add(ses.Record.Identity.ID)
		t.mailbox().setPending(t.w.id, true)
	}
	return found
}

func (t *turn) queueCommands() {
	if len(t.reply.commands) == 0 {
		return
	}
	t.completeDraft()
	job := commandJob{
		settings: t.settings, scope: lesson.Scope{Tenant: t.in.identity.tenant, Agent: t.query.Claim.Agent}, session: t.session.Session.Record.Identity.ID, request: t.w.id, commands: t.reply.commands,
	}
	if !t.p.opts.Store.OptedOut(t.draft.exchange, t.draft.answeredArgs) && t.p.commands.enqueue(&job) {
		return
	}
	t.p.commands.pending.end(job.session)
	t.mailbox().setPending(t.w.id, false)
}
