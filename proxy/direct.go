package proxy

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// direct is a client for plain HTTP/1.1 upstreams and requests whose body is in memory: it writes the request and reads
// the response in the goroutine that serves the turn, where http.Transport hands both to two more goroutines. That is
// half of what forwarding costs. Everything else (TLS, HTTP/2, upgrades, streamed bodies, trailers, an HTTP proxy in
// between) goes to http.Transport.
//
// Contract: as http.RoundTripper's, and the request's body is not read after RoundTrip has returned. A connection that the
// upstream closed while it was idle is noticed before it is used; if it closes between that look and our first byte's
// arrival, the request is sent once more on a fresh one, because nothing of an answer was seen.
type direct struct {
	header time.Duration // limit for the response's headers
	now    func() time.Time
	dialer net.Dialer

	mu     sync.Mutex
	idle   map[string][]*wireConn // newest last
	closed bool
}

// Bounds of kept connections.
const (
	maxIdle     = 1024 // per upstream
	maxIdleAge  = 90 * time.Second
	justIdle    = 5 * time.Millisecond // who answered a moment ago is not looked at; exchange notices if it has hung up
	smallBody   = 16 << 10             // goes out together with the headers
	keptHead    = 8 << 10              // of what a request went out in, for the next one
	readBuffer  = 4 << 10
	maxInterims = 16 // 1xx responses before the real one
)

func newDirect(header time.Duration, now func() time.Time) *direct {
	return &direct{
		header: header, now: now, idle: map[string][]*wireConn{},
		dialer: net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second},
	}
}

// wireConn is a connection to an upstream, used by one turn at a time.
type wireConn struct {
	net.Conn
	whole net.Conn // the same one, for what is too long to be written in one go
	addr  string
	br    *bufio.Reader
	head  headBuffer // what the last request went out in
	since time.Time  // idle since
	used  bool       // it has carried a request before
	peek  *peek      // see alive
}

// serves says whether a forwarding can go this way.
func (d *direct) serves(f *forwarding, r *http.Request) bool {
	return f.url.Scheme == "http" && f.body != nil && f.body.tail == nil && f.length >= 0 && !f.proxied && r.Header.Get("Upgrade") == ""
}

// RoundTrip implements http.RoundTripper for requests whose Body is a *payloadReader.
func (d *direct) RoundTrip(r *http.Request) (*http.Response, error) {
	addr := r.URL.Host
	if r.URL.Port() == "" {
		addr = net.JoinHostPort(r.URL.Hostname(), "80")
	}
	for {
		c, err := d.take(r.Context(), addr)
		if err != nil {
			return nil, err
		}
		res, err := d.exchange(c, r)
		if err == nil {
			return res, nil
		}
		_ = c.Close()
		if cause := context.Cause(r.Context()); cause != nil {
			return nil, cause
		}
		if !errors.Is(err, errStale) {
			return nil, err
		}
	}
}

// errStale says that a kept connection turned out to be dead before a byte of an answer came.
var errStale = errors.New("the upstream closed an idle connection")

// take gives a kept connection that is still alive, or a new one.
func (d *direct) take(ctx context.Context, addr string) (*wireConn, error) {
	now := d.now()
	for {
		d.mu.Lock()
		list := d.idle[addr]
		if len(list) == 0 {
			d.mu.Unlock()
			break
		}
		c := list[len(list)-1]
		d.idle[addr] = list[:len(list)-1]
		d.mu.Unlock()
		if idle := now.Sub(c.since); idle < justIdle || idle < maxIdleAge && alive(c) {
			return c, nil
		}
		_ = c.Close()
	}
	conn, err := d.dialer.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	raw := newRawConn(conn)
	return &wireConn{Conn: raw, whole: conn, addr: addr, br: bufio.NewReaderSize(raw, readBuffer)}, nil
}

// give keeps a connection for the next turn.
func (d *direct) give(c *wireConn) {
	if c.br.Buffered() > 0 { // an answer that nobody asked for
		_ = c.Close()
		return
	}
	c.since, c.used = d.now(), true
	d.mu.Lock()
	keep := !d.closed && len(d.idle[c.addr]) < maxIdle
	if keep {
		d.idle[c.addr] = append(d.idle[c.addr], c)
	}
	d.mu.Unlock()
	if !keep {
		_ = c.Close()
	}
}

// CloseIdleConnections closes what is kept, now and from now on.
func (d *direct) CloseIdleConnections() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
	for _, list := range d.idle {
		for _, c := range list {
			_ = c.Close()
		}
	}
	clear(d.idle)
}

// exchange sends the request and reads the response's headers. The end of the context breaks off whatever is waited for.
func (d *direct) exchange(c *wireConn, r *http.Request) (*http.Response, error) {
	stop := context.AfterFunc(r.Context(), func() { _ = c.SetDeadline(time.Unix(1, 0)) })
	_ = c.SetDeadline(d.now().Add(d.header))
	if r.Context().Err() != nil { // the line above may have undone the break
		stop()
		return nil, context.Cause(r.Context())
	}
	wrote := writeRequest(c, r)
	res, err := c.response(r)
	if err != nil {
		stop()
		if c.used && (errors.Is(err, io.EOF) || isReset(err) || isReset(wrote)) && !isTimeout(err) {
			return nil, errStale
		}
		if wrote != nil {
			err = wrote
		}
		return nil, fmt.Errorf("ask the upstream: %w", err)
	}
	b := &directBody{d: d, c: c, body: res.Body, ctx: r.Context(), stop: stop, keep: wrote == nil && !res.Close}
	if res.Body == http.NoBody {
		b.end(true)
		return res, nil
	}
	res.Body = b
	return res, nil
}

// writeRequest sends the headers and the body, small ones in one piece.
func writeRequest(c *wireConn, r *http.Request) error {
	data := r.Body.(*payloadReader).p.data //nolint:errcheck,forcetypeassert // serves has seen to it
	head := c.head[:0]
	head = append(append(append(append(head, r.Method...), ' '), r.URL.RequestURI()...), " HTTP/1.1\r\nHost: "...)
	head = append(append(append(head, r.URL.Host...), "\r\nContent-Length: "...), strconv.Itoa(len(data))...)
	head = append(head, "\r\n"...)
	for k, vv := range r.Header {
		switch k {
		case "Host", "Content-Length", "Transfer-Encoding", "Trailer":
			continue
		case "User-Agent":
			if len(vv) == 1 && vv[0] == "" { // ReverseProxy's way to say "send none"
				continue
			}
		}
		for _, v := range vv {
			head = append(append(append(append(head, k...), ": "...), oneLine(v)...), "\r\n"...)
		}
	}
	head = append(head, "\r\n"...)
	if len(data) <= smallBody {
		head = append(head, data...)
	}
	if cap(head) <= keptHead {
		c.head = head
	}
	if len(data) <= smallBody {
		_, err := c.Write(head)
		return err
	}
	bufs := net.Buffers{head, data}
	_, err := bufs.WriteTo(c.whole)
	return err
}

// headBuffer is the start of a request.
type headBuffer = []byte

// oneLine is a header value that cannot end its line.
func oneLine(v string) string {
	for i := range len(v) {
		if v[i] == '\n' || v[i] == '\r' || v[i] == 0 {
			return ""
		}
	}
	return v
}

// response reads the response, past interim ones.
func (c *wireConn) response(r *http.Request) (*http.Response, error) {
	for range maxInterims {
		if _, err := c.br.Peek(1); err != nil {
			return nil, err
		}
		res, err := http.ReadResponse(c.br, r)
		if err != nil {
			if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
				err = errors.New("the upstream closed the connection in the middle of its headers")
			}
			return nil, err
		}
		if res.StatusCode >= 200 || res.StatusCode == http.StatusSwitchingProtocols {
			return res, nil
		}
	}
	return nil, errors.New("the upstream sends interim responses without end")
}

// directBody is a response body that gives its connection back when it has been read to the end.
type directBody struct {
	d    *direct
	c    *wireConn
	body io.ReadCloser
	ctx  context.Context //nolint:containedctx // of the request whose response this is
	stop func() bool
	keep bool
	once sync.Once

	limit time.Duration // of waiting for more, 0 for none
	moved time.Time     // when the deadline was set last
}

// idleLimit implements idling.
func (b *directBody) idleLimit(d time.Duration) { b.limit = d }

// wait moves the deadline, in steps: moving it for each of a stream's small reads would cost more than they do. It says false when
// the request is over, which the deadline may have undone.
func (b *directBody) wait() bool {
	if b.limit <= 0 {
		return true
	}
	now := b.d.now()
	if now.Sub(b.moved) <= b.limit/16 {
		return true
	}
	b.moved = now
	_ = b.c.SetReadDeadline(now.Add(b.limit))
	return b.ctx.Err() == nil
}

// Read implements io.Reader.
func (b *directBody) Read(p []byte) (int, error) {
	if !b.wait() {
		b.end(false)
		return 0, context.Cause(b.ctx)
	}
	n, err := b.body.Read(p)
	if err == nil {
		return n, nil
	}
	b.end(errors.Is(err, io.EOF))
	if cause := context.Cause(b.ctx); cause != nil && !errors.Is(err, io.EOF) {
		err = cause
	}
	return n, err
}

// Close implements io.Closer. A body that was not read to its end costs its connection: there may be no end.
func (b *directBody) Close() error {
	b.end(false)
	return nil
}

func (b *directBody) end(whole bool) {
	b.once.Do(func() {
		if b.stop() && whole && b.keep {
			b.d.give(b.c)
			return
		}
		_ = b.c.Close()
	})
}

func isTimeout(err error) bool {
	var ne net.Error
	return errors.As(err, &ne) && ne.Timeout()
}
