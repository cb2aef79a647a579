package proxy

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"time"
)

// Bounds of the client side.
const (
	mostHeaders  = 1 << 20  // bytes of a response's headers
	streamWindow = 64 << 10 // bytes of one HTTP/2 stream that may wait in memory for a client that does not read
	mostIdle     = 4096     // kept connections to one upstream
)

// flushWithin is how long a piece of a reply of known length may wait for the next one: most such
// replies are whole at once, and leave in one write with their headers. ReverseProxy flushes
// streams, of events or of unknown length, at once whatever it is told here.
const flushWithin = 2 * time.Millisecond

// newHTTPTransport makes what every upstream is asked through. Compression is off, because a
// transport that decodes gzip unasked would change bytes; there is no overall timeout, because a
// stream may last for hours. The pings notice an HTTP/2 connection that is dead: all requests to an
// upstream share it.
func newTransport(header time.Duration) *http.Transport {
	return &http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		DialContext:            dial,
		TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12, ClientSessionCache: tls.NewLRUClientSessionCache(256)},
		TLSHandshakeTimeout:    10 * time.Second,
		ResponseHeaderTimeout:  header,
		ExpectContinueTimeout:  time.Second,
		MaxResponseHeaderBytes: mostHeaders,
		IdleConnTimeout:        90 * time.Second,
		MaxIdleConns:           mostIdle,
		MaxIdleConnsPerHost:    mostIdle,
		DisableCompression:     true,
		ForceAttemptHTTP2:      true,
		HTTP2: &http.HTTP2Config{
			MaxReceiveBufferPerStream: streamWindow,
			SendPingTimeout:           30 * time.Second,
			PingTimeout:               15 * time.Second,
		},
	}
}

// forwarding is one request on its way: what goes out, and who watches what comes back. It is the
// RoundTripper of its own ReverseProxy.
type forwarding struct {
	url      *url.URL
	body     *payload      // nil: the client's body is streamed as it is
	length   int64         // of body; -1 when the client announced trailers
	decoded  bool          // body is no longer in the client's Content-Encoding
	identity bool          // ask the upstream for an unencoded reply
	original *payload      // what to send again if the upstream rejects body; nil: nothing was changed
	turn     *turn         // which is told of the response, or why there is none
	came     *http.Request // as the server handed it out: trailers that nobody announced are put there

	attempts
}

// serve forwards r. It panics with http.ErrAbortHandler when the upstream's stream is cut, so that
// the client sees a cut as well.
func (p *Proxy) serve(w *clientWriter, r *http.Request, f *forwarding) {
	defer p.leave(f.turn.target.transport)
	whole := false
	defer func() {
		if !whole && w.code != 0 { // what came of a reply that was cut is the client's
			_ = w.ctl.Flush()
		}
	}()
	rp := httputil.ReverseProxy{
		Rewrite:        f.rewrite,
		Transport:      f,
		FlushInterval:  flushWithin,
		BufferPool:     copyBuffers{&p.pool, f.turn},
		ErrorLog:       p.stdlog,
		ModifyResponse: f.turn.response,
		ErrorHandler:   f.turn.failed,
	}
	rp.ServeHTTP(w, r)
	whole = true
}

// copyBuffers lends ReverseProxy its copy buffers.
type copyBuffers struct {
	p    *pool
	turn *turn
}

// What is read of a response at once. A slow stream keeps its buffer for minutes, and its pieces
// are some hundred bytes: four kilobytes are what net/http reads of a connection at once.
const eventPiece, mostPiece = 4 << 10, 32 << 10

// Get implements httputil.BufferPool.
func (c copyBuffers) Get() []byte {
	n := int64(mostPiece)
	if w := &c.turn.watch; w.events {
		n = eventPiece
	} else if w.want >= 0 {
		n = min(max(w.want, eventPiece), mostPiece)
	}
	b := c.p.get(int(n))
	return b[:cap(b)]
}

// Put implements httputil.BufferPool.
func (c copyBuffers) Put(b []byte) { c.p.put(b) }

// rewrite makes the outgoing request what the client's was: ReverseProxy has just dropped the
// forwarding headers, whatever it could not parse of the query, and the trailers that have not come
// yet.
func (f *forwarding) rewrite(pr *httputil.ProxyRequest) {
	out := pr.Out
	for _, h := range [...]string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto"} {
		if v, ok := pr.In.Header[h]; ok {
			out.Header[h] = v
		}
	}
	out.URL, out.Host = f.url, ""
	for h := range out.Header {
		if strings.HasPrefix(h, "Precept-") {
			delete(out.Header, h)
		}
	}
	f.turn.who.present(out.Header, out.URL)
	f.turn.span.Forward(out.Context(), out.Header)
	if f.identity {
		out.Header.Set("Accept-Encoding", "identity")
	}
	if len(f.came.Trailer) > 0 {
		out.Trailer = f.came.Trailer
		maps.DeleteFunc(out.Trailer, unsendable)
	}
	if f.body == nil {
		return
	}
	if f.decoded {
		out.Header.Del("Content-Encoding")
	}
	if f.body.tail == nil {
		out.Header.Del("Expect") // the body is here: there is nothing to wait for
	}
	setBody(out, f.body, f.length)
}

// unsendable says that net/http refuses to send such a trailer: one that would say where the body
// ends, or nobody announced and is no header's name.
func unsendable(name string, _ []string) bool {
	switch name {
	case "Transfer-Encoding", "Trailer", "Content-Length":
		return true
	}
	return strings.HasPrefix(name, "Precept-")
}

// setBody gives the request a body that can be sent again: without GetBody the transport cannot
// repeat a request of which nothing was written because the kept connection turned out to be
// closed.
func setBody(out *http.Request, b *payload, length int64) {
	out.ContentLength = length
	if length == 0 {
		out.Body, out.GetBody = nil, nil
		return
	}
	out.Body, out.GetBody = b.reader(), nil
	if b.tail == nil { // else the rest comes from the client, once
		out.GetBody = func() (io.ReadCloser, error) { return b.reader(), nil }
	}
}

// RoundTrip implements http.RoundTripper. It sends the client's original bytes once more when the
// upstream rejects a request that was changed. No other request is repeated but those of which
// net/http knows that nothing was written, or that carry an Idempotency-Key.
func (f *forwarding) RoundTrip(r *http.Request) (*http.Response, error) {
	r = f.follow(r)
	res, err := f.ask(r)
	if err != nil || f.original == nil {
		return res, err
	}
	switch res.StatusCode {
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity:
		return f.again(r, res), nil
	}
	return res, nil
}

// ask sends the request, and takes no answer that was there before it.
func (f *forwarding) ask(r *http.Request) (*http.Response, error) {
	res, err := f.turn.target.transport.RoundTrip(r)
	if err == nil && f.unasked.Load() {
		_ = res.Body.Close()
		return nil, errUnasked
	}
	return res, err
}

// again is the second try. The answer is the first one when there is no second.
func (f *forwarding) again(r *http.Request, first *http.Response) *http.Response {
	again := r.Clone(r.Context())
	length := int64(len(f.original.data))
	if r.ContentLength < 0 { // the client announced trailers
		length = -1
	}
	setBody(again, f.original, length)
	if enc := f.came.Header["Content-Encoding"]; f.decoded && len(enc) > 0 {
		again.Header["Content-Encoding"] = enc
	}
	second, err := f.ask(again)
	if err != nil {
		return first
	}
	_ = first.Body.Close()       // unread: its end may never come
	if second.StatusCode < 300 { // the bytes were at fault, not the request
		f.turn.rejected()
	}
	return second
}

// limitedBody is a response body under the idle limit: a stream in which nothing comes for too long
// is cut, and its turn sees every byte before the client does. The limit is the upstream's: while
// the client keeps us waiting it does not run.
type limitedBody struct {
	io.ReadCloser
	turn  *turn
	limit time.Duration
	idle  *time.Timer // closes the body; it runs during a read
}

// watch puts a body under the limit.
func (w *limitedBody) watch(t *turn, body io.ReadCloser, limit time.Duration) {
	w.ReadCloser, w.turn, w.limit = body, t, limit
	w.idle = time.AfterFunc(limit, func() { _ = body.Close() })
	w.idle.Stop()
}

// Read implements io.Reader.
func (w *limitedBody) Read(b []byte) (int, error) {
	w.idle.Reset(w.limit)
	n, err := w.ReadCloser.Read(b)
	w.idle.Stop()
	w.turn.see(b[:n], err)
	if err != nil && !errors.Is(err, io.EOF) {
		w.turn.broke(err)
	}
	return n, err
}

// Close implements io.Closer.
func (w *limitedBody) Close() error {
	w.idle.Stop()
	return w.ReadCloser.Close()
}

// statusOf says which status precept answers with when the upstream gave no answer that a client
// could be given, and why.
func statusOf(err error) (int, string) {
	var ne net.Error
	var op *net.OpError
	var odd badResponse
	switch {
	case errors.As(err, &odd):
		return http.StatusBadGateway, string(odd)
	case errors.As(err, &op) && (op.Op == "dial" || op.Op == "proxyconnect"):
		return http.StatusBadGateway, "the upstream could not be reached; check upstreams in the configuration and that it is up"
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &ne) && ne.Timeout():
		return http.StatusGatewayTimeout, "the upstream did not answer within limits.upstream_header_timeout"
	case untrusted(err):
		return http.StatusBadGateway, "the upstream was reached, and TLS with it failed; check its certificate, and that upstreams names https or http as it speaks"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.As(err, &op):
		return http.StatusBadGateway, "the upstream was reached, and closed the connection before it answered"
	case gaveUp(err):
		return http.StatusBadGateway, "the upstream was reached, and gave the request up before it answered (HTTP/2)"
	}
	return http.StatusBadGateway, "the upstream was reached, and what it answered is not HTTP as it should be"
}

// broke tells that a reply broke off. The error may quote what the upstream sent: its kind is told.
func (q *request) broke(err error) {
	var op *net.OpError
	why := "what came is not HTTP as it should be"
	switch {
	case q.r.Context().Err() != nil:
		why = "the client left"
	case errors.Is(err, io.ErrUnexpectedEOF):
		why = "the upstream ended in the middle of it"
	case errors.Is(err, net.ErrClosed), errors.Is(err, http.ErrBodyReadAfterClose):
		why = "nothing came for limits.stream_idle_timeout"
	case errors.As(err, &op) && op.Err != nil:
		why = op.Op + ": " + op.Err.Error()
	}
	q.p.log(q.w).Debug("a reply broke off", "upstream", q.target.name, "why", why)
}

// gaveUp says that an HTTP/2 upstream reset the request, or ended its connection under it. net/http
// keeps the types of these errors to itself.
func gaveUp(err error) bool {
	text := err.Error()
	return strings.Contains(text, "stream error: stream ID ") || strings.Contains(text, "http2: server sent GOAWAY")
}

// untrusted says that TLS failed.
func untrusted(err error) bool {
	var verify *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	var alert tls.AlertError
	return errors.Is(err, http.ErrSchemeMismatch) || errors.As(err, &verify) || errors.As(err, &record) || errors.As(err, &alert)
}

// badResponse is a response that a proxy may not pass on.
type badResponse string

func (e badResponse) Error() string { return string(e) }
