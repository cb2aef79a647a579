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

const (
	maxHeaderBytes    = 1 << 20  // response header bytes
	streamWindowBytes = 64 << 10 // bytes per HTTP/2 stream held in memory while the client does not read
	maxIdleConns      = 4096     // idle connections to one upstream
)

// newTransport returns a transport to an upstream. Compression is off, because a transport that decodes gzip changes
// the response bytes. There is no overall timeout, because a stream can last for hours. Pings detect a dead HTTP/2
// connection, which all requests to an upstream share.
func newTransport(headerTimeout time.Duration) *http.Transport {
	return &http.Transport{
		Proxy:                  environmentProxy,
		OnProxyConnectResponse: checkTunnel,
		DialContext:            dial,
		TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12, ClientSessionCache: tls.NewLRUClientSessionCache(256)},
		TLSHandshakeTimeout:    10 * time.Second,
		ResponseHeaderTimeout:  headerTimeout,
		ExpectContinueTimeout:  time.Second,
		MaxResponseHeaderBytes: maxHeaderBytes,
		IdleConnTimeout:        90 * time.Second,
		MaxIdleConns:           maxIdleConns,
		MaxIdleConnsPerHost:    maxIdleConns,
		DisableCompression:     true,
		ForceAttemptHTTP2:      true,
		HTTP2: &http.HTTP2Config{
			MaxReceiveBufferPerStream: streamWindowBytes,
			SendPingTimeout:           30 * time.Second,
			PingTimeout:               15 * time.Second,
		},
	}
}

// upstreamConn counts the bytes read from an HTTP/1 connection, to detect bytes that an upstream sends after the end of
// a response. net/http would use these bytes as the response to the connection's next request, from a different client.
// precept recognises such bytes because they arrive before precept begins to write that request.
type upstreamConn struct {
	net.Conn
	bytesRead        atomic.Int64
	bytesReadAtWrite atomic.Int64 // bytesRead when writing the request began; -1 means no write yet
}

func dial(ctx context.Context, network, address string) (net.Conn, error) {
	d := net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}
	c, err := d.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return &upstreamConn{Conn: c}, nil
}

// countedConn returns the upstreamConn inside c, or nil for HTTP/2, where frames name the request.
func countedConn(c net.Conn) *upstreamConn {
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
	c.bytesRead.Add(int64(n))
	return n, err
}

// Write implements net.Conn.
func (c *upstreamConn) Write(b []byte) (int, error) {
	c.bytesReadAtWrite.CompareAndSwap(-1, c.bytesRead.Load())
	return c.Conn.Write(b)
}

// hasAnswer reports whether a byte was read since writing the request began.
func (c *upstreamConn) hasAnswer() bool {
	readBefore := c.bytesReadAtWrite.Load()
	return readBefore >= 0 && c.bytesRead.Load() > readBefore
}

// attempts counts net/http's attempts to send one request. Several attempts can read the body at the same time, even
// after RoundTrip has returned.
type attempts struct {
	unfinished        atomic.Int32 // attempts that can still read the body
	bodies            []*payload   // returned to the pool when no attempt can read them
	pool              *pool
	hasBodies         atomic.Bool
	conn              atomic.Pointer[upstreamConn] // newest attempt's connection; nil for HTTP/2
	responseCameFirst atomic.Bool                  // the response came before the request
	stage             atomic.Int32                 // newest attempt's stage
}

// follow adds hooks by which net/http reports the attempts.
func (a *attempts) follow(r *http.Request) *http.Request {
	return r.WithContext(httptrace.WithClientTrace(r.Context(), &httptrace.ClientTrace{
		ConnectStart:      func(string, string) { a.stage.Store(int32(stageDial)) },
		ConnectDone:       func(string, string, error) { a.stage.Store(int32(stageConnected)) },
		TLSHandshakeStart: func() { a.stage.Store(int32(stageTLS)) },
		TLSHandshakeDone: func(_ tls.ConnectionState, err error) {
			if err == nil { // a failed handshake keeps stageTLS; CONNECT follows the handshake with an HTTPS proxy
				a.stage.Store(int32(stageConnected))
			}
		},
		GotConn: func(i httptrace.GotConnInfo) {
			a.stage.Store(int32(stageSent))
			a.unfinished.Add(1)
			c := countedConn(i.Conn)
			if c != nil {
				c.bytesReadAtWrite.Store(-1)
			}
			a.conn.Store(c)
		},
		WroteRequest: func(httptrace.WroteRequestInfo) { a.endAttempt() },
		GotFirstResponseByte: func() {
			if c := a.conn.Load(); c != nil && !c.hasAnswer() {
				a.responseCameFirst.Store(true)
				_ = c.Close()
			}
		},
	}))
}

// recycle returns the bodies to the pool as soon as no attempt reads them. If an attempt never ends, the garbage
// collector frees them. No attempt can begin after recycle.
func (a *attempts) recycle(p *pool, bodies ...*payload) {
	a.unfinished.Add(1)
	a.pool, a.bodies = p, bodies
	a.hasBodies.Store(true)
	a.endAttempt()
}

// endAttempt ends an attempt, and returns the bodies to the pool after the last attempt.
func (a *attempts) endAttempt() {
	if a.unfinished.Add(-1) > 0 || !a.hasBodies.CompareAndSwap(true, false) {
		return
	}
	for _, b := range a.bodies {
		if b != nil {
			b.release(a.pool)
		}
	}
	a.bodies = nil
}
