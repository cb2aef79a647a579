package proxy

import (
	"net"
	"net/http"
	"sync"
	"time"
)

// roadKey says which upstreams share their connections: those on one host, under one limit.
type roadKey struct {
	scheme, host string
	header       time.Duration // limits.upstream_header_timeout, which a transport holds for all of its requests
}

// road is the connections to one upstream. A configuration that is taken over keeps the roads that
// it still needs; one that it does not need is retired. A retired transport would keep its
// connections until they have been idle for 90 seconds, each with its goroutines: they are closed
// as soon as the last request on the road is over.
type road struct {
	header time.Duration

	mu        sync.Mutex
	transport *http.Transport
	users     int // requests that are under way on it
	retired   bool
	conns     map[*upstreamConn]bool // that are open
}

// newRoad makes a road. It starts nothing.
func newRoad(header time.Duration) *road {
	r := &road{header: header, conns: map[*upstreamConn]bool{}}
	r.transport = newTransport(header, r)
	return r
}

// use begins a request. One that was given a road before it was retired may still use it.
func (r *road) use() *http.Transport {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.users++
	return r.transport
}

// leave ends a request.
func (r *road) leave() { r.change(func() { r.users-- }) }

// retire closes the road for the requests of later configurations.
func (r *road) retire() { r.change(func() { r.retired = true }) }

// change closes the connections, when nobody needs them after what is done. No request is on them
// any more, over HTTP/2 either: the transport's own CloseIdleConnections would pass over a
// connection whose last stream is just being put away.
func (r *road) change(do func()) {
	r.mu.Lock()
	do()
	var spent []net.Conn
	if r.retired && r.users == 0 {
		for c := range r.conns {
			spent = append(spent, c)
		}
		r.transport = newTransport(r.header, r) // for whoever comes late: the other one lends connections that are being closed
	}
	r.mu.Unlock()
	for _, c := range spent {
		_ = c.Close() // nobody is on it who could be told
	}
}

// opened counts a connection in. One that net/http dialled for a request which is over meanwhile
// comes too late.
func (r *road) opened(c *upstreamConn) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.retired && r.users == 0 {
		return net.ErrClosed
	}
	r.conns[c] = true
	return nil
}

func (r *road) closed(c *upstreamConn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.conns, c)
}
