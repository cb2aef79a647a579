package proxy

import (
	"io"
	"net/http"
	"sync/atomic"

	"precept/internal/wire"
)

// inFlight counts what all requests under way take together. Its limits are numbers and not times,
// so that a machine that is slow for a moment changes nothing (decision 11). Beyond the limit of
// bytes a body is passed on unread, which costs its lessons; beyond that of requests, one is
// refused.
type inFlight struct {
	requests atomic.Int64
	bodies   atomic.Int64 // bytes of their bodies in memory
	copies   atomic.Int64 // bytes of replies held for capture
}

// tooMany says that a request is one too many.
const tooMany = "precept has limits.requests requests under way; try again in a moment"

// unreadBody is how much of the body of a refused request is read, so that its client, which sends
// that much before it looks, finds the answer and can use the connection again.
const unreadBody = 256 << 10

// refuseOverLimit answers a request beyond limits.requests.
func refuseOverLimit(w *clientWriter, r *http.Request, shape wire.Dialect) error {
	w.limit = lingerTimeout
	if r.ContentLength != 0 && r.Body != nil {
		_, _ = io.CopyN(io.Discard, r.Body, unreadBody)
	}
	return refusal(shape, http.StatusServiceUnavailable, tooMany)
}

// enter counts a request in if fewer than most are under way. One that was counted in must leave.
func (c *inFlight) enter(most int) bool {
	if c.requests.Add(1) <= int64(most) {
		return true
	}
	c.requests.Add(-1)
	return false
}

func (c *inFlight) leave() { c.requests.Add(-1) }

// charge is what one request holds of the bytes that all bodies may take.
type charge struct {
	all  *atomic.Int64
	most int64
	held int64
}

// hold charges n more bytes, unless that exceeds the limit.
func (c *charge) hold(n int) bool {
	if c.all.Add(int64(n)) > c.most {
		c.all.Add(int64(-n))
		return false
	}
	c.held += int64(n)
	return true
}

// add charges n bytes that are in memory already, over the limit if need be.
func (c *charge) add(n int) {
	c.all.Add(int64(n))
	c.held += int64(n)
}

// release lowers the charge to what is still held.
func (c *charge) release(held int64) {
	c.all.Add(held - c.held)
	c.held = held
}
