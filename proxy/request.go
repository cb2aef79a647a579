package proxy

import (
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"precept/internal/label"
	"precept/internal/wire"
	"precept/proxy/trace"
)

// request is what a client asks, and where that goes: all that is known before anybody looks who
// speaks.
type request struct {
	opts     *Options
	set      *settings
	pool     *pool
	parses   *wire.Memory
	inFlight *inFlight

	w       *clientWriter // whose id is the Precept-Request-Id
	r       *http.Request
	target  *target
	who     identity
	dialect wire.Dialect
	started time.Time
	span    *trace.Span // nil: not sampled
	out     outgoing

	body     *payload // as the client sent it
	plain    []byte   // the same, decoded where it was compressed
	unpacked *payload // which holds it then
	charge   charge   // of both
	req      *wire.Request
	model    string // as asked for; req is given back when the reply begins
	skip     string // why nothing was inserted, for Precept-Skip
}

// outgoing is what goes to the upstream.
type outgoing struct {
	url      *url.URL
	came     *http.Request // as the server handed it out: trailers that nobody announced are put there
	identity bool          // ask the upstream for an unencoded reply
	body     *payload      // nil: the client's body is streamed as it is
	length   int64         // of body; -1 when the client announced trailers
	decoded  bool          // body is no longer in the client's Content-Encoding
	original *payload      // what to send again if the upstream rejects body; nil: nothing was changed
}

// read takes the body in, bounded by what is inspected; what is longer is streamed on from where
// reading stopped.
func (q *request) read() error {
	q.charge = charge{all: &q.inFlight.bodies, most: int64(q.set.cfg.Limits.InspectTotalBytes)}
	b, reason, err := q.takeIn(q.r.Body, q.r.ContentLength)
	if err != nil {
		q.pool.put(b)
		q.charge.release(0)
		if own := q.w.body.fault(q.dialect); own != nil {
			return own
		}
		return err
	}
	q.body = &payload{data: b}
	q.out.body, q.out.length = q.body, int64(len(b))
	if reason != "" {
		q.body.tail = q.r.Body
		q.out.length = q.r.ContentLength
		q.uninspected(reason)
	}
	if len(q.out.came.Trailer) > 0 {
		q.out.length = -1
	}
	q.opts.Metrics.phase("read", q.opts.Now().Sub(q.started), q.span.TraceID())
	return nil
}

// takeIn reads what is inspected of a body, charged by what it holds. reason says why there may be
// more; "" where there is none.
func (q *request) takeIn(from io.Reader, size int64) (b []byte, reason label.Reason, err error) {
	short := label.UninspectedSize
	b, more, err := q.pool.readBody(from, size, int64(q.set.cfg.Limits.InspectBytes), func(n int) bool {
		if q.charge.hold(n) {
			return true
		}
		short = label.UninspectedBusy
		return false
	})
	if more {
		reason = short
	}
	return b, reason, err
}

// unpack decodes a compressed body, and says why not. A few hundred bytes may become megabytes:
// those are charged as well.
func (q *request) unpack(encoding string) (reason label.Reason) {
	from, err := wire.Decode(encoding, q.body.data)
	if err != nil {
		return label.UninspectedEncoding
	}
	defer func() { _ = from.Close() }()
	held := q.charge.held
	b, reason, err := q.takeIn(from, -1)
	if err == nil && reason == "" {
		q.plain, q.unpacked = b, &payload{data: b}
		return ""
	}
	q.pool.put(b)
	q.charge.release(held)
	if err != nil {
		return label.UninspectedEncoding
	}
	return reason
}

func (q *request) uninspected(reason label.Reason) {
	q.skip = string(reason)
	q.opts.Metrics.uninspected.WithLabelValues(string(reason)).Inc()
}

// left says whether the client has gone: then nobody needs what is still to be done.
func (q *request) left() bool { return q.r.Context().Err() != nil }

// guard runs one step of learning for the request, which goes on without it where it panics.
func (q *request) guard(step label.Step, f func()) (ok bool) { return q.opts.guard(step, q.log, f) }

// log is for what is told of the request.
func (q *request) log() *slog.Logger { return q.opts.log(q.w) }

// parse reads the body, of a compressed one a bounded copy.
func (q *request) parse() {
	q.plain = q.body.data
	if enc := q.r.Header.Get("Content-Encoding"); enc != "" && !strings.EqualFold(enc, "identity") {
		if reason := q.unpack(enc); reason != "" {
			q.uninspected(reason)
			return
		}
	}
	req, err := q.parses.Parse(q.who.scope().Credential, q.dialect, q.plain, q.set.cfg.Limits.Items)
	var u *wire.Uninspected
	switch {
	case errors.As(err, &u):
		q.uninspected(u.Reason)
	case err != nil:
		q.uninspected(label.UninspectedInvalid)
	default:
		q.req, q.model = req, req.Model
	}
}
