package proxy

import (
	"container/list"
	"net"
	"net/http"
	"sync"
	"time"
)

// maxConnections bounds the open connections: each connection takes some ten kilobytes, even without a
// request.
const maxConnections = 32 << 10

// otherFiles is the number of open files that the store, the outbox and the lessons need.
const otherFiles = 64

// minIdleTime is the time since the start or the last response of a connection after which the listener may
// close the connection. Earlier, the next request is probably on its way and would be lost.
const minIdleTime = time.Second

// slotRetry is the pause between two attempts to free a slot.
const slotRetry = 50 * time.Millisecond

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
	idle     list.List                  // idleConn values, the longest idle first
	elements map[net.Conn]*list.Element // the elements of idle, by connection
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
		maxConns = min(maxConns, max((files-otherFiles)/2, files/4, 1)) // each connection may need a connection to an upstream
	}
	return newLimitListener(l, now, maxConns, minIdleTime)
}

func newLimitListener(l net.Listener, now func() time.Time, maxConns int, minIdle time.Duration) *LimitListener {
	return &LimitListener{
		Listener: l, now: now, minIdle: minIdle, slots: make(chan struct{}, maxConns), done: make(chan struct{}), elements: map[net.Conn]*list.Element{},
	}
}

// Accept implements net.Listener.
func (l *LimitListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	select {
	case l.slots <- struct{}{}:
		return &limitedConn{Conn: c, listener: l}, nil
	default:
	}
	retry := time.NewTicker(slotRetry)
	defer retry.Stop()
	for {
		l.closeLongestIdle()
		select {
		case l.slots <- struct{}{}:
			return &limitedConn{Conn: c, listener: l}, nil
		case <-retry.C:
		case <-l.done:
			_ = c.Close()
			return nil, net.ErrClosed
		}
	}
}

// Close implements net.Listener.
func (l *LimitListener) Close() error {
	l.once.Do(func() { close(l.done) })
	return l.Listener.Close()
}

// Watch implements http.Server.ConnState.
func (l *LimitListener) Watch(c net.Conn, state http.ConnState) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e := l.elements[c]; e != nil {
		l.idle.Remove(e)
		delete(l.elements, c)
	}
	if state == http.StateNew || state == http.StateIdle {
		l.elements[c] = l.idle.PushBack(idleConn{c, l.now()})
	}
}

// CloseWhenFull closes each connection after its response while at most an eighth of the slots is free.
// The response has the header Connection: close, so the client opens another connection for its next
// request, and no request is lost.
func (l *LimitListener) CloseWhenFull(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if maxConns := cap(l.slots); len(l.slots) >= maxConns-maxConns/8 {
			w.Header().Set("Connection", "close")
		}
		next.ServeHTTP(w, r)
	})
}

// closeLongestIdle closes the connection with the longest idle time, if that time exceeds minIdle.
func (l *LimitListener) closeLongestIdle() {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.idle.Front()
	if e == nil {
		return
	}
	c := e.Value.(idleConn) //nolint:errcheck,forcetypeassert // the list holds idleConn only
	if l.now().Sub(c.since) < l.minIdle {
		return
	}
	l.idle.Remove(e)
	delete(l.elements, c.Conn)
	_ = c.Close()
}

// limitedConn is a connection with a slot, until the connection is closed.
type limitedConn struct {
	net.Conn
	listener *LimitListener
	once     sync.Once
}

// Close implements net.Conn.
func (c *limitedConn) Close() error {
	c.once.Do(func() { <-c.listener.slots })
	return c.Conn.Close()
}
