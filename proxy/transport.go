package proxy

import (
	"net"
	"net/http"
	"sync"
	"time"
)

// transportKey says which upstreams share their connections: those on one host, under one limit.
type transportKey struct {
	scheme, host string
	header       time.Duration // limits.upstream_header_timeout, which a transport holds for all of its requests
}

// sharedTransport is the http.Transport for one upstream host, with a count of its users. A reload
// keeps the transports that the new configuration needs and retires the others. A retired one would
// keep its connections, and their goroutines, until they have been idle for 90 seconds: so they are
// closed when its last request is over.
type sharedTransport struct {
	header time.Duration

	mu      sync.Mutex
	current *http.Transport
	users   int // requests under way
	retired bool
	conns   map[*upstreamConn]bool // open ones
}

// newSharedTransport makes a transport; it opens no connection.
func newSharedTransport(header time.Duration) *sharedTransport {
	r := &sharedTransport{header: header, conns: map[*upstreamConn]bool{}}
	r.current = newHTTPTransport(header, r)
	return r
}

// use counts a request in. A request that got the transport before it was retired may still use it.
func (r *sharedTransport) use() *http.Transport {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.users++
	return r.current
}

// leave counts a request out.
func (r *sharedTransport) leave() { r.change(func() { r.users-- }) }

// retire says that no later configuration needs the transport.
func (r *sharedTransport) retire() { r.change(func() { r.retired = true }) }

// change runs do, and closes the connections if they are needed no more. No request is on them
// then, over HTTP/2 either. The transport's own CloseIdleConnections would pass over a connection
// whose last stream is just ending.
func (r *sharedTransport) change(do func()) {
	r.mu.Lock()
	do()
	var spent []net.Conn
	if r.retired && r.users == 0 {
		for c := range r.conns {
			spent = append(spent, c)
		}
		r.current = newHTTPTransport(r.header, r) // for late users: the old one may hand out a connection that is being closed
	}
	r.mu.Unlock()
	for _, c := range spent {
		_ = c.Close() // nobody is on it who could be told
	}
}

// opened counts a connection in. One that net/http dialled for a request which is over meanwhile
// comes too late.
func (r *sharedTransport) opened(c *upstreamConn) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.retired && r.users == 0 {
		return net.ErrClosed
	}
	r.conns[c] = true
	return nil
}

func (r *sharedTransport) closed(c *upstreamConn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.conns, c)
}
