package proxy

import (
	"errors"
	"io"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	"github.com/labstack/echo/v4"

	"precept/internal/wire"
)

// lingerTimeout is how long a client that is still sending has to read its answer before the
// connection is closed: closing it with unread bytes may lose what the client has not read yet.
const lingerTimeout = 500 * time.Millisecond

// clientWriter is the way to the client. It bounds how long one write may take, not how long the
// response may last, and remembers how the request was answered.
type clientWriter struct {
	http.ResponseWriter
	ctl     *http.ResponseController
	limit   time.Duration // of one write, and of waiting for more of the request
	now     func() time.Time
	moved   time.Time // when the write deadline was set last
	body    *clientBody
	dialect wire.Dialect // of the rewritten path that was asked for
	code    int          // 0: no answer yet
	id      string       // Precept-Request-Id; "" while nobody has asked for it
	old     bool         // HTTP/1.0, which knows no interim responses
}

// Write implements io.Writer. The deadline moves in steps: moving it for each of a stream's small
// writes would cost more than they do.
func (w *clientWriter) Write(b []byte) (int, error) {
	if now := w.now(); now.Sub(w.moved) > w.limit/16 {
		w.moved = now
		_ = w.ctl.SetWriteDeadline(now.Add(w.limit))
	}
	if w.code == 0 {
		w.WriteHeader(http.StatusOK)
	}
	return w.ResponseWriter.Write(b)
}

// WriteHeader notes the status. The answer gets no Content-Type that the upstream did not give:
// net/http would make one up. Who is answered before the body is there may not use the connection
// again: nobody will have read the rest of it.
func (w *clientWriter) WriteHeader(code int) {
	if code < 200 && code != http.StatusSwitchingProtocols {
		if !w.old {
			w.ResponseWriter.WriteHeader(code)
		}
		return
	}
	w.code = code
	h := w.Header()
	if w.id != "" {
		h.Set("Precept-Request-Id", w.id)
	}
	if _, ok := h["Content-Type"]; !ok {
		h["Content-Type"] = nil
	}
	if w.body != nil && !w.body.over() {
		h.Set("Connection", "close")
	}
	w.ResponseWriter.WriteHeader(code)
}

// Unwrap lets http.ResponseController find Flush, Hijack and the deadlines.
func (w *clientWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// end is for when the answer is complete: what the server itself has to add goes through, and
// nobody waits for long for the rest of a body that nobody wants. The deadline is set when that
// time is up: the server takes away one that is set before, where the transport still reads, and
// then reads the rest of a short body for as long as that takes. The connection ends with this
// answer, so no other request meets the deadline.
func (w *clientWriter) end() {
	_ = w.ctl.SetWriteDeadline(time.Time{})
	if w.body != nil && !w.body.over() {
		time.AfterFunc(lingerTimeout, func() { _ = w.ctl.SetReadDeadline(time.Unix(1, 0)) })
	}
}

// clientBody is the body of a client's request: bounded in size, and in how long it may stand
// still.
type clientBody struct {
	io.ReadCloser
	w     *clientWriter
	moved time.Time // when the read deadline was set last
	ended atomic.Pointer[error]
}

// receive puts the request's body under its bounds. It returns a request of its own: the server
// looks at the body of the one that it handed out to know whether the connection can be used again.
func (w *clientWriter) receive(r *http.Request, most int64) *http.Request {
	if r.Body == nil || r.Body == http.NoBody {
		return r
	}
	own := r.WithContext(r.Context())
	// Without the writer: the transport reads the body, and would set headers of an answer that an
	// upstream which has not waited for it gives at the same time. Our own WriteHeader does it.
	w.body = &clientBody{ReadCloser: http.MaxBytesReader(nil, r.Body, most), w: w}
	own.Body = w.body
	// Otherwise the server would wait for up to 256 KiB of the body before it sends an answer.
	_ = w.ctl.EnableFullDuplex()
	return own
}

// bodyOf reads the body of a request to precept's own API.
func bodyOf(c echo.Context, most int64, tooLong string) ([]byte, error) {
	w := clientOf(c.Response())
	body, err := io.ReadAll(w.receive(c.Request(), most).Body)
	if err == nil {
		return body, nil
	}
	own := w.body.fault(wire.None)
	switch {
	case own == nil:
		return nil, err
	case own.status == http.StatusRequestEntityTooLarge:
		own.message = tooLong
	}
	return nil, own
}

// Read implements io.Reader.
func (b *clientBody) Read(p []byte) (int, error) {
	if now := b.w.now(); now.Sub(b.moved) > b.w.limit/16 {
		b.moved = now
		_ = b.w.ctl.SetReadDeadline(now.Add(b.w.limit))
	}
	n, err := b.ReadCloser.Read(p)
	if err != nil && b.ended.CompareAndSwap(nil, &err) && errors.Is(err, io.EOF) {
		_ = b.w.ctl.SetReadDeadline(time.Time{}) // or the server would take the silence behind it for the client's leaving
	}
	return n, err
}

// over says that the whole body is here.
func (b *clientBody) over() bool {
	err := b.ended.Load()
	return err != nil && errors.Is(*err, io.EOF)
}

// fault is what precept answers when the body did not come; nil while nothing is wrong with it.
func (b *clientBody) fault(d wire.Dialect) *problem {
	if b == nil {
		return nil
	}
	err := b.ended.Load()
	if err == nil || errors.Is(*err, io.EOF) {
		return nil
	}
	if _, ok := errors.AsType[*http.MaxBytesError](*err); ok {
		return refusal(d, http.StatusRequestEntityTooLarge, tooLarge)
	}
	if errors.Is(*err, os.ErrDeadlineExceeded) {
		return refusal(d, http.StatusRequestTimeout, "the request body stood still for limits.client_write_timeout; send it again")
	}
	return refusal(d, http.StatusBadRequest, "the request body ended early")
}

// tooLarge says that a request body exceeds limits.body_bytes.
const tooLarge = "the request body exceeds limits.body_bytes; raise it, or send less"

// clientOf finds the way to the client below what stands before it.
func clientOf(w http.ResponseWriter) *clientWriter {
	for {
		switch v := w.(type) {
		case *clientWriter:
			return v
		case interface{ Unwrap() http.ResponseWriter }:
			w = v.Unwrap()
		default:
			return &clientWriter{}
		}
	}
}
