package proxy

import (
	"io"
	"net/http"
	"sync/atomic"

	"precept/internal/wire"
)

// inFlight counts the resources used by requests in progress. The limits are counts and not times, because a slow
// machine is not always overloaded (decision 11). Beyond limits.inspect_total_bytes, a body is forwarded unread. Beyond
// limits.requests, a request is refused.
type inFlight struct {
	requests         atomic.Int64
	requestBodyBytes atomic.Int64
	replyCopyBytes   atomic.Int64
}

const tooMany = "precept already handles as many requests as limits.requests allows; try again in a moment"

// maxDiscarded is how much of a refused request's body precept reads. The client can use the connection again only
// after the whole body was read.
const maxDiscarded = 256 << 10

func refuseOverLimit(w *clientWriter, r *http.Request, dialect wire.Dialect) error {
	w.ioTimeout = lingerTimeout
	if r.ContentLength != 0 && r.Body != nil {
		_, _ = io.CopyN(io.Discard, r.Body, maxDiscarded)
	}
	return newAPIError(dialect, http.StatusServiceUnavailable, tooMany)
}

// enter counts a request until leave. If limit requests are in progress, enter returns false.
func (f *inFlight) enter(limit int) bool {
	if f.requests.Add(1) <= int64(limit) {
		return true
	}
	f.requests.Add(-1)
	return false
}

func (f *inFlight) leave() { f.requests.Add(-1) }

// charge is one request's memory under a common limit.
type charge struct {
	total *atomic.Int64 // bytes in all requests
	limit int64
	bytes int64 // bytes in this request
}

// tryAdd charges n bytes. Beyond the limit, it charges nothing and returns false.
func (c *charge) tryAdd(n int) bool {
	if c.total.Add(int64(n)) > c.limit {
		c.total.Add(int64(-n))
		return false
	}
	c.bytes += int64(n)
	return true
}

// add charges n bytes even beyond the limit, because the bytes are already in memory.
func (c *charge) add(n int) {
	c.total.Add(int64(n))
	c.bytes += int64(n)
}

// release reduces the charge to the given number of bytes.
func (c *charge) release(bytes int64) {
	c.total.Add(bytes - c.bytes)
	c.bytes = bytes
}
