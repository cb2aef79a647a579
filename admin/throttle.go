package admin

import (
	"net/netip"
	"sync"
	"time"
)

const (
	throttleWindow = time.Minute
	failuresPerIP  = 10
	failuresAtAll  = 100
	throttledIPs   = 1024
	logEvery       = 10 * time.Second
)

// throttle counts wrong tokens. The comparison always runs: a right token works during a flood of
// wrong tokens, which are too long to be guessed. The throttle only limits the log.
type throttle struct {
	now func() time.Time

	mu     sync.Mutex
	began  time.Time
	all    int
	byIP   map[netip.Addr]int
	silent int // failures since the last log line
	logged time.Time
}

func newThrottle(now func() time.Time) *throttle {
	return &throttle{now: now, byIP: map[netip.Addr]int{}}
}

// failure is the consequence of one wrong token.
type failure struct {
	retryAfter time.Duration // > 0: answer 429
	log        bool
	count      int // failures that this log line counts
}

// wrong counts a wrong token.
func (t *throttle) wrong(ip netip.Addr) failure {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.now()
	if now.Sub(t.began) >= throttleWindow {
		t.began, t.all = now, 0
		clear(t.byIP)
	}
	t.all++
	if _, known := t.byIP[ip]; known || len(t.byIP) < throttledIPs {
		t.byIP[ip]++
	}
	t.silent++
	var f failure
	if t.all > failuresAtAll || t.byIP[ip] > failuresPerIP {
		f.retryAfter = throttleWindow - now.Sub(t.began)
	}
	if now.Sub(t.logged) >= logEvery {
		f.log, f.count = true, t.silent
		t.logged, t.silent = now, 0
	}
	return f
}
