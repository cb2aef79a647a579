package proxy

import (
	"container/list"
	"net"
	"net/http"
	"sync"
	"time"
)

// maxConnections bounds the memory for client connections: each needs about 10 KB even without a request.
const maxConnections = 32 << 10

// otherFiles is the number of file descriptors reserved for the store, the outbox and the lessons.
const otherFiles = 64

// minIdleTime is how long a connection must be idle before the listener closes it. Just after a response, the client's
// next request might already be on its way, and would be lost.
const minIdleTime = time.Second

// maxUnsentBytes is the limit set by limitUnsent.
const maxUnsentBytes = 16 << 10

const slotRetry = 50 * time.Millisecond // pause between two searches for an idle connection to close

// LimitListener limits client connections, so that enough file descriptors are left for upstreams. At the limit, it
// closes the connection with the longest idle time. If no connection is idle, a new connection waits.
type LimitListener struct {
	net.Listener
	now     func() time.Time
	minIdle time.Duration // see minIdleTime
	slots   chan struct{} // one entry per open connection
	done    chan struct{} // closed by Close
	once    sync.Once

	mu       sync.Mutex
	idle     list.List                  // idleConn values, longest idle first
	elements map[net.Conn]*list.Element // by connection
}

type idleConn struct {
	net.Conn
	since time.Time
}

// NewLimitListener returns a listener over l, with a limit derived from the number of files that the process can open.
func NewLimitListener(l net.Listener, now func() time.Time) *LimitListener {
	maxConns := maxConnections
	if files := openFiles(); files > 0 {
		maxConns = min(maxConns, max((files-otherFiles)/2, files/4, 1)) // each client may need an upstream connection
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
	limitUnsent(c)
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

// TrackState implements http.Server.ConnState, and records which connections are idle.
func (l *LimitListener) TrackState(c net.Conn, state http.ConnState) {
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

// CloseWhenFull wraps next. While at most an eighth of the slots are free, each response has the header Connection:
// close. A connection closed in this way loses no request.
func (l *LimitListener) CloseWhenFull(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if maxConns := cap(l.slots); len(l.slots) >= maxConns-maxConns/8 {
			w.Header().Set("Connection", "close")
		}
		next.ServeHTTP(w, r)
	})
}

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

// limitedConn is a client connection that holds a slot until it is closed.
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
