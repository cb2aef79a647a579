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

// lingerTimeout is how long precept waits, after its answer, before it closes a connection on which the client is still
// sending. Closing the connection while bytes are unread would reset it, and the client might lose the answer.
const lingerTimeout = 500 * time.Millisecond

// clientWriter writes the response, with a time limit for each write.
type clientWriter struct {
	http.ResponseWriter
	controller  *http.ResponseController
	ioTimeout   time.Duration // maximum time for one write, or for one request body read
	now         func() time.Time
	deadlineSet time.Time // when the write deadline was last set
	body        *clientBody
	dialect     wire.Dialect // wire.NoDialect unless the path is inspected
	status      int          // 0 means no answer yet
	id          string       // Precept-Request-Id; "" before the first use
	unknownKey  string       // unknown key after /p/, logged at the end; see PathForm.Unknown
	atEndpoint  bool
	http10      bool // HTTP/1.0 has no interim responses
}

// Write implements io.Writer. It moves the deadline in steps of limit/16, because moving the deadline can cost more
// than a small write.
func (w *clientWriter) Write(b []byte) (int, error) {
	if now := w.now(); now.Sub(w.deadlineSet) > w.ioTimeout/16 {
		w.deadlineSet = now
		_ = w.controller.SetWriteDeadline(now.Add(w.ioTimeout))
	}
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	return w.ResponseWriter.Write(b)
}

// WriteHeader implements http.ResponseWriter. If the upstream sent no Content-Type, WriteHeader prevents net/http from
// guessing one. If the request body has not ended, the connection is closed after the response, because the rest of the
// body stays unread.
func (w *clientWriter) WriteHeader(code int) {
	if code < 200 && code != http.StatusSwitchingProtocols {
		if !w.http10 {
			w.ResponseWriter.WriteHeader(code)
		}
		return
	}
	w.status = code
	h := w.Header()
	if w.id != "" {
		h.Set("Precept-Request-Id", w.id)
	}
	if _, ok := h["Content-Type"]; !ok {
		h["Content-Type"] = nil
	}
	if w.body != nil && !w.body.complete() {
		h.Set("Connection", "close")
	}
	w.ResponseWriter.WriteHeader(code)
}

// Unwrap lets http.ResponseController find Flush, Hijack and the deadlines.
func (w *clientWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// end ends a response. If the request body is incomplete, net/http reads the rest before it closes the connection, and
// a read deadline in the past ends this read. end sets the deadline after lingerTimeout, because net/http removes a
// deadline that is set while the transport still reads the body.
func (w *clientWriter) end() {
	_ = w.controller.SetWriteDeadline(time.Time{})
	if w.body != nil && !w.body.complete() {
		time.AfterFunc(lingerTimeout, func() { _ = w.controller.SetReadDeadline(time.Unix(1, 0)) })
	}
}

// clientBody is a request body with a maximum size and a time limit for each read.
type clientBody struct {
	io.ReadCloser
	w           *clientWriter
	deadlineSet time.Time             // when the read deadline was last set
	ended       atomic.Pointer[error] // first error from Read, io.EOF after the whole body
}

// boundBody returns a copy of a request, with a clientBody as the body.
func (w *clientWriter) boundBody(r *http.Request, maxBytes int64) *http.Request {
	if r.Body == nil || r.Body == http.NoBody {
		return r
	}
	bounded := r.WithContext(r.Context())
	// MaxBytesReader gets no ResponseWriter, because the transport reads the body, and MaxBytesReader could then set
	// headers during an early response. WriteHeader closes the connection instead.
	w.body = &clientBody{ReadCloser: http.MaxBytesReader(nil, r.Body, maxBytes), w: w}
	bounded.Body = w.body
	// Without full duplex, the server waits for up to 256 KiB of the body before it responds.
	_ = w.controller.EnableFullDuplex()
	return bounded
}

// readBody reads a request body. For a body above maxBytes, readBody returns an error with the text tooLong.
func readBody(c echo.Context, maxBytes int64, tooLong string) ([]byte, error) {
	w := unwrapClient(c.Response())
	body, err := io.ReadAll(w.boundBody(c.Request(), maxBytes).Body)
	if err == nil {
		return body, nil
	}
	fault := w.body.readError(wire.NoDialect)
	switch {
	case fault == nil:
		return nil, err
	case fault.status == http.StatusRequestEntityTooLarge:
		fault.message = tooLong
	}
	return nil, fault
}

// Read implements io.Reader.
func (b *clientBody) Read(p []byte) (int, error) {
	if now := b.w.now(); now.Sub(b.deadlineSet) > b.w.ioTimeout/16 {
		b.deadlineSet = now
		_ = b.w.controller.SetReadDeadline(now.Add(b.w.ioTimeout))
	}
	n, err := b.ReadCloser.Read(p)
	if err != nil && b.ended.CompareAndSwap(nil, &err) && errors.Is(err, io.EOF) {
		_ = b.w.controller.SetReadDeadline(time.Time{}) // otherwise the server mistakes silence for a closed connection
	}
	return n, err
}

func (b *clientBody) complete() bool {
	err := b.ended.Load()
	return err != nil && errors.Is(*err, io.EOF)
}

// readError returns precept's answer to a failed body read.
func (b *clientBody) readError(d wire.Dialect) *apiError {
	if b == nil {
		return nil
	}
	err := b.ended.Load()
	if err == nil || errors.Is(*err, io.EOF) {
		return nil
	}
	if _, ok := errors.AsType[*http.MaxBytesError](*err); ok {
		return newAPIError(d, http.StatusRequestEntityTooLarge, tooLarge)
	}
	if errors.Is(*err, os.ErrDeadlineExceeded) {
		return newAPIError(d, http.StatusRequestTimeout, "no part of the request body arrived within limits.client_write_timeout; send the request again")
	}
	return newAPIError(d, http.StatusBadRequest, "the request body ended early; send the request again")
}

const tooLarge = "the request body exceeds limits.body_bytes; raise the limit, or send a shorter body"

// unwrapClient returns the clientWriter inside echo's writers.
func unwrapClient(w http.ResponseWriter) *clientWriter {
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
