package proxy

import (
	"container/list"
	"net"
	"net/http"
	"sync"
)

// mostConnections bounds what is open at once: each costs some ten kilobytes, busy or not. The
// store, the spool and the lessons need files beside.
const mostConnections, filesElsewhere = 32 << 10, 64

// Door is the way in for connections. They are bounded, so that what clients hold open leaves files
// for the upstreams: where there is no room for another one, the connection goes that has been
// without a request for longest, and where all have one the new one waits.
type Door struct {
	net.Listener
	room chan struct{} // one for each connection that is open
	done chan struct{} // closed with the listener
	once sync.Once

	mu    sync.Mutex
	quiet list.List                  // of net.Conn without a request, the longest so first
	at    map[net.Conn]*list.Element // in quiet
}

// NewDoor puts a listener under its bound.
func NewDoor(l net.Listener) *Door {
	most := mostConnections
	if files := openFiles(); files > 0 {
		most = min(most, max((files-filesElsewhere)/2, 1)) // each may need one to an upstream
	}
	return newDoor(l, most)
}

func newDoor(l net.Listener, most int) *Door {
	return &Door{Listener: l, room: make(chan struct{}, most), done: make(chan struct{}), at: map[net.Conn]*list.Element{}}
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
		d.showOut()
	}
	select {
	case d.room <- struct{}{}:
		return &guest{Conn: c, door: d}, nil
	case <-d.done:
		_ = c.Close()
		return nil, net.ErrClosed
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
		d.quiet.Remove(e)
		delete(d.at, c)
	}
	if state == http.StateNew || state == http.StateIdle {
		d.at[c] = d.quiet.PushBack(c)
	}
}

// showOut closes the connection that has been without a request for longest, where there is one.
func (d *Door) showOut() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if e := d.quiet.Front(); e != nil {
		c := d.quiet.Remove(e).(net.Conn) //nolint:errcheck,forcetypeassert // nothing else is put there
		delete(d.at, c)
		_ = c.Close()
	}
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
