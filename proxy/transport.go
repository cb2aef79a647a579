package proxy

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"sync/atomic"
	"time"
)

// Bounds of what an upstream may take of this machine.
const (
	mostHeaders  = 1 << 20  // bytes of a response's headers
	streamWindow = 64 << 10 // bytes of one HTTP/2 stream that may wait in memory for a client that does not read
	mostIdle     = 4096     // kept connections to one upstream
)

// newTransport makes what every upstream is asked through. Compression is off, because a
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
