package proxy

import (
	"net/http"
	"net/http/httptrace"
	"sync/atomic"
)

// attempts follows what net/http does for one forwarding.
type attempts struct {
	open    atomic.Int32 // those that may still read the request's body
	bodies  []*payload   // to be given back when there is none left
	to      *pool
	given   atomic.Bool // bodies is set
	conn    atomic.Pointer[upstreamConn]
	unasked atomic.Bool
}

// follow gives the request the hooks by which net/http tells what it does.
func (a *attempts) follow(r *http.Request) *http.Request {
	return r.WithContext(httptrace.WithClientTrace(r.Context(), &httptrace.ClientTrace{
		GotConn: func(i httptrace.GotConnInfo) {
			a.open.Add(1)
			c := connUnder(i.Conn)
			if c != nil {
				c.asked.Store(-1)
			}
			a.conn.Store(c)
		},
		WroteRequest: func(httptrace.WroteRequestInfo) { a.close() },
		GotFirstResponseByte: func() {
			if c := a.conn.Load(); c != nil && !c.answers() {
				a.unasked.Store(true)
				_ = c.Close()
			}
		},
	}))
}

// giveBack gives the request's bodies back, as soon as nobody reads them any more. An attempt that
// never says that it has ended keeps them from the pool; the collector takes them in its time. No
// attempt may begin afterwards.
func (a *attempts) giveBack(to *pool, bodies ...*payload) {
	a.open.Add(1)
	a.to, a.bodies = to, bodies
	a.given.Store(true)
	a.close()
}

// close ends an attempt.
func (a *attempts) close() {
	if a.open.Add(-1) > 0 || !a.given.CompareAndSwap(true, false) {
		return
	}
	for _, b := range a.bodies {
		if b != nil {
			b.release(a.to)
		}
	}
	a.bodies = nil
}
