package proxy

import (
	"net/http"
	"strings"

	"precept/internal/label"
	"precept/internal/session"
	"precept/internal/wire"
)

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
	if strings.HasSuffix(escaped, "/responses") && strings.EqualFold(r.Header.Get("Upgrade"), "websocket") {
		return refusal(wire.Responses, http.StatusUpgradeRequired, "precept speaks HTTP here, not websockets")
	}
	if !p.inFlight.enter(set.cfg.Limits.Requests) {
		return refuseOverLimit(w, r, shape)
	}
	defer p.inFlight.leave()
	who, err := set.identify(r, shape)
	if err != nil {
		return err
	}
	tgt := set.target(shape, form.Upstream)
	if tgt == nil {
		return refusal(shape, http.StatusBadGateway, "the path names an upstream that is not configured; take one of upstreams in the configuration")
	}
	if r.ContentLength > int64(set.cfg.Limits.BodyBytes) {
		return refusal(shape, http.StatusRequestEntityTooLarge, tooLarge)
	}
	t := &turn{commands: p.commands}
	t.request = request{
		opts: &p.opts, set: set, pool: &p.pool, parses: p.parses, inFlight: &p.inFlight,
		w: w, r: r, target: tgt, who: who, dialect: dialect, started: p.opts.Now(),
		out: outgoing{url: tgt.resolve(escaped, r.URL.RawQuery, r.URL.ForceQuery), came: came, identity: dialect != wire.None},
	}
	t.resolver, t.pending, t.book = p.resolver, &p.commands.pending, p.opts.Book()
	f := &forwarding{request: &t.request, observer: t, unlogged: p.unlogged}
	defer func() { p.set.Load().leave(tgt.transport) }()
	if dialect != wire.None {
		return t.run(f)
	}
	f.serve()
	return nil
}

// run is the whole turn: it is read, its session found and what is inserted decided; it is
// forwarded, and what came of it recorded.
func (t *turn) run(f *forwarding) error {
	t.span = t.opts.Tracer.Begin(t.r.Context(), t.r.Header, t.started)
	defer t.observe()
	if err := t.read(); err != nil {
		return err
	}
	defer t.finish()
	t.forward = f
	t.prepare()
	t.name()
	t.guard(label.StepBegin, t.begin)
	f.serve()
	return nil
}
