package admin

import (
	"net/netip"
	"sync"
	"time"
)

const (
	throttleWindow   = time.Minute      // period over which wrong tokens are counted
	maxFailuresPerIP = 10               // wrong tokens from one address before status 429
	maxTotalFailures = 100              // wrong tokens from all addresses before status 429
	maxThrottledIPs  = 1024             // maximum number of addresses with a separate count
	logEvery         = 10 * time.Second // minimum time between log lines
)

// throttle counts wrong tokens and limits log lines about them. After many wrong tokens, further ones get status 429. A
// correct token always works, because token length, not the throttle, prevents guessing.
type throttle struct {
	now func() time.Time

	mu         sync.Mutex
	startedAt  time.Time          // when the period started
	total      int                // wrong tokens in the period
	byIP       map[netip.Addr]int // wrong tokens in the period
	unlogged   int                // wrong tokens since the last log line
	lastLogged time.Time
}

func newThrottle(now func() time.Time) *throttle {
	return &throttle{now: now, byIP: map[netip.Addr]int{}}
}

type throttleResult struct {
	retryAfter time.Duration // time until the next period for status 429, else 0
	shouldLog  bool
	count      int // wrong tokens since the last log line
}

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
