package proxy

import (
	"io"
	"net/http"
	"sync/atomic"

	"precept/wire"
)

// inFlight counts what all requests under way take together. Both of its limits are numbers and not
// times, so that a machine that is slow for a moment changes nothing (decision 11). Beyond the
// limit of bytes a body is passed on unread, which costs its lessons; beyond that of requests, one
// is refused.
type inFlight struct {
	requests atomic.Int64
	bodies   atomic.Int64 // bytes of their bodies in memory
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

// hold charges a request for n more bytes of its body, unless that exceeds the limit.
func (c *inFlight) hold(q *request, n int64) bool {
	if c.bodies.Add(n) > int64(q.set.cfg.Limits.InspectTotalBytes) {
		c.bodies.Add(-n)
		return false
	}
	q.holds += n
	return true
}

// add charges a request for n bytes that are in memory already, over the limit if need be.
func (c *inFlight) add(q *request, n int64) {
	c.bodies.Add(n)
	q.holds += n
}

// release lowers a request's charge to what it still holds.
func (c *inFlight) release(q *request, held int64) {
	c.bodies.Add(held - q.holds)
	q.holds = held
}
