package proxy

import (
	"net/http"
	"strings"

	"precept/detect"
	"precept/sample"
	"precept/session"
	"precept/store"
	"precept/wire"
	"precept/writ"
)

// turn is one request on a rewritten path and its reply. It belongs to the goroutine that serves
// the request. Its parts stand on each other, and none knows of those above: request reads what was
// asked, sender says whose turn it is (a finder has found that), decision says what is inserted.
// The turn itself watches the reply, and keeps what is worth keeping. A forwarding sends the
// request.
type turn struct {
	decision
	forward *forwarding // nil for what is passed on, and when the request's body was given back
	watch   watch

	kept      *sample.Exchange // what is kept of the turn, nil for nothing
	begun     *store.Begun
	size      int64           // bytes of what is kept
	gathered  bool            // kept, signals and answered hold what the request says
	completed bool            // kept holds what became of it
	signals   []detect.Signal // what the traffic says of the session
	answered  []string        // arguments of the calls that the request's results answer
	writs     []writ.Command  // what the reply asks precept to do
	offered   bool            // the recorder judges the turn
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
	if !p.inFlight.enter(set.cfg.Limits.Requests) {
		return refuseOverLimit(w, r, shape)
	}
	defer p.inFlight.leave()
	who, ok := set.identify(r)
	if !ok {
		return refusal(shape, http.StatusUnauthorized, "this key is not one of precept's keys; ask who runs precept for one")
	}
	tgt := set.target(shape, form.Upstream)
	if tgt == nil {
		return refusal(shape, http.StatusBadGateway, "the path names an upstream that is not configured; take one of upstreams in the configuration")
	}
	if r.ContentLength > int64(set.cfg.Limits.BodyBytes) {
		return refusal(shape, http.StatusRequestEntityTooLarge, tooLarge)
	}
	t := &turn{}
	t.request = request{p: p, set: set, target: tgt, w: w, r: r, who: who, dialect: dialect, started: p.opts.Now()}
	t.book = p.opts.Book()
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
