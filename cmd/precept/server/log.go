package server

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"sync"
	"time"

	"precept/configs"
	"precept/internal/label"
	"precept/internal/redact"
	"precept/internal/session"
	"precept/proxy"
	"precept/store"
)

// newLogger returns a logger, and the level, which a reload can change.
func newLogger(w io.Writer, c configs.Log) (*slog.Logger, *slog.LevelVar) {
	level := new(slog.LevelVar)
	setLevel(level, c.Level)
	options := &slog.HandlerOptions{Level: level}
	handler := func(w io.Writer) slog.Handler {
		if c.Format == "json" {
			return slog.NewJSONHandler(w, options)
		}
		return slog.NewTextHandler(w, options)
	}
	return slog.New(handler(&logWriter{w: w, handler: handler})), level
}

// setLevel sets the named level, and ignores an unknown name.
func setLevel(v *slog.LevelVar, name string) {
	var level slog.Level
	if level.UnmarshalText([]byte(name)) == nil {
		v.Set(level)
	}
}

// logAlways logs a line whatever the level is, because other programs wait for the line.
func logAlways(ctx context.Context, log *slog.Logger, now time.Time, msg string, args ...any) {
	r := slog.NewRecord(now, slog.LevelInfo, msg, 0)
	r.Add(args...)
	_ = log.Handler().Handle(ctx, r) // an error from the log cannot be logged
}

// failures counts and logs failed steps that do not make a request fail.
type failures struct {
	log      *slog.Logger
	metrics  *proxy.Metrics
	logLimit *limiter
}

// report logs at most one line for each step in logInterval. Steps that fail because the store is unavailable share one
// line a minute. A step that is interrupted by a shutdown is not a failure, because the server
// repeats the step at the next startup.
func (f *failures) report(step label.Step, err error) { f.reportEvery(step, logInterval, err) }

const (
	logInterval    = 10 * time.Second
	outageInterval = 15 * time.Second // shortest pause between the first lines about two outages
)

func (f *failures) reportEvery(step label.Step, interval time.Duration, err error) {
	if errors.Is(err, context.Canceled) {
		return
	}
	f.metrics.FailedOpen(step)
	switch {
	case step == label.StepOutbox:
		if f.logLimit.allowEvery(step, time.Minute) {
			f.log.Warn("the outbox failed; requests continue", "error", err)
		}
		return
	case step == label.StepLookup: // a slow store fails look-ups, but still accepts exchanges
		interval = time.Minute
	case errors.Is(err, session.ErrUnavailable), errors.Is(err, session.ErrDiskFull):
		if f.logLimit.allowEvery(label.StepStore, time.Minute) {
			f.log.Warn("the store is not available; exchanges wait in the outbox", "step", step, "error", err)
		}
		return
	}
	if f.logLimit.allowEvery(step, interval) {
		f.log.Warn("a learning step failed; requests continue without it", "step", step, "error", err)
	}
}

func (f *failures) storeRecovered() {
	if f.logLimit.endOutage(label.StepStore) {
		f.log.Info("the store is available again; the outbox is being delivered")
	}
}

func (f *failures) outboxRecovered() {
	if f.logLimit.endOutage(label.StepOutbox) {
		f.log.Info("the outbox accepts exchanges again")
	}
}

// reportPanic logs a panic without the value, because the value may contain request content.
func (f *failures) reportPanic(step label.Step, value any) {
	f.metrics.FailedOpen(step)
	if !f.logLimit.allow(step) {
		return
	}
	log := f.log
	if p, ok := value.(store.RequestPanic); ok {
		log, value = log.With("request", p.Request), p.Value
	}
	log.Error("a learning step panicked; requests continue without it", "step", step, "panic", redact.SafePanicText(value))
}

// limiter permits one log line per step and interval.
type limiter struct {
	now          func() time.Time
	mu           sync.Mutex
	last         map[label.Step]time.Time
	outageLogged map[label.Step]bool // a line was permitted, and endOutage has not been called since
}

func newLimiter(now func() time.Time) *limiter {
	return &limiter{now: now, last: map[label.Step]time.Time{}, outageLogged: map[label.Step]bool{}}
}

func (l *limiter) allow(step label.Step) bool { return l.allowEvery(step, logInterval) }

// allowEvery permits and records a line for the step if the last one is at least as old as interval.
func (l *limiter) allowEvery(step label.Step, interval time.Duration) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	if now.Sub(l.last[step]) < interval {
		return false
	}
	l.last[step], l.outageLogged[step] = now, true
	return true
}

// endOutage shortens a step's one-minute pause to outageInterval after a recovery, so that another outage is logged
// soon. It reports whether the outage was logged. If not, the caller does not log the recovery either, because a store
// that fails and recovers in turn would fill the log.
func (l *limiter) endOutage(step label.Step) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.outageLogged[step] {
		return false
	}
	l.last[step], l.outageLogged[step] = l.last[step].Add(outageInterval-time.Minute), false
	return true
}
