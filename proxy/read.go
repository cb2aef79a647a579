package proxy

import (
	"bytes"
	"cmp"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"precept/internal/label"
	"precept/internal/session"
	"precept/internal/wire"
	"precept/proxy/trace"
)

type incoming struct {
	// Set by accept.
	r        *http.Request // with a bounded body
	identity identity
	dialect  wire.Dialect // wire.NoDialect means no inspection
	started  time.Time

	body  inspectedBody // set by read
	req   *wire.Request // set by parse; nil means the body is not understood, or release dropped the request
	model string        // set by parse
}

// inspectedBody is the part of a request body that is held in memory.
type inspectedBody struct {
	received *payload // the bytes as the client sent them
	plain    []byte   // received, decoded if compressed
	unpacked *payload // plain's buffer if received is compressed
	charge   charge   // counts toward limits.inspect_total_bytes

	// exceededLimit is set by read and parse if the body exceeds limits.inspect_bytes or limits.items. precept then
	// only inserts a known session's blocks (lesson texts) again.
	exceededLimit label.Reason
}

// outgoing is the request to the upstream.
type outgoing struct {
	// Set by accept, except span.
	url          *url.URL
	target       *target
	client       identity      // the client's identity, with the key to send upstream
	inbound      *http.Request // net/http's request; unannounced trailers appear only here
	uncompressed bool          // ask for a reply without Content-Encoding
	idleTimeout  time.Duration // limits.stream_idle_timeout
	span         *trace.Span   // set by serveTurn; nil means the client's trace headers stay

	body     *payload // set by read and splice; nil means the body is streamed
	length   int64    // Content-Length for body; -1 when the client announced trailers
	spliced  *payload // set by splice
	decoded  bool     // set by splice; the client's Content-Encoding no longer applies
	original *payload // set by splice; for a second attempt if the upstream rejects body
}

func (o *outgoing) undoSplice(received *payload) {
	o.body, o.length, o.decoded, o.original = received, int64(len(received.data)), false, nil
}

// accept finds a request's API, tenant and upstream, or returns the refusal. endAccepted ends an accepted request.
func (p *Proxy) accept(set *settings, w *clientWriter, r *http.Request) (in incoming, out outgoing, err error) {
	form, path, _ := session.ParsePath(r.URL.EscapedPath())
	w.unknownKey = form.Unknown
	api := detectAPI(path, r.Header)
	if d := wire.DialectForPath(path); r.Method == http.MethodPost && d == api { // differs for thread messages
		in.dialect = d
		w.dialect = d
	}
	in.r = w.boundBody(r, int64(set.cfg.Limits.BodyBytes))
	if strings.HasSuffix(path, "/responses") && strings.EqualFold(r.Header.Get("Upgrade"), "websocket") {
		return in, out, newAPIError(wire.Responses, http.StatusUpgradeRequired, "precept does not support websockets; use HTTP")
	}
	if !p.inFlight.enter(set.cfg.Limits.Requests) {
		return in, out, refuseOverLimit(w, in.r, api)
	}
	defer func() {
		if err != nil {
			p.inFlight.leave()
		}
	}()
	if in.identity, err = set.authenticate(r, api); err != nil {
		return in, out, err
	}
	upstream := set.target(api, form.Upstream)
	if upstream == nil {
		return in, out, newAPIError(api, http.StatusBadGateway, "the path names an upstream that is not configured; use a name from upstreams in the configuration")
	}
	if r.ContentLength > int64(set.cfg.Limits.BodyBytes) {
		return in, out, newAPIError(api, http.StatusRequestEntityTooLarge, tooLarge)
	}
	in.started = p.opts.Now()
	if r.Method == http.MethodPost && api == wire.NoDialect && !isAuxiliary(path) {
		p.unsupported.add(func() *slog.Logger { return p.opts.log(w) }, path, in.started)
	}
	return in, outgoing{
		url: upstream.resolve(path, r.URL.RawQuery, r.URL.ForceQuery), target: upstream, client: in.identity, inbound: r,
		uncompressed: in.dialect != wire.NoDialect, idleTimeout: set.cfg.Limits.StreamIdleTimeout,
	}, nil
}

// endAccepted counts an accepted request as ended. If a reload has removed the upstream, endAccepted also closes the
// upstream's idle connections.
func (p *Proxy) endAccepted(upstream *target) {
	p.settings.Load().closeIdle(upstream.transport)
	p.inFlight.leave()
}

// read reads the request body up to limits.inspect_bytes, or limits.body_bytes for a conversation in progress. The rest
// is streamed to the upstream.
func (t *turn) read() error {
	body := &t.in.body
	body.charge = charge{total: &t.p.inFlight.requestBodyBytes, limit: int64(t.settings.cfg.Limits.InspectTotalBytes)}
	b, why, err := t.readInspected(t.in.r.Body, t.in.r.ContentLength)
	if err != nil {
		t.p.pool.put(b)
		body.charge.release(0)
		if fault := t.w.body.readError(t.in.dialect); fault != nil {
			return fault
		}
		return err
	}
	body.received = &payload{data: b}
	t.out.body, t.out.length = body.received, int64(len(b))
	if why != "" {
		body.received.tail = t.in.r.Body
		t.out.length = t.in.r.ContentLength
		t.countUninspected(why)
	}
	if len(t.out.inbound.Trailer) > 0 {
		t.out.length = -1
	}
	t.p.opts.Metrics.observePhase("read", t.p.opts.Now().Sub(t.in.started), t.out.span.TraceID())
	return nil
}

// readInspected reads the inspected part of a body, and charges the memory against limits.inspect_total_bytes. size is
// the announced length, or -1. why is the reason that the rest was not read, "" for a complete body.
func (t *turn) readInspected(src io.Reader, size int64) (b []byte, why label.Reason, err error) {
	body, limits := &t.in.body, &t.settings.cfg.Limits
	busy := false
	tryCharge := func(n int) bool {
		busy = !body.charge.tryAdd(n)
		return !busy
	}
	first := firstBufferSize(size, int64(limits.InspectBytes))
	if !tryCharge(first) {
		return nil, label.UninspectedBusy, nil
	}
	b, more, err := t.p.pool.readBody(t.p.pool.get(first), src, int64(limits.InspectBytes), tryCharge)
	if more && !busy && limits.BodyBytes > limits.InspectBytes && hasEarlierTurns(b) {
		body.exceededLimit = label.UninspectedSize
		b, more, err = t.p.pool.readBody(b, src, int64(limits.BodyBytes), tryCharge)
	}
	switch {
	case !more:
		return b, "", err
	case busy:
		return b, label.UninspectedBusy, err
	}
	return b, label.UninspectedSize, err
}

// hasEarlierTurns reports whether a body's start contains earlier turns. precept may have inserted blocks into these
// turns, and then reads the whole body to insert the blocks again. Other long bodies are streamed.
func hasEarlierTurns(head []byte) bool {
	return bytes.Contains(head, []byte(`"assistant"`)) || bytes.Contains(head, []byte(`"function_call`))
}

// inspectable reports whether precept can inspect the body. It cannot if part of the body was not read, the tenant is
// unknown, or a digest or signature covers the body.
func (t *turn) inspectable() bool {
	if t.in.body.received.tail != nil {
		return false
	}
	if t.settings.tenantsUnknown {
		t.countUninspected(label.UninspectedTenant)
		return false
	}
	if hasBodyDigest(t.in.r.Header) || hasBodyDigest(t.out.inbound.Trailer) {
		t.out.uncompressed = false // a signature may cover Accept-Encoding
		t.countUninspected(label.UninspectedSigned)
		return false
	}
	return true
}

// parse finds the messages in the body.
func (t *turn) parse() {
	body := &t.in.body
	body.plain = body.received.data
	if enc := t.in.r.Header.Get("Content-Encoding"); enc != "" && !strings.EqualFold(enc, "identity") {
		if why := t.unpack(enc); why != "" {
			t.countUninspected(why)
			return
		}
	}
	items := t.settings.cfg.Limits.Items
	if body.exceededLimit != "" {
		items = 0
	}
	req, err := t.p.parseCache.Parse(t.in.identity.scope().Credential, t.in.dialect, body.plain, items)
	var u *wire.Uninspected
	if errors.As(err, &u) && u.Reason == label.UninspectedItems && hasEarlierTurns(body.plain) {
		body.exceededLimit = label.UninspectedItems
		req, err = t.p.parseCache.Parse(t.in.identity.scope().Credential, t.in.dialect, body.plain, 0)
	}
	switch {
	case errors.As(err, &u):
		t.countUninspected(u.Reason)
	case err != nil:
		t.countUninspected(label.UninspectedInvalid)
	default:
		req.Model = t.settings.cleanName(cmp.Or(req.Model, deploymentName(t.in.r.URL.Path)))
		t.in.req, t.in.model = req, req.Model
	}
}

// unpack decodes a compressed body, or returns why it stays compressed. The decoded bytes are also charged.
func (t *turn) unpack(encoding string) label.Reason {
	body := &t.in.body
	decoded, err := wire.Decode(encoding, body.received.data)
	if err != nil {
		return label.UninspectedEncoding
	}
	defer func() { _ = decoded.Close() }()
	charged := body.charge.bytes
	b, why, err := t.readInspected(decoded, -1)
	if err == nil && why == "" {
		body.plain, body.unpacked = b, &payload{data: b}
		return ""
	}
	t.p.pool.put(b)
	body.charge.release(charged)
	if err != nil {
		return label.UninspectedEncoding
	}
	return why
}
