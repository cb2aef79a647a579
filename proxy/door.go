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

// A connection that has just come, or has just had its answer, may have its next request under way:
// closing it would cost that one. It stays for quietFor. While all have been quiet for less, a new
// one waits, and looks again every roomAgain.
const quietFor, roomAgain = time.Second, 50 * time.Millisecond

// Door is the way in for connections. They are bounded, so that what clients hold open leaves files
// for the upstreams: where there is no room for another one, the connection goes that has been
// without a request for longest, and where all have one the new one waits.
type Door struct {
	net.Listener
	now   func() time.Time
	quiet time.Duration
	room  chan struct{} // one for each connection that is open
	done  chan struct{} // closed with the listener
	once  sync.Once

	mu   sync.Mutex
	idle list.List                  // of resting, the longest so first
	at   map[net.Conn]*list.Element // in idle
}

// resting is a connection without a request.
type resting struct {
	net.Conn
	since time.Time
}

// NewDoor puts a listener under its bound.
func NewDoor(l net.Listener, now func() time.Time) *Door {
	most := mostConnections
	if files := openFiles(); files > 0 {
		most = min(most, max((files-filesElsewhere)/2, files/4, 1)) // each may need one to an upstream
	}
	return newDoor(l, now, most, quietFor)
}

func newDoor(l net.Listener, now func() time.Time, most int, quiet time.Duration) *Door {
	return &Door{
		Listener: l, now: now, quiet: quiet, room: make(chan struct{}, most), done: make(chan struct{}), at: map[net.Conn]*list.Element{},
	}
}

// Accept implements net.Listener.
func (d *Door) Accept() (net.Conn, error) {
	c, err := d.Listener.Accept()
	if err != nil {
		return nil, err
	}
	select {
	case d.room <- struct{}{}:
		return &guest{Conn: c, door: d}, nil
	default:
	}
	again := time.NewTicker(roomAgain)
	defer again.Stop()
	for {
		d.showOut()
		select {
		case d.room <- struct{}{}:
			return &guest{Conn: c, door: d}, nil
		case <-again.C:
		case <-d.done:
			_ = c.Close()
			return nil, net.ErrClosed
		}
	}
}

// Close implements net.Listener.
func (d *Door) Close() error {
	d.once.Do(func() { close(d.done) })
	return d.Listener.Close()
}

// Watch is the hook of the server (http.Server.ConnState).
func (d *Door) Watch(c net.Conn, state http.ConnState) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if e := d.at[c]; e != nil {
		d.idle.Remove(e)
		delete(d.at, c)
	}
	if state == http.StateNew || state == http.StateIdle {
		d.at[c] = d.idle.PushBack(resting{c, d.now()})
	}
}

// Usher lets no connection rest while there is hardly any room: its answer says that it ends, so
// that its client opens another one for the next request and loses none.
func (d *Door) Usher(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if most := cap(d.room); len(d.room) >= most-most/8 {
			w.Header().Set("Connection", "close")
		}
		next.ServeHTTP(w, r)
	})
}

// showOut closes the connection that has been without a request for longest, where there is one
// that has been so for long enough.
func (d *Door) showOut() {
	d.mu.Lock()
	defer d.mu.Unlock()
	e := d.idle.Front()
	if e == nil {
		return
	}
	c := e.Value.(resting) //nolint:errcheck,forcetypeassert // nothing else is put there
	if d.now().Sub(c.since) < d.quiet {
		return
	}
	d.idle.Remove(e)
	delete(d.at, c.Conn)
	_ = c.Close()
}

// guest is a connection that was let in.
type guest struct {
	net.Conn
	door *Door
	once sync.Once
}

// Close implements net.Conn.
func (g *guest) Close() error {
	g.once.Do(func() { <-g.door.room })
	return g.Conn.Close()
}
