package proxy

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"
	"time"
)

// errUnasked is a response that was there before its request.
const errUnasked = badResponse("the upstream sent more than it was asked for; its connection was closed")

// attempts follows what net/http does for one forwarding.
type attempts struct {
	open    atomic.Int32 // those that may still read the request's body
	bodies  []*payload   // to be given back when there is none left
	pool    *pool
	given   atomic.Bool // bodies is set
	conn    atomic.Pointer[upstreamConn]
	unasked atomic.Bool
}

// follow gives the request the hooks by which net/http tells what it does.
func (a *attempts) follow(r *http.Request) *http.Request {
	return r.WithContext(httptrace.WithClientTrace(r.Context(), &httptrace.ClientTrace{
		GotConn: func(i httptrace.GotConnInfo) {
			a.open.Add(1)
			c := connUnder(i.Conn)
			if c != nil {
				c.asked.Store(-1)
			}
			a.conn.Store(c)
		},
		WroteRequest: func(httptrace.WroteRequestInfo) { a.close() },
		GotFirstResponseByte: func() {
			if c := a.conn.Load(); c != nil && !c.answers() {
				a.unasked.Store(true)
				_ = c.Close()
			}
		},
	}))
}

// giveBack gives the request's bodies back, as soon as nobody reads them any more. An attempt that
// never says that it has ended keeps them from the pool; the collector takes them in its time. No
// attempt may begin afterwards.
func (a *attempts) giveBack(to *pool, bodies ...*payload) {
	a.open.Add(1)
	a.pool, a.bodies = to, bodies
	a.given.Store(true)
	a.close()
}

// close ends an attempt.
func (a *attempts) close() {
	if a.open.Add(-1) > 0 || !a.given.CompareAndSwap(true, false) {
		return
	}
	for _, b := range a.bodies {
		if b != nil {
			b.release(a.pool)
		}
	}
	a.bodies = nil
}

// upstreamConn counts what is read of an HTTP/1 connection. net/http keeps a connection for the
// next request before it looks whether the upstream sent more than its response; a request that
// takes it in that moment, from another client, would get the surplus for its answer. It shows in
// this: no byte was read since the request was written.
type upstreamConn struct {
	net.Conn
	read  atomic.Int64 // bytes
	asked atomic.Int64 // read when the request began to be written, -1 before
}

// dial opens a connection that is counted.
func dial(ctx context.Context, network, address string) (net.Conn, error) {
	d := net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}
	c, err := d.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return &upstreamConn{Conn: c}, nil
}

// connUnder finds the counted connection; nil for HTTP/2, whose frames say which request they
// answer.
func connUnder(c net.Conn) *upstreamConn {
	if t, ok := c.(*tls.Conn); ok {
		if t.ConnectionState().NegotiatedProtocol == "h2" {
			return nil
		}
		c = t.NetConn()
	}
	u, _ := c.(*upstreamConn)
	return u
}

// Read implements net.Conn.
func (c *upstreamConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.read.Add(int64(n))
	return n, err
}

// Write implements net.Conn.
func (c *upstreamConn) Write(b []byte) (int, error) {
	c.asked.CompareAndSwap(-1, c.read.Load())
	return c.Conn.Write(b)
}

// answers says that something was read since the request was written.
func (c *upstreamConn) answers() bool {
	asked := c.asked.Load()
	return asked >= 0 && c.read.Load() > asked
}
