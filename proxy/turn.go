package proxy

import (
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"precept/detect"
	"precept/inject"
	"precept/lesson"
	"precept/sample"
	"precept/session"
	"precept/store"
	"precept/trace"
	"precept/wire"
	"precept/writ"
)

// turn is one request on a rewritten path and its reply. It belongs to the goroutine that serves
// the request.
type turn struct {
	p       *Proxy
	set     *settings
	w       *clientWriter
	r       *http.Request
	forward *forwarding // nil for what is passed on
	target  *target
	id      string // Precept-Request-Id
	who     identity
	claim   session.Claim
	dialect wire.Dialect
	started time.Time
	span    *trace.Span // nil: not sampled
	model   string      // as asked for

	body     *payload // as the client sent it
	plain    []byte   // the client's body, decoded where it was compressed
	unpacked *payload // which holds it then
	out      *payload // what goes to the upstream, when it differs
	req      *wire.Request

	results detect.Results // what was judged of the tool results, by whoever asked first

	found  session.Resolved
	ses    *store.Session
	unit   *store.Session // what the session draws through; nil: itself
	above  *store.Session // the named session whose sub-agent speaks
	isNew  bool
	waited time.Duration // for the store, to learn whose turn it is
	moved  bool          // the session was at another replica before, as far as can be told
	book   *lesson.Book
	side   string
	about  session.ID // which session a side call that belongs to none is about,
	quotes bool       // where it shows one
	plan   inject.Plan
	skip   string // why nothing was inserted, for Precept-Skip
	learn  bool
	turn   int // number of the turn in its session
	base   int // items of the list that an earlier turn has shown

	kept      *sample.Exchange // what is kept of the turn, nil for nothing
	begun     *store.Begun
	size      int64           // bytes of what is kept
	holds     int64           // bytes of the request's body, charged to inspect_total_bytes
	gathered  bool            // kept, signals and answered hold what the request says
	completed bool            // kept holds what became of it
	signals   []detect.Signal // what the traffic says of the session
	answered  []string        // arguments of the calls that the request's results answer
	gone      bool            // the request's body was given back, and req with it

	writs []writ.Command // what the reply asks precept to do

	early   []session.Echo // keys that went by before the request had its id
	offered bool           // the recorder judges the turn

	watch watch
}

// pass is the whole data face but for precept's own paths.
func (p *Proxy) pass(w *clientWriter, r *http.Request) error {
	set := p.set.Load()
	form, escaped, _ := session.ParsePath(r.URL.EscapedPath())
	dialect, shape := wire.None, family(escaped, r.Header)
	if d := wire.DialectOf(escaped); r.Method == http.MethodPost && d == shape { // a thread's messages are none of the API's
		dialect = d
		w.dialect = d
	}
	came := r
	r = w.receive(r, int64(set.cfg.Limits.BodyBytes))
	if strings.HasSuffix(escaped, "/responses") && isUpgrade(r) {
		return refusal(wire.Responses, http.StatusUpgradeRequired, "precept speaks HTTP here, not websockets")
	}
	if !p.crowd.enter(set.cfg.Limits.Requests) {
		return turnAway(w, r, shape)
	}
	defer p.crowd.leave()
	who, ok := set.identify(r)
	if !ok {
		return refusal(shape, http.StatusUnauthorized, "this key is not one of precept's keys; ask who runs precept for one")
	}
	tgt := set.target(shape, form.Upstream)
	if tgt == nil {
		return refusal(shape, http.StatusBadGateway, "no upstream is configured for this request; set upstreams (or --upstream URL)")
	}
	if r.ContentLength > int64(set.cfg.Limits.BodyBytes) {
		return refusal(shape, http.StatusRequestEntityTooLarge, tooLarge)
	}
	t := &turn{p: p, set: set, target: tgt, w: w, r: r, who: who, dialect: dialect, book: p.opts.Book(), started: p.opts.Now()}
	f := &forwarding{turn: t, url: tgt.resolve(escaped, r.URL.RawQuery, r.URL.ForceQuery), identity: dialect != wire.None, came: came}
	if dialect != wire.None {
		t.span = p.opts.Tracer.Begin(r.Context(), r.Header, t.started)
		defer t.observe()
		if err := t.read(f); err != nil {
			return err
		}
		defer t.finish()
		t.forward = f
		t.prepare(f)
		t.name()
		t.guard("begin", t.begin)
	}
	p.serve(w, r, f)
	return nil
}

// isUpgrade says that a client wants a websocket.
func isUpgrade(r *http.Request) bool {
	return strings.EqualFold(r.Header.Get("Upgrade"), "websocket")
}

// read takes the body in, bounded by what is inspected; what is longer is streamed on from where
// reading stopped.
func (t *turn) read(f *forwarding) error {
	b, reason, err := t.takeIn(t.r.Body, t.r.ContentLength)
	if err != nil {
		t.p.pool.put(b)
		t.p.crowd.release(t, 0)
		if own := t.w.body.fault(t.dialect); own != nil {
			return own
		}
		return err
	}
	t.body = &payload{data: b}
	f.body, f.length = t.body, int64(len(b))
	if reason != "" {
		t.body.tail = t.r.Body
		f.length = t.r.ContentLength
		t.uninspected(reason)
	}
	if len(f.came.Trailer) > 0 {
		f.length = -1
	}
	t.p.opts.Metrics.phase(phaseRead, t.p.opts.Now().Sub(t.started), t.span.TraceID())
	return nil
}

// takeIn reads what is inspected of a body, charged by what it holds. reason says why there may be
// more; "" where there is none.
func (t *turn) takeIn(from io.Reader, size int64) (b []byte, reason string, err error) {
	short := "size"
	b, more, err := t.p.pool.readBody(from, size, int64(t.set.cfg.Limits.InspectBytes), func(n int) bool {
		if t.p.crowd.hold(t, int64(n)) {
			return true
		}
		short = "busy"
		return false
	})
	if more {
		reason = short
	}
	return b, reason, err
}

// unpack decodes a compressed body, and says why not. A few hundred bytes may become megabytes:
// those are charged as well.
func (t *turn) unpack(encoding string) (reason string) {
	from, err := wire.Decode(encoding, t.body.data)
	if err != nil {
		return "encoding"
	}
	defer func() { _ = from.Close() }()
	held := t.holds
	b, reason, err := t.takeIn(from, -1)
	if err == nil && reason == "" {
		t.plain, t.unpacked = b, &payload{data: b}
		return ""
	}
	t.p.pool.put(b)
	t.p.crowd.release(t, held)
	if err != nil {
		return "encoding"
	}
	return reason
}

func (t *turn) uninspected(reason string) {
	t.skip = reason
	t.p.opts.Metrics.uninspected.WithLabelValues(reason).Inc()
}

// prepare decides what goes out. Whatever fails in it, the client's bytes go out.
func (t *turn) prepare(f *forwarding) {
	if t.body.tail != nil {
		return
	}
	if t.set.nameless {
		t.uninspected("tenant_unknown")
		return
	}
	begin := t.p.opts.Now()
	if !t.guard("parse", t.parse) || t.req == nil || t.left() {
		return
	}
	if !t.guard("identify", t.identify) || t.ses == nil {
		return
	}
	if !t.guard("decide", t.decide) {
		t.plan = inject.Plan{}
	}
	t.p.opts.Metrics.phase(phaseDecide, t.p.opts.Now().Sub(begin), t.span.TraceID())
	if len(t.plan.Edits) == 0 {
		return
	}
	if !t.guard("splice", func() { t.splice(f) }) {
		f.body, f.length, f.decoded, f.original = t.body, int64(len(t.body.data)), false, nil
	}
}

// left says whether the client has gone: then nobody needs what is still to be done.
func (t *turn) left() bool { return t.r.Context().Err() != nil }

// parse reads the body, of a compressed one a bounded copy.
func (t *turn) parse() {
	t.plain = t.body.data
	if enc := t.r.Header.Get("Content-Encoding"); enc != "" && !strings.EqualFold(enc, "identity") {
		if reason := t.unpack(enc); reason != "" {
			t.uninspected(reason)
			return
		}
	}
	req, err := t.p.parses.Parse(t.who.scope().Credential, t.dialect, t.plain, t.set.cfg.Limits.Items)
	var u *wire.Uninspected
	switch {
	case errors.As(err, &u):
		t.uninspected(u.Reason)
	case err != nil:
		t.uninspected("invalid_json")
	default:
		t.req, t.model = req, req.Model
	}
}

// name mints the request's id. It holds the session's, so that feedback by request id needs no
// index of its own.
func (t *turn) name() {
	switch {
	case t.w.id != "": // the log has told of it already
	case t.ses == nil:
		t.w.id = t.p.newID("req_")
	default:
		random := t.p.opts.entropy()
		t.w.id = "req_" + hex.EncodeToString(append(t.ses.ID[:], random[:8]...))
	}
	t.id = t.w.id
	t.hold()
}

// decide asks the rooms below what to insert. It needs no clock to stay within its budget: the text
// that is matched is bounded, and so is the history that is looked at.
func (t *turn) decide() {
	t.answers()
	now := t.p.opts.Now()
	rec := t.ses.Record
	rec.Lock()
	defer rec.Unlock()
	if t.beside(rec) {
		if (t.side == session.SideNoTools || t.side == session.SideTools) && rec.GoesOn(t.req) {
			t.plan = t.set.injector.Replay(rec, inject.Turn{Request: t.req, Claim: t.claim, Now: now, Unit: t.drawsThrough()})
		}
		return
	}
	t.plan = t.set.injector.Plan(rec, inject.Turn{
		Request: t.req, Claim: t.claim, Book: t.book, Beliefs: t.p.opts.Beliefs(t.who.tenant), Results: &t.results, Now: now,
		Unit: t.drawsThrough(),
	})
	t.met(now)
	t.p.quotes.Asked(t.who.scope(), rec.ID, t.req, now)
	t.turn, t.base = rec.Turns, rec.From
	t.await(rec)
	t.skip = t.plan.Skip
	t.p.opts.Consulted.note(t.plan.Matched)
	m := t.p.opts.Metrics
	if t.plan.Spent {
		m.FailedOpen("match")
	}
	m.matched.Add(float64(len(t.plan.Matched)))
	m.picked.Add(float64(len(t.plan.Picks)))
	for i := range t.plan.Picks {
		if t.plan.Picks[i].Injected {
			m.injected.Inc()
		} else {
			m.withheld.Inc()
		}
	}
	m.loops.Add(float64(t.plan.Loops))
}

// splice makes the body that goes out.
func (t *turn) splice(f *forwarding) {
	begin := t.p.opts.Now()
	room := len(t.plain) + 1024
	for i := range t.plan.Edits {
		room += 2 * len(t.plan.Edits[i].Text)
	}
	out, err := t.req.Splice(t.p.pool.get(room), t.plan.Edits)
	if err != nil {
		t.skip = "splice"
		t.p.opts.Metrics.FailedOpen("splice")
		return
	}
	t.out = &payload{data: out}
	t.p.crowd.add(t, int64(cap(out)))
	f.body, f.original = t.out, t.body
	if f.length >= 0 {
		f.length = int64(len(out))
	}
	f.decoded = t.unpacked != nil
	f.rejected = t.rejected
	t.p.opts.Metrics.phase(phaseSplice, t.p.opts.Now().Sub(begin), t.span.TraceID())
}

// rejected notes that the upstream took the original where it had refused ours.
func (t *turn) rejected(int) {
	t.p.opts.Metrics.rejected.Inc()
	t.ses.Lock()
	defer t.ses.Unlock()
	t.set.injector.Refused(t.ses.Record)
	t.ofUnit(func(u *session.Record) { u.Assignment.Refused, u.Dirty = true, true })
}
