package proxy

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httputil"
	"strings"
	"time"
)

// flushInterval is how long ReverseProxy collects a reply with a Content-Length before it writes to the client. Most
// such replies are then complete, and go out with the headers in one write. ReverseProxy flushes streams at once.
const flushInterval = 2 * time.Millisecond

// eventPieceBytes and maxPieceBytes are the smallest and the largest buffer for one read from a reply. An event stream
// gets the smallest, because a slow stream keeps the buffer for minutes, and net/http reads only 4 KiB at a time.
const eventPieceBytes, maxPieceBytes = 4 << 10, 32 << 10

// observer receives the reply before the client does.
type observer interface {
	// onResponse runs before the headers are sent, and can add headers. acceptedOriginal is true if the upstream
	// rejected the changed request and accepted the original bytes.
	onResponse(res *http.Response, acceptedOriginal bool)
	// onBody receives each part of the body, and the read error.
	onBody(b []byte, err error)
	// onFailure receives the headers and the status of precept's answer if the upstream sent no reply.
	onFailure(h http.Header, status int)
}

type noObserver struct{}

func (noObserver) onResponse(*http.Response, bool) {}
func (noObserver) onBody([]byte, error)            {}
func (noObserver) onFailure(http.Header, int)      {}

// forwarder forwards one request. It is the RoundTripper and the BufferPool in the request's own ReverseProxy.
type forwarder struct {
	p        *Proxy
	w        *clientWriter
	r        *http.Request
	out      *outgoing
	observer observer

	reply            limitedBody
	attempts         attempts
	pieceBytes       int  // buffer size
	acceptedOriginal bool // see observer.onResponse
}

// serve forwards the request. When the upstream cuts the stream, serve panics with http.ErrAbortHandler.
func (f *forwarder) serve() {
	finished := false
	defer func() {
		if !finished && f.w.status != 0 { // send the client the part received before the cut
			_ = f.w.controller.Flush()
		}
	}()
	rp := httputil.ReverseProxy{
		Rewrite:        f.rewrite,
		Transport:      f,
		FlushInterval:  flushInterval,
		BufferPool:     f,
		ErrorLog:       f.p.discardLog,
		ModifyResponse: f.modifyResponse,
		ErrorHandler:   f.handleError,
	}
	rp.ServeHTTP(f.w, f.r)
	finished = true
}

// rewrite implements ReverseProxy.Rewrite. It restores what ReverseProxy has dropped (forwarding headers, unparseable
// query parts, unannounced trailers), sets the URL, the key and the body, and removes precept's headers and Upgrade
// headers other than websocket.
func (f *forwarder) rewrite(pr *httputil.ProxyRequest) {
	out := pr.Out
	for _, h := range [...]string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto"} {
		if v, ok := pr.In.Header[h]; ok {
			out.Header[h] = v
		}
	}
	out.URL, out.Host = f.out.url, ""
	for h := range out.Header {
		if strings.HasPrefix(h, "Precept-") {
			delete(out.Header, h)
		}
	}
	if !strings.EqualFold(out.Header.Get("Upgrade"), "websocket") {
		// Clients such as Java's HttpClient offer h2c to precept, and HTTP/2 forbids these headers.
		out.Header.Del("Connection")
		out.Header.Del("Upgrade")
	}
	f.out.client.setUpstreamKey(out.Header, out.URL)
	f.out.span.Forward(out.Context(), out.Header)
	if f.out.uncompressed {
		out.Header.Set("Accept-Encoding", "identity")
	}
	if len(f.out.inbound.Trailer) > 0 {
		out.Trailer = f.out.inbound.Trailer
		maps.DeleteFunc(out.Trailer, dropTrailer)
	}
	if f.out.body == nil {
		return
	}
	if f.out.decoded {
		out.Header.Del("Content-Encoding")
	}
	if f.out.body.tail == nil {
		out.Header.Del("Expect") // the body is already in memory
	}
	setBody(out, f.out.body, f.out.length)
}

// dropTrailer reports whether to delete a trailer: precept's own, or one that net/http refuses.
func dropTrailer(name string, _ []string) bool {
	switch name {
	case "Transfer-Encoding", "Trailer", "Content-Length":
		return true
	}
	return strings.HasPrefix(name, "Precept-")
}

// setBody sets the body and, for a body in memory, GetBody. The transport needs GetBody to repeat the request if the
// upstream closed an idle connection before the first byte.
func setBody(out *http.Request, b *payload, length int64) {
	out.ContentLength = length
	if length == 0 {
		out.Body, out.GetBody = nil, nil
		return
	}
	out.Body, out.GetBody = b.reader(), nil
	if b.tail == nil { // the client's stream cannot be read again
		out.GetBody = func() (io.ReadCloser, error) { return b.reader(), nil }
	}
}

// RoundTrip implements http.RoundTripper. When the upstream rejects a request with insertions, RoundTrip sends the
// client's original bytes once. net/http itself repeats a request if no byte was written, or if there is an
// Idempotency-Key.
func (f *forwarder) RoundTrip(r *http.Request) (*http.Response, error) {
	r = f.attempts.follow(r)
	res, err := f.roundTrip(r)
	if err != nil || f.out.original == nil {
		return res, err
	}
	switch res.StatusCode {
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity:
		return f.resend(r, res), nil
	}
	return res, nil
}

// roundTrip sends the request, and refuses a response that began before the request.
func (f *forwarder) roundTrip(r *http.Request) (*http.Response, error) {
	res, err := f.out.target.transport.RoundTrip(r)
	if err == nil && f.attempts.responseCameFirst.Load() {
		_ = res.Body.Close()
		return nil, errEarlyResponse
	}
	return res, err
}

// resend sends the client's original bytes. If this second attempt fails, resend returns the first response.
func (f *forwarder) resend(r *http.Request, first *http.Response) *http.Response {
	retry := r.Clone(r.Context())
	length := int64(len(f.out.original.data))
	if r.ContentLength < 0 { // the client announced trailers
		length = -1
	}
	setBody(retry, f.out.original, length)
	if enc := f.out.inbound.Header["Content-Encoding"]; f.out.decoded && len(enc) > 0 {
		retry.Header["Content-Encoding"] = enc
	}
	second, err := f.roundTrip(retry)
	if err != nil {
		return first
	}
	_ = first.Body.Close() // the first response may never end
	f.acceptedOriginal = second.StatusCode < 300
	return second
}

// modifyResponse implements ReverseProxy.ModifyResponse, which runs before the headers are sent.
func (f *forwarder) modifyResponse(res *http.Response) error {
	if err := f.out.target.checkResponse(res, f.r); err != nil {
		return err
	}
	f.out.target.logAnswer(f.log, f.p.opts.Now, res.StatusCode)
	if res.StatusCode == http.StatusNotFound && f.out.uncompressed {
		f.out.target.warnUnknown(f.log, f.r.URL.EscapedPath(), f.out.url.EscapedPath())
	}
	f.pieceBytes = maxPieceBytes
	if strings.HasPrefix(res.Header.Get("Content-Type"), "text/event-stream") {
		f.pieceBytes = eventPieceBytes
	} else if res.ContentLength >= 0 {
		f.pieceBytes = int(min(max(res.ContentLength, eventPieceBytes), maxPieceBytes))
	}
	f.observer.onResponse(res, f.acceptedOriginal)
	if res.StatusCode != http.StatusSwitchingProtocols {
		f.reply.limit(f, res.Body, f.out.idleTimeout)
		res.Body = &f.reply
	}
	return nil
}

// handleError implements ReverseProxy.ErrorHandler, for a request without a reply.
func (f *forwarder) handleError(w http.ResponseWriter, r *http.Request, err error) {
	answer := f.w.body.readError(errorDialect(f.r)) // a failed read of the client's body also cancels the request
	if answer == nil {
		if errors.Is(r.Context().Err(), context.Canceled) {
			panic(http.ErrAbortHandler) // the client is gone
		}
		code, text := f.out.target.failureAnswer(err, stage(f.attempts.stage.Load()))
		answer = newAPIError(errorDialect(f.r), code, text)
		f.out.target.outages.logFailure(f.log(), f.out.target, f.p.opts.Now(), code, text)
	}
	f.observer.onFailure(w.Header(), answer.status)
	answer.write(w)
}

func (f *forwarder) log() *slog.Logger { return f.p.opts.log(f.w) }

// Get implements httputil.BufferPool.
func (f *forwarder) Get() []byte {
	b := f.p.pool.get(f.pieceBytes)
	return b[:cap(b)]
}

// Put implements httputil.BufferPool.
func (f *forwarder) Put(b []byte) { f.p.pool.put(b) }

// limitedBody is a reply body. It passes every byte to the observer first and then to the client, and closes the stream
// if the upstream sends no byte for limits.stream_idle_timeout. Time spent waiting for the client does not count.
type limitedBody struct {
	io.ReadCloser
	forwarding *forwarder
	idleLimit  time.Duration
	idle       *time.Timer // closes the body; runs during a read
}

func (l *limitedBody) limit(f *forwarder, body io.ReadCloser, idleLimit time.Duration) {
	l.ReadCloser, l.forwarding, l.idleLimit = body, f, idleLimit
	l.idle = time.AfterFunc(idleLimit, func() { _ = body.Close() })
	l.idle.Stop()
}

// Read implements io.Reader.
func (l *limitedBody) Read(b []byte) (int, error) {
	l.idle.Reset(l.idleLimit)
	n, err := l.ReadCloser.Read(b)
	l.idle.Stop()
	l.forwarding.observer.onBody(b[:n], err)
	if err != nil && !errors.Is(err, io.EOF) {
		l.forwarding.log().Debug("a reply ended early", "upstream", l.forwarding.out.target.name, "why", endReason(err, l.forwarding.r.Context().Err() != nil))
	}
	return n, err
}

// Close implements io.Closer.
func (l *limitedBody) Close() error {
	l.idle.Stop()
	return l.ReadCloser.Close()
}
