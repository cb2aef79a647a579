package proxy

import (
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"time"
)

// newTransport is the client side. Compression is off, because a transport that decodes gzip unasked would change bytes;
// there is no overall timeout, because a stream may last for hours.
func newTransport(header time.Duration) *http.Transport {
	return &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
		TLSHandshakeTimeout:   10 * time.Second,
		ResponseHeaderTimeout: header,
		IdleConnTimeout:       90 * time.Second,
		MaxIdleConns:          4096,
		MaxIdleConnsPerHost:   4096,
		DisableCompression:    true,
		ForceAttemptHTTP2:     true,
		WriteBufferSize:       64 << 10,
		ReadBufferSize:        16 << 10,
	}
}

// copyBuffers lends ReverseProxy its copy buffers.
type copyBuffers struct{ p *pool }

func (c copyBuffers) Get() []byte  { b := c.p.get(32 << 10); return b[:cap(b)] }
func (c copyBuffers) Put(b []byte) { c.p.put(b) }

// exchange is one forwarding: what goes out, and who watches what comes back.
type forwarding struct {
	url      *url.URL
	body     *payload // nil: the client's body is streamed as it is
	length   int64    // of body; -1 when the client announced trailers
	decoded  bool     // body is no longer in the client's Content-Encoding
	proxied  bool     // an HTTP proxy of the environment stands before the upstream
	identity bool     // ask the upstream for an unencoded reply
	original *payload // what to send again if the upstream rejects body; nil: nothing was changed
	rejected func(status int)
	turn     *turn // which is told of the response, or why there is none
}

// serve forwards r. It panics with http.ErrAbortHandler when the upstream's stream is cut, so that the client sees a
// cut as well.
func (p *Proxy) serve(w *patient, r *http.Request, f *forwarding) {
	if p.direct.serves(f, r) {
		p.relay(w, r, f)
		return
	}
	rp := httputil.ReverseProxy{
		Rewrite:        f.rewrite,
		Transport:      p.transport,
		FlushInterval:  -1,
		BufferPool:     copyBuffers{&p.pool},
		ErrorLog:       p.stdlog,
		ModifyResponse: f.turn.response,
		ErrorHandler:   f.turn.failed,
	}
	if f.original != nil {
		rp.Transport = &secondTry{rp.Transport, f}
	}
	rp.ServeHTTP(w, r)
}

// rewrite makes the outgoing request what the client's was: ReverseProxy has just dropped the forwarding headers and
// whatever it could not parse of the query.
func (f *forwarding) rewrite(pr *httputil.ProxyRequest) {
	out := pr.Out
	for _, h := range [...]string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto"} {
		if v, ok := pr.In.Header[h]; ok {
			out.Header[h] = v
		}
	}
	f.dress(out)
}

// dress makes of a request whose headers are the client's the one that goes out.
func (f *forwarding) dress(out *http.Request) {
	out.URL, out.Host = f.url, ""
	for h := range out.Header {
		if strings.HasPrefix(h, "Precept-") {
			delete(out.Header, h)
		}
	}
	f.turn.who.present(out.Header, out.URL)
	if f.identity {
		out.Header.Set("Accept-Encoding", "identity")
	}
	if f.body == nil {
		return
	}
	if f.decoded {
		out.Header.Del("Content-Encoding")
	}
	out.Header.Del("Expect") // the body is here: there is nothing to wait for
	setBody(out, f.body, f.length)
}

// setBody gives the request a body that can be sent again: without GetBody the transport cannot repeat a POST on a fresh
// connection when the kept-alive one turns out to have been closed by the upstream, and the client would see a 502.
func setBody(out *http.Request, b *payload, length int64) {
	out.Body = b.reader()
	out.ContentLength = length
	out.GetBody = func() (io.ReadCloser, error) { return b.reader(), nil }
	if length == 0 {
		out.Body, out.GetBody = nil, nil
	}
	if b.tail != nil { // the rest comes from the client once
		out.GetBody = nil
	}
}

// secondTry sends the client's original bytes once more when the upstream rejects a request that we changed.
type secondTry struct {
	next http.RoundTripper
	f    *forwarding
}

// RoundTrip implements http.RoundTripper.
func (s *secondTry) RoundTrip(r *http.Request) (*http.Response, error) {
	res, err := s.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	switch res.StatusCode {
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity:
	default:
		return res, nil
	}
	again := r.Clone(r.Context())
	setBody(again, s.f.original, int64(len(s.f.original.data)))
	second, err := s.next.RoundTrip(again)
	if err != nil {
		return res, nil //nolint:nilerr // the first answer is a true one, and the client gets it
	}
	_, _ = io.CopyN(io.Discard, res.Body, 64<<10)
	_ = res.Body.Close()
	if second.StatusCode < 300 { // the bytes were at fault, not the request
		s.f.rejected(res.StatusCode)
	}
	return second, nil
}

// watched is a response body under the idle limit: a stream in which nothing comes for too long is cut, and its turn sees every
// byte before the client does.
type watched struct {
	io.ReadCloser
	turn  *turn
	idle  *time.Timer // nil for a body that keeps to the limit by itself
	limit time.Duration
}

// idling is a body that ends a read in which nothing comes for so long.
type idling interface{ idleLimit(d time.Duration) }

// watch puts a body under the limit.
func (w *watched) watch(t *turn, body io.ReadCloser, limit time.Duration) {
	w.ReadCloser, w.turn, w.limit = body, t, limit
	if b, ok := body.(idling); ok {
		b.idleLimit(limit)
	} else if body != http.NoBody {
		w.idle = time.AfterFunc(limit, func() { _ = body.Close() })
	}
}

// Read implements io.Reader.
func (w *watched) Read(b []byte) (int, error) {
	n, err := w.ReadCloser.Read(b)
	if w.idle != nil {
		w.idle.Reset(w.limit)
	}
	w.turn.see(b[:n], err)
	return n, err
}

// Close implements io.Closer.
func (w *watched) Close() error {
	if w.idle != nil {
		w.idle.Stop()
	}
	return w.ReadCloser.Close()
}

// patient bounds how long one write to the client may take, not how long the response may last.
type patient struct {
	http.ResponseWriter
	ctl   *http.ResponseController
	limit time.Duration
	now   func() time.Time
	moved time.Time // when the deadline was set last
	wrote int64
	code  int
	conn  *corkConn // the client's, nil where nothing can be held back
}

// Write implements io.Writer. The deadline moves in steps: moving it for each of a stream's small writes would cost more than
// they do.
func (p *patient) Write(b []byte) (int, error) {
	if now := p.now(); now.Sub(p.moved) > p.limit/16 {
		p.moved = now
		_ = p.ctl.SetWriteDeadline(now.Add(p.limit))
	}
	if len(b) > corkFrom { // until FlushError
		p.conn.cork(len(b))
	}
	n, err := p.ResponseWriter.Write(b)
	p.wrote += int64(n)
	return n, err
}

// FlushError sends what was written.
func (p *patient) FlushError() error {
	return errors.Join(p.ctl.Flush(), p.conn.uncork())
}

// end is for when nothing more comes: what the server itself has to add goes through.
func (p *patient) end() {
	_ = p.conn.uncork()
	_ = p.ctl.SetWriteDeadline(time.Time{})
}

// WriteHeader notes the status.
func (p *patient) WriteHeader(code int) {
	if code >= 200 {
		p.code = code
	}
	p.ResponseWriter.WriteHeader(code)
}

// Unwrap lets http.ResponseController find Hijack and the deadlines.
func (p *patient) Unwrap() http.ResponseWriter { return p.ResponseWriter }

// statusOf says which status precept answers with when the upstream could not be asked.
func statusOf(err error) (int, string) {
	var ne net.Error
	switch {
	case errors.Is(err, errTooLarge):
		return http.StatusRequestEntityTooLarge, "the request body exceeds limits.body_bytes; raise it, or send less"
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &ne) && ne.Timeout(),
		strings.Contains(err.Error(), "timeout awaiting response headers"):
		return http.StatusGatewayTimeout, "the upstream did not answer within limits.upstream_header_timeout"
	}
	return http.StatusBadGateway, "the upstream could not be reached; check upstreams in the configuration and that it is up"
}

// discardLog silences ReverseProxy's own lines: what it reports reaches the client and our metrics.
func discardLog() *log.Logger { return log.New(io.Discard, "", 0) }
