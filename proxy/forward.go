package proxy

import (
	"errors"
	"io"
	"log"
	"maps"
	"net/http"
	"net/http/httputil"
	"strings"
	"time"
)

// flushWithin is how long a piece of a reply of known length may wait for the next one: most such
// replies are whole at once, and leave in one write with their headers. ReverseProxy flushes
// streams, of events or of unknown length, at once whatever it is told here.
const flushWithin = 2 * time.Millisecond

// observer is told what comes back.
type observer interface {
	// response comes with the headers of the answer that the client gets, which it may add to.
	response(res *http.Response)
	// see comes with each piece of the body, before the client gets it.
	see(b []byte, err error)
	// failed answers the client when the upstream gave no answer.
	failed(w http.ResponseWriter, r *http.Request, err error)
}

// forwarding is one request on its way. It is the RoundTripper of its own ReverseProxy.
type forwarding struct {
	*request
	observer observer
	unlogged *log.Logger
	reply    limitedBody
	piece    int  // how much of the reply is read at once
	rejected bool // the upstream took the original where it had refused what was inserted

	attempts
}

// serve forwards the request. It panics with http.ErrAbortHandler when the upstream's stream is
// cut, so that the client sees a cut as well.
func (f *forwarding) serve() {
	whole := false
	defer func() {
		if !whole && f.w.code != 0 { // what came of a reply that was cut is the client's
			_ = f.w.ctl.Flush()
		}
	}()
	rp := httputil.ReverseProxy{
		Rewrite:        f.rewrite,
		Transport:      f,
		FlushInterval:  flushWithin,
		BufferPool:     f,
		ErrorLog:       f.unlogged,
		ModifyResponse: f.response,
		ErrorHandler:   f.observer.failed,
	}
	rp.ServeHTTP(f.w, f.r)
	whole = true
}

// response is ReverseProxy's hook: the reply's headers are here.
func (f *forwarding) response(res *http.Response) error {
	if err := checkResponse(res, f.r); err != nil {
		return err
	}
	if res.StatusCode == http.StatusNotFound && f.out.identity {
		f.target.warnUnknown(f.log, f.r.URL.EscapedPath(), f.out.url.EscapedPath())
	}
	f.piece = mostPiece
	if strings.HasPrefix(res.Header.Get("Content-Type"), "text/event-stream") {
		f.piece = eventPiece
	} else if res.ContentLength >= 0 {
		f.piece = int(min(max(res.ContentLength, eventPiece), mostPiece))
	}
	f.observer.response(res)
	if res.StatusCode != http.StatusSwitchingProtocols {
		f.reply.limit(f, res.Body, f.set.cfg.Limits.StreamIdleTimeout)
		res.Body = &f.reply
	}
	return nil
}

// What is read of a response at once. A slow stream keeps its buffer for minutes, and its pieces
// are some hundred bytes: four kilobytes are what net/http reads of a connection at once.
const eventPiece, mostPiece = 4 << 10, 32 << 10

// Get implements httputil.BufferPool: it lends ReverseProxy its copy buffers.
func (f *forwarding) Get() []byte {
	b := f.pool.get(f.piece)
	return b[:cap(b)]
}

// Put implements httputil.BufferPool.
func (f *forwarding) Put(b []byte) { f.pool.put(b) }

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
	out.URL, out.Host = f.out.url, ""
	for h := range out.Header {
		if strings.HasPrefix(h, "Precept-") {
			delete(out.Header, h)
		}
	}
	f.who.present(out.Header, out.URL)
	f.span.Forward(out.Context(), out.Header)
	if f.out.identity {
		out.Header.Set("Accept-Encoding", "identity")
	}
	if len(f.out.came.Trailer) > 0 {
		out.Trailer = f.out.came.Trailer
		maps.DeleteFunc(out.Trailer, unsendable)
	}
	if f.out.body == nil {
		return
	}
	if f.out.decoded {
		out.Header.Del("Content-Encoding")
	}
	if f.out.body.tail == nil {
		out.Header.Del("Expect") // the body is here: there is nothing to wait for
	}
	setBody(out, f.out.body, f.out.length)
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
	if err != nil || f.out.original == nil {
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
	res, err := f.target.transport.RoundTrip(r)
	if err == nil && f.unasked.Load() {
		_ = res.Body.Close()
		return nil, errUnasked
	}
	return res, err
}

// again is the second try. The answer is the first one when there is no second.
func (f *forwarding) again(r *http.Request, first *http.Response) *http.Response {
	again := r.Clone(r.Context())
	length := int64(len(f.out.original.data))
	if r.ContentLength < 0 { // the client announced trailers
		length = -1
	}
	setBody(again, f.out.original, length)
	if enc := f.out.came.Header["Content-Encoding"]; f.out.decoded && len(enc) > 0 {
		again.Header["Content-Encoding"] = enc
	}
	second, err := f.ask(again)
	if err != nil {
		return first
	}
	_ = first.Body.Close()       // unread: its end may never come
	if second.StatusCode < 300 { // the bytes were at fault, not the request
		f.rejected = true
	}
	return second
}

// limitedBody is a response body under the idle limit: a stream in which nothing comes for too long
// is cut, and its observer sees every byte before the client does. The limit is the upstream's:
// while the client keeps us waiting it does not run.
type limitedBody struct {
	io.ReadCloser
	of   *forwarding
	most time.Duration
	idle *time.Timer // closes the body; it runs during a read
}

// limit puts a body under the limit.
func (w *limitedBody) limit(of *forwarding, body io.ReadCloser, most time.Duration) {
	w.ReadCloser, w.of, w.most = body, of, most
	w.idle = time.AfterFunc(most, func() { _ = body.Close() })
	w.idle.Stop()
}

// Read implements io.Reader.
func (w *limitedBody) Read(b []byte) (int, error) {
	w.idle.Reset(w.most)
	n, err := w.ReadCloser.Read(b)
	w.idle.Stop()
	w.of.observer.see(b[:n], err)
	if err != nil && !errors.Is(err, io.EOF) {
		w.of.log().Debug("a reply broke off", "upstream", w.of.target.name, "why", brokenBy(err, w.of.left()))
	}
	return n, err
}

// Close implements io.Closer.
func (w *limitedBody) Close() error {
	w.idle.Stop()
	return w.ReadCloser.Close()
}
