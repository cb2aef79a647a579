package server

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"precept/store/redis"
)

// maxClockDifference is the largest difference between this machine's clock and Redis' clock that causes no warning.
const maxClockDifference = 5 * time.Second

// ageNow returns the function that a fleet uses to measure the age of sessions, or nil for a backend without Redis. The
// function returns this machine's time and Redis' time, the earlier one first. A machine whose clock is a day ahead
// would otherwise close and delete all replicas' sessions a day early. To a machine whose clock is a day behind, the
// other replicas' sessions seem to begin in the future.
func (t *Tools) ageNow(backend Backend) func(ctx context.Context) (earliest, latest time.Time, err error) {
	db, ok := backend.(*redis.Store)
	if !ok {
		return nil
	}
	return func(ctx context.Context) (earliest, latest time.Time, err error) {
		shared, err := db.Now(ctx)
		if now := t.Now(); err != nil || now.Before(shared) {
			return now, shared, err
		}
		return shared, t.Now(), nil
	}
}

// ClockDifference returns the time by which this machine's clock is ahead of Redis' clock, or 0 if the difference is
// unknown or at most maxClockDifference.
func (t *Tools) ClockDifference(ctx context.Context, backend Backend) time.Duration {
	db, ok := backend.(*redis.Store)
	if !ok {
		return 0
	}
	before := t.Now()
	shared, err := db.Now(ctx)
	after := t.Now()
	if err != nil || !shared.Before(before.Add(-maxClockDifference)) && !shared.After(after.Add(maxClockDifference)) {
		return 0
	}
	return after.Sub(shared).Round(time.Second)
}

// ClockWarning describes a clock difference; "" means none.
func ClockWarning(ahead time.Duration) string {
	if ahead == 0 {
		return ""
	}
	direction := "ahead of"
	if ahead < 0 {
		direction = "behind"
	}
	return fmt.Sprintf("this machine's clock is %s %s Redis' clock, so sessions close too early or too late; set both clocks, for example with NTP", ahead.Abs(), direction)
}

// warnClock returns a worker that logs a warning when this machine's clock begins to differ from Redis' clock.
// difference is Tools.ClockDifference.
func warnClock(difference func(ctx context.Context) time.Duration, log *slog.Logger) func(context.Context) error {
	return func(ctx context.Context) error {
		reported := time.Duration(0)
		for {
			if d := difference(ctx); (d - reported).Abs() > maxClockDifference {
				reported = d
				if d != 0 {
					log.Warn("the machine's clock differs from Redis' clock, so sessions close too early or too late; set both clocks, for example with NTP", "ahead", d.String())
				}
			}
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(checkInterval):
			}
		}
	}
}
