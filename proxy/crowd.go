package proxy

import (
	"io"
	"net/http"
	"sync/atomic"

	"precept/wire"
)

// crowd is what all requests under way take together. It has two bounds, both by number and not by
// time, so that a machine that is slow for a moment changes nothing (decision 11): first bodies are
// passed on unread, which costs lessons, and then requests are refused.
type crowd struct {
	requests atomic.Int64 // on their way
	bodies   atomic.Int64 // bytes of their bodies in memory
}

// tooMany says that a request is one too many.
const tooMany = "precept has limits.requests requests under way; try again in a moment"

// unreadBody is how much of the body of a refused request is read, so that its client, which sends
// that much before it looks, finds the answer and can use the connection again.
const unreadBody = 256 << 10

// turnAway refuses a request that is one too many.
func turnAway(w *clientWriter, r *http.Request, shape wire.Dialect) error {
	w.limit = lingering
	if r.ContentLength != 0 && r.Body != nil {
		_, _ = io.CopyN(io.Discard, r.Body, unreadBody)
	}
	return refusal(shape, http.StatusServiceUnavailable, tooMany)
}

// enter lets a request in where fewer than most are under way. Who was let in leaves.
func (c *crowd) enter(most int) bool {
	if c.requests.Add(1) <= int64(most) {
		return true
	}
	c.requests.Add(-1)
	return false
}

func (c *crowd) leave() { c.requests.Add(-1) }

// hold charges a request for n more bytes of its body, where there is room for them.
func (c *crowd) hold(q *request, n int64) bool {
	if c.bodies.Add(n) > int64(q.set.cfg.Limits.InspectTotalBytes) {
		c.bodies.Add(-n)
		return false
	}
	q.holds += n
	return true
}

// add charges a request for n more bytes that are there already: those who come later find less
// room.
func (c *crowd) add(q *request, n int64) {
	c.bodies.Add(n)
	q.holds += n
}

// release takes a request's charge back, but for that of what it still holds.
func (c *crowd) release(q *request, held int64) {
	c.bodies.Add(held - q.holds)
	q.holds = held
}
