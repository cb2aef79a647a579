package redis

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	goredis "github.com/redis/go-redis/v9"
)

// linesPerMinute is how much of the client library is worth reading: it writes a line for every
// failed dial.
const linesPerMinute = 10

// The client library has one logger for the process and reads it without a lock, so that it can be
// set once only. What it forwards to may change.
var (
	relayOnce sync.Once                //nolint:gochecknoglobals // the library's logger is one
	relay     atomic.Pointer[throttle] //nolint:gochecknoglobals // see above
)

// logTo makes the client library's lines go to log.
func logTo(now func() time.Time, log func(line string)) {
	relay.Store(&throttle{now: now, log: log})
	relayOnce.Do(func() { goredis.SetLogger(relayed{}) })
}

// relayed is the logger that the library has.
type relayed struct{}

// Printf implements the library's logger.
func (relayed) Printf(_ context.Context, format string, v ...any) {
	if t := relay.Load(); t != nil {
		t.say(fmt.Sprintf(format, v...))
	}
}

// throttle lets ten lines a minute through, and says afterwards how many it swallowed.
type throttle struct {
	now func() time.Time
	log func(line string)

	mu        sync.Mutex
	minute    time.Time
	lines     int
	swallowed int
}

func (t *throttle) say(line string) {
	now := t.now()
	t.mu.Lock()
	if now.Sub(t.minute) >= time.Minute {
		if t.swallowed > 0 {
			line += fmt.Sprintf(" (%d lines like this were left out)", t.swallowed)
		}
		t.minute, t.lines, t.swallowed = now, 0, 0
	}
	t.lines++
	over := t.lines > linesPerMinute
	if over {
		t.swallowed++
	}
	t.mu.Unlock()
	if !over {
		t.log(line)
	}
}
