package proxy

import (
	"container/list"
	"net"
	"net/http"
	"sync"
	"time"
)

// maxConnections bounds the open connections: each takes some ten kilobytes, also without a request. The
// store, the outbox and the lessons need filesElsewhere files.
const maxConnections, filesElsewhere = 32 << 10, 64

// minIdleTime is the time since the start or the last response of a connection after which the listener may
// close the connection. Earlier, the next request is probably on its way and would be lost. slotRetry is
// the pause between two attempts to free a slot.
const minIdleTime, slotRetry = time.Second, 50 * time.Millisecond

// LimitListener bounds the connections of clients, so that enough files are left for connections to
// upstreams. At the bound, the listener closes the connection with the longest idle time. While all
// connections have a request, a new connection waits.
type LimitListener struct {
	net.Listener
	now     func() time.Time
	minIdle time.Duration
	slots   chan struct{} // one entry for each open connection
	done    chan struct{} // closed with the listener
	once    sync.Once

	mu       sync.Mutex
	idle     list.List                  // *idleConn values, the longest idle first
	elements map[net.Conn]*list.Element // the element of idle
}

// idleConn is a connection without a request.
type idleConn struct {
	net.Conn
	since time.Time
}

// NewLimitListener returns a bounded listener on l.
func NewLimitListener(l net.Listener, now func() time.Time) *LimitListener {
	maxConns := maxConnections
	if files := openFiles(); files > 0 {
		maxConns = min(maxConns, max((files-filesElsewhere)/2, files/4, 1)) // each connection may need a connection to an upstream
	}
	return newLimitListener(l, now, maxConns, minIdleTime)
}

func newLimitListener(l net.Listener, now func() time.Time, maxConns int, minIdle time.Duration) *LimitListener {
	return &LimitListener{
		Listener: l, now: now, minIdle: minIdle, slots: make(chan struct{}, maxConns), done: make(chan struct{}), elements: map[net.Conn]*list.Element{},
	}
}

// Accept implements net.Listener.
func (d *LimitListener) Accept() (net.Conn, error) {
	c, err := d.Listener.Accept()
	if err != nil {
		return nil, err
	}
	select {
	case d.slots <- struct{}{}:
		return &limitedConn{Conn: c, listener: d}, nil
	default:
	}
	retry := time.NewTicker(slotRetry)
	defer retry.Stop()
	for {
		d.closeLongestIdle()
		select {
		case d.slots <- struct{}{}:
			return &limitedConn{Conn: c, listener: d}, nil
		case <-retry.C:
		case <-d.done:
			_ = c.Close()
			return nil, net.ErrClosed
		}
	}
}

// Close implements net.Listener.
func (d *LimitListener) Close() error {
	d.once.Do(func() { close(d.done) })
	return d.Listener.Close()
}

// Watch implements http.Server.ConnState.
func (d *LimitListener) Watch(c net.Conn, state http.ConnState) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if e := d.elements[c]; e != nil {
		d.idle.Remove(e)
		delete(d.elements, c)
	}
	if state == http.StateNew || state == http.StateIdle {
		d.elements[c] = d.idle.PushBack(idleConn{c, d.now()})
	}
}

// CloseWhenFull closes each connection with its response while few more can be opened. The response
// has the header Connection: close, so the client opens another connection for its next request and
// loses none.
func (d *LimitListener) CloseWhenFull(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if maxConns := cap(d.slots); len(d.slots) >= maxConns-maxConns/8 {
			w.Header().Set("Connection", "close")
		}
		next.ServeHTTP(w, r)
	})
}

// closeLongestIdle closes the connection with the longest idle time, if that time exceeds minIdle.
func (d *LimitListener) closeLongestIdle() {
	d.mu.Lock()
	defer d.mu.Unlock()
	e := d.idle.Front()
	if e == nil {
		return
	}
	c := e.Value.(idleConn) //nolint:errcheck,forcetypeassert // the list holds idleConn only
	if d.now().Sub(c.since) < d.minIdle {
		return
	}
	d.idle.Remove(e)
	delete(d.elements, c.Conn)
	_ = c.Close()
}

// limitedConn is a connection with a slot, until the connection is closed.
type limitedConn struct {
	net.Conn
	listener *LimitListener
	once     sync.Once
}

// Close implements net.Conn.
func (g *limitedConn) Close() error {
	g.once.Do(func() { <-g.listener.slots })
	return g.Conn.Close()
}
