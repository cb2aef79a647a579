package redis

import (
	"errors"
	"sync"
	"time"
)

// breaker bounds what a Redis that does not answer costs: one wait in each period. While it is
// closed, every call goes out; while it is open, one call goes out when the period is over, as a
// probe, and all others are refused at once.
type breaker struct {
	period time.Duration
	most   int // failures in a row that leave it closed: on a busy machine a short wait may run out by chance

	mu     sync.Mutex
	failed int       // in a row
	until  time.Time // open until then; zero when closed
}

// allow says whether a call may go out. An open breaker that lets a probe through stays open for
// everyone else.
func (b *breaker) allow(now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.until.IsZero() {
		return true
	}
	if now.Before(b.until) {
		return false
	}
	b.until = now.Add(b.period)
	return true
}

// open says whether calls are refused now.
func (b *breaker) open(now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return now.Before(b.until)
}

// note remembers how a call ended.
func (b *breaker) note(now time.Time, failed bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !failed {
		b.failed, b.until = 0, time.Time{}
	} else if b.failed++; b.failed > b.most {
		b.until = now.Add(b.period)
	}
}

// unreachable says whether an error tells that waiting for Redis is in vain just now. One that
// answers at once, if only to refuse, does not need a breaker.
func unreachable(err error) bool { return errors.Is(err, ErrDown) || errors.Is(err, ErrTLS) }
