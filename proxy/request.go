package proxy

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"precept/trace"
	"precept/wire"
)

// request is what a client asks, and where that goes: all that is known before anybody looks who
// speaks.
type request struct {
	p       *Proxy
	set     *settings
	w       *clientWriter // whose id is the Precept-Request-Id
	r       *http.Request
	target  *target
	who     identity
	dialect wire.Dialect
	started time.Time
	span    *trace.Span // nil: not sampled

	body     *payload // as the client sent it
	plain    []byte   // the same, decoded where it was compressed
	unpacked *payload // which holds it then
	holds    int64    // bytes of both, charged to inspect_total_bytes
	req      *wire.Request
	model    string // as asked for; req is given back when the reply begins
	skip     string // why nothing was inserted, for Precept-Skip
}

// read takes the body in, bounded by what is inspected; what is longer is streamed on from where
// reading stopped.
func (q *request) read(f *forwarding) error {
	b, reason, err := q.takeIn(q.r.Body, q.r.ContentLength)
	if err != nil {
		q.p.pool.put(b)
		q.p.inFlight.release(q, 0)
		if own := q.w.body.fault(q.dialect); own != nil {
			return own
		}
		return err
	}
	q.body = &payload{data: b}
	f.body, f.length = q.body, int64(len(b))
	if reason != "" {
		q.body.tail = q.r.Body
		f.length = q.r.ContentLength
		q.uninspected(reason)
	}
	if len(f.came.Trailer) > 0 {
		f.length = -1
	}
	q.p.opts.Metrics.phase("read", q.p.opts.Now().Sub(q.started), q.span.TraceID())
	return nil
}

// takeIn reads what is inspected of a body, charged by what it holds. reason says why there may be
// more; "" where there is none.
func (q *request) takeIn(from io.Reader, size int64) (b []byte, reason string, err error) {
	short := "size"
	b, more, err := q.p.pool.readBody(from, size, int64(q.set.cfg.Limits.InspectBytes), func(n int) bool {
		if q.p.inFlight.hold(q, int64(n)) {
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
func (q *request) unpack(encoding string) (reason string) {
	from, err := wire.Decode(encoding, q.body.data)
	if err != nil {
		return "encoding"
	}
	defer func() { _ = from.Close() }()
	held := q.holds
	b, reason, err := q.takeIn(from, -1)
	if err == nil && reason == "" {
		q.plain, q.unpacked = b, &payload{data: b}
		return ""
	}
	q.p.pool.put(b)
	q.p.inFlight.release(q, held)
	if err != nil {
		return "encoding"
	}
	return reason
}

func (q *request) uninspected(reason string) {
	q.skip = reason
	q.p.opts.Metrics.uninspected.WithLabelValues(reason).Inc()
}

// left says whether the client has gone: then nobody needs what is still to be done.
func (q *request) left() bool { return q.r.Context().Err() != nil }

// parse reads the body, of a compressed one a bounded copy.
func (q *request) parse() {
	q.plain = q.body.data
	if enc := q.r.Header.Get("Content-Encoding"); enc != "" && !strings.EqualFold(enc, "identity") {
		if reason := q.unpack(enc); reason != "" {
			q.uninspected(reason)
			return
		}
	}
	req, err := q.p.parses.Parse(q.who.scope().Credential, q.dialect, q.plain, q.set.cfg.Limits.Items)
	var u *wire.Uninspected
	switch {
	case errors.As(err, &u):
		q.uninspected(u.Reason)
	case err != nil:
		q.uninspected("invalid_json")
	default:
		q.req, q.model = req, req.Model
	}
}
