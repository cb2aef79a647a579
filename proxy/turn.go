package proxy

import (
	"encoding/hex"
	"log/slog"
	"net/http"

	"precept/inject"
	"precept/inject/lesson"
	"precept/internal/label"
	"precept/internal/session"
	"precept/internal/wire"
	"precept/proxy/resolve"
)

// turn is one request on an inspected path, and its reply.
type turn struct {
	p           *Proxy
	settings    *settings
	book        *lesson.Book
	w           *clientWriter  // holds the request id
	in          incoming       // set by accept, read and parse
	forwarder   forwarder      // uses the request's buffers until release
	out         outgoing       // set by accept and read; splice replaces the body
	skip        string         // why nothing is inserted (Precept-Skip)
	pendingKeys []session.Echo // keys to find the session again; see holdKeys

	query   resolve.Query  // set by resolve
	session resolve.Result // set by resolve; decide adds Side
	plan    plan           // set by decide
	draft   *draft         // set by draftExchange; nil means the turn is not recorded
	reply   reply
	phase   phase
}

// phase is a turn's progress, which only increases.
type phase uint8

const (
	phaseOpen     phase = iota // the request can be sent again, so the buffers are in use
	phaseReleased              // the upstream answered, and the buffers are in the pool
	phaseEnded                 // the resolver knows that the request has ended
	phaseResolved              // the resolver knows the reply, so the next request finds the session
	phaseComplete              // the draft has the outcome
	phaseOffered               // the recorder has accepted or refused the turn
)

// advanceTo moves the turn to a phase. It returns false if the turn has already reached that phase.
func (t *turn) advanceTo(next phase) bool {
	if t.phase >= next {
		return false
	}
	t.phase = next
	return true
}

// serveTurn serves a request that goes to an upstream. The function is long, to show the order of the steps.
//
// After a panic between read and forward, the client's own bytes are forwarded. When the upstream cuts the stream,
// serveTurn panics with http.ErrAbortHandler, so that the response does not look complete.
func (p *Proxy) serveTurn(w *clientWriter, r *http.Request) error {
	set := p.settings.Load()
	in, out, err := p.accept(set, w, r)
	if err != nil {
		return err
	}
	defer p.endAccepted(out.target)
	if in.dialect == wire.NoDialect {
		f := forwarder{p: p, w: w, r: in.r, out: &out, observer: noObserver{}}
		f.serve()
		return nil
	}
	t := &turn{p: p, settings: set, book: p.opts.Book(), w: w, in: in, out: out}
	t.forwarder = forwarder{p: p, w: w, r: in.r, out: &t.out, observer: t}
	t.out.span = p.opts.Tracer.Start(in.r.Context(), in.r.Header, in.started)
	defer t.observe()

	// Read: the body, up to the inspection limit. An incomplete body gets an error.
	if err := t.read(); err != nil {
		return err
	}
	// Record: after the reply, even when forwarding panics.
	defer t.record()

	// Parse: the message list. An unparseable body is forwarded unchanged.
	decisionStart := p.opts.Now()
	if t.inspectable() {
		t.runStep(label.StepParse, t.parse)
	}

	// Resolve: the session for the request.
	if t.in.req != nil && !t.clientGone() {
		t.runStep(label.StepIdentify, t.resolve)
	}

	// Decide: find the matching lessons, choose some of them (the picks), find loops, and plan the edits.
	if t.session.Session != nil {
		if !t.runStep(label.StepDecide, t.decide) {
			t.plan.insert = inject.Plan{}
		}
		p.opts.Metrics.observePhase("decide", p.opts.Now().Sub(decisionStart), t.out.span.TraceID())
	}
	if t.plan.insert.Changes() && !t.runStep(label.StepSplice, t.splice) {
		t.out.undoSplice(t.in.body.received)
	}

	// Begin: register the turn in the store before the upstream sees the request, so that a crash leaves a record.
	t.assignID()
	t.runStep(label.StepBegin, t.draftExchange)

	// Forward: the turn observes the reply before the client does (tap.go).
	t.forwarder.serve()
	return nil
}

func (t *turn) resolve() {
	claim := session.Identify(t.in.r.Header, t.in.r.URL.EscapedPath(), t.in.req)
	t.in.identity.restrict(&claim)
	learn := !claim.LearnOff && t.settings.mayLearn(&t.in.identity, claim.Agent)
	claim.Agent = t.settings.cleanName(claim.Agent)
	exceeds := t.in.body.exceededLimit
	t.query = resolve.Query{Scope: t.in.identity.scope(), Claim: claim, Request: t.in.req, Learn: learn, SaltUncertain: t.settings.excluded, OnlyKnownSessions: exceeds != ""}
	t.session = t.p.resolver.Resolve(t.in.r.Context(), &t.query)
	if exceeds != "" {
		t.countUninspected(exceeds)
		if t.session.Session != nil {
			t.session.Side = exceeds // not matched and not recorded
		}
		return
	}
	if t.session.Side != "" {
		t.markSide(t.session.Side)
	}
	m := t.p.opts.Metrics
	if t.session.IsNew {
		m.sessions.newSessions.WithLabelValues(string(t.session.Thread.Method)).Inc()
	}
	for _, why := range t.session.Excluded {
		m.sessions.excludedSessions.WithLabelValues(string(why)).Inc()
		if why == label.ExcludedBusy || why == label.ExcludedTenant {
			t.skip = string(why)
		}
	}
	t.holdKeys(t.session.EchoKeys)
}

func (t *turn) markSide(why label.Reason) {
	t.session.Side, t.skip = why, "side:"+string(why)
	t.p.opts.Metrics.sessions.sideRequests.WithLabelValues(string(why)).Inc()
}

// assignID gives the request an id that contains the session id, so that feedback by request id needs no index. An id
// already used in a log line stays.
func (t *turn) assignID() {
	switch {
	case t.w.id != "":
	case t.session.Session == nil:
		t.w.id = t.p.opts.newID("req_")
	default:
		random := t.p.opts.entropy()
		t.w.id = "req_" + hex.EncodeToString(append(t.session.Session.Record.Identity.ID[:], random[:8]...))
	}
	t.holdKeys(nil)
}

// holdKeys passes keys to the store under the request's id, or keeps them until the request has an id. The store writes
// the keys once the recorder has found no opt-out in the turn.
func (t *turn) holdKeys(keys []session.Echo) {
	if len(t.pendingKeys) > 0 {
		keys = append(t.pendingKeys, keys...)
	}
	t.pendingKeys = keys
	if t.w.id == "" || len(t.pendingKeys) == 0 {
		return
	}
	t.p.opts.Store.HoldKeys(t.w.id, t.pendingKeys...)
	t.pendingKeys = nil
}

func (t *turn) countUninspected(why label.Reason) {
	t.skip = string(why)
	t.p.opts.Metrics.uninspected.WithLabelValues(string(why)).Inc()
}

// isMain reports whether the request is a turn in a conversation, and not a side request such as one for a title.
func (t *turn) isMain() bool { return t.session.Session != nil && t.session.Side == "" }

func (t *turn) clientGone() bool { return t.in.r.Context().Err() != nil }

func (t *turn) runStep(step label.Step, f func()) (ok bool) { return t.p.opts.runStep(step, t.log, f) }

func (t *turn) log() *slog.Logger { return t.p.opts.log(t.w) }
