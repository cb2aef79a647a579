package proxy

import (
	"io"
	"net/http"
	"sync/atomic"

	"precept/internal/wire"
)

// inFlight counts the resources of all requests in progress. The limits are counts and not times, so that a short
// slowdown of the machine does not reach a limit (decision 11). Beyond limits.inspect_total_bytes, a body is forwarded
// unread and gets no lessons. Beyond limits.requests, a request is refused.
type inFlight struct {
	requests atomic.Int64 // number of requests
	bodies   atomic.Int64 // number of bytes of request bodies in memory
	copies   atomic.Int64 // number of bytes of copies of replies in memory
}

// tooMany is the answer to a request beyond limits.requests.
const tooMany = "precept has limits.requests requests in flight; try again in a moment"

// maxDiscarded is the maximum number of bytes of a refused request's body that precept reads and discards. Because of
// this read, a client that sends its whole body before it reads the answer gets the answer, and can use the connection
// again.
const maxDiscarded = 256 << 10

// refuseOverLimit returns the error of a request beyond limits.requests.
func refuseOverLimit(w *clientWriter, r *http.Request, shape wire.Dialect) error {
	w.limit = lingerTimeout
	if r.ContentLength != 0 && r.Body != nil {
		_, _ = io.CopyN(io.Discard, r.Body, maxDiscarded)
	}
	return newAPIError(shape, http.StatusServiceUnavailable, tooMany)
}

// enter counts a request, unless limit requests are already in progress. If enter returns true, the caller calls leave
// at the end of the request. If enter returns false, the request is not counted.
func (f *inFlight) enter(limit int) bool {
	if f.requests.Add(1) <= int64(limit) {
		return true
	}
	f.requests.Add(-1)
	return false
}

// leave ends the count of a request.
func (f *inFlight) leave() { f.requests.Add(-1) }

// charge is the memory of one request that counts for a limit on the memory of all requests.
type charge struct {
	all   *atomic.Int64 // bytes of all requests
	limit int64         // maximum of all
	bytes int64         // bytes of this request
}

// tryAdd charges n more bytes, and returns true. If the bytes exceed the common limit, tryAdd charges nothing and
// returns false.
func (c *charge) tryAdd(n int) bool {
	if c.all.Add(int64(n)) > c.limit {
		c.all.Add(int64(-n))
		return false
	}
	c.bytes += int64(n)
	return true
}

// add charges n bytes that are already in memory, even beyond the limit.
func (c *charge) add(n int) {
	c.all.Add(int64(n))
	c.bytes += int64(n)
}

// release lowers the charge to the given number of bytes.
func (c *charge) release(bytes int64) {
	c.all.Add(bytes - c.bytes)
	c.bytes = bytes
}
