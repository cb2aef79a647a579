package proxy

import (
	"container/list"
	"net"
	"net/http"
	"sync"
	"time"
)

// mostConnections bounds what is open at once: each costs some ten kilobytes, busy or not. The
// store, the spool and the lessons need files beside.
const mostConnections, filesElsewhere = 32 << 10, 64

// A connection that was just opened, or just got its answer, may have its next request under way,
// which would be lost if it were closed: it stays for quietFor. While all connections have been
// quiet for less, a new one waits and tries again every slotAgain.
const quietFor, slotAgain = time.Second, 50 * time.Millisecond

// LimitListener bounds how many connections clients hold open, so that files are left for those to
// the upstreams. At the bound it closes the connection that has been without a request for longest.
// While all of them have a request, a new one waits.
type LimitListener struct {
	net.Listener
	now   func() time.Time
	quiet time.Duration
	slots chan struct{} // holds one for each open connection
	done  chan struct{} // closed with the listener
	once  sync.Once

	mu   sync.Mutex
	idle list.List                  // of idleConn, the longest so first
	at   map[net.Conn]*list.Element // in idle
}

// idleConn is a connection without a request.
type idleConn struct {
	net.Conn
	since time.Time
}

// NewLimitListener puts a listener under its bound.
func NewLimitListener(l net.Listener, now func() time.Time) *LimitListener {
	most := mostConnections
	if files := openFiles(); files > 0 {
		most = min(most, max((files-filesElsewhere)/2, files/4, 1)) // each may need one to an upstream
	}
	return newLimitListener(l, now, most, quietFor)
}

func newLimitListener(l net.Listener, now func() time.Time, most int, quiet time.Duration) *LimitListener {
	return &LimitListener{
		Listener: l, now: now, quiet: quiet, slots: make(chan struct{}, most), done: make(chan struct{}), at: map[net.Conn]*list.Element{},
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
	again := time.NewTicker(slotAgain)
	defer again.Stop()
	for {
		d.closeLongestIdle()
		select {
		case d.slots <- struct{}{}:
			return &limitedConn{Conn: c, listener: d}, nil
		case <-again.C:
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

// Watch is the hook of the server (http.Server.ConnState).
func (d *LimitListener) Watch(c net.Conn, state http.ConnState) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if e := d.at[c]; e != nil {
		d.idle.Remove(e)
		delete(d.at, c)
	}
	if state == http.StateNew || state == http.StateIdle {
		d.at[c] = d.idle.PushBack(idleConn{c, d.now()})
	}
}

// CloseWhenFull ends each connection with its answer while hardly any more can be opened. The
// answer says so: the client opens another connection for its next request, and loses none.
func (d *LimitListener) CloseWhenFull(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if most := cap(d.slots); len(d.slots) >= most-most/8 {
			w.Header().Set("Connection", "close")
		}
		next.ServeHTTP(w, r)
	})
}

// closeLongestIdle closes the connection that has been without a request for longest, if that is
// longer than quiet.
func (d *LimitListener) closeLongestIdle() {
	d.mu.Lock()
	defer d.mu.Unlock()
	e := d.idle.Front()
	if e == nil {
		return
	}
	c := e.Value.(idleConn) //nolint:errcheck,forcetypeassert // nothing else is put there
	if d.now().Sub(c.since) < d.quiet {
		return
	}
	d.idle.Remove(e)
	delete(d.at, c.Conn)
	_ = c.Close()
}

// limitedConn is a connection that counts until it is closed.
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
