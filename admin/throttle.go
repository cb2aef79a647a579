package admin

import (
	"net/netip"
	"sync"
	"time"
)

const (
	throttleWindow   = time.Minute      // period in which wrong tokens are counted
	maxFailuresPerIP = 10               // wrong tokens of one address in a period that are answered without status 429
	maxTotalFailures = 100              // wrong tokens of all addresses in a period that are answered without status 429
	maxThrottledIPs  = 1024             // maximum number of addresses that are counted in a period
	logEvery         = 10 * time.Second // minimum time between two log lines about wrong tokens
)

// throttle counts wrong tokens, and limits the log lines about wrong tokens. After many wrong tokens, each further
// wrong token is answered with status 429. A correct token always works, even during a flood of wrong tokens. The
// length of the generated tokens, and not the throttle, prevents guessing.
type throttle struct {
	now func() time.Time

	mu         sync.Mutex
	startedAt  time.Time          // start of the period
	total      int                // wrong tokens of all addresses in the period
	byIP       map[netip.Addr]int // wrong tokens in the period by address
	unlogged   int                // wrong tokens since the last log line
	lastLogged time.Time          // time of the last log line
}

func newThrottle(now func() time.Time) *throttle {
	return &throttle{now: now, byIP: map[netip.Addr]int{}}
}

// throttleResult describes the answer to a wrong token, and its log line.
type throttleResult struct {
	retryAfter time.Duration // time until the next period if the answer is status 429, else 0
	shouldLog  bool
	count      int // wrong tokens since the last log line
}

// countFailure counts a wrong token from an address.
func (t *throttle) countFailure(ip netip.Addr) throttleResult {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.now()
	if now.Sub(t.startedAt) >= throttleWindow {
		t.startedAt, t.total = now, 0
		clear(t.byIP)
	}
	t.total++
	if _, known := t.byIP[ip]; known || len(t.byIP) < maxThrottledIPs {
		t.byIP[ip]++
	}
	t.unlogged++
	var f throttleResult
	if t.total > maxTotalFailures || t.byIP[ip] > maxFailuresPerIP {
		f.retryAfter = throttleWindow - now.Sub(t.startedAt)
	}
	if now.Sub(t.lastLogged) >= logEvery {
		f.shouldLog, f.count = true, t.unlogged
		t.lastLogged, t.unlogged = now, 0
	}
	return f
}
