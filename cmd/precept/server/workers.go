package server

import (
	"context"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"precept/internal/redact"
)

const restartPause = time.Second

// worker is a background goroutine of the server. When the context ends, run returns.
type worker struct {
	name string
	run  func(context.Context) error
}

// addWorker registers a worker for serve.
func (s *Server) addWorker(name string, run func(context.Context) error) {
	s.workers = append(s.workers, worker{name, run})
}

// keepRunning restarts a worker after a panic, because a crash of the whole process would fail the agents' requests.
func (s *Server) keepRunning(ctx context.Context, w worker) error {
	for {
		err, panicked := s.runOnce(ctx, w)
		if !panicked || ctx.Err() != nil {
			return err
		}
		_ = Sleep(ctx, restartPause) // ends with ctx
	}
}

// runOnce runs a worker until it returns or panics.
func (s *Server) runOnce(ctx context.Context, w worker) (err error, panicked bool) { //nolint:revive // panicked describes the call, and err is only the worker's result
	defer func() {
		if v := recover(); v != nil {
			s.log.Error("background worker panicked; restarting", "worker", w.name, "panic", redact.SafePanicText(v))
			err, panicked = nil, true
		}
	}()
	return w.run(ctx), false
}

// An idle server would keep garbage for hours, because the garbage collector runs only after further allocations. If
// the server allocated fewer than maxIdleAlloc bytes in idleInterval, it returns memory to the system.
const (
	idleInterval = time.Minute
	maxIdleAlloc = 64 << 20
)

// idleMemory holds the number of bytes allocated at the last check.
type idleMemory struct{ lastAlloc uint64 }

func (i *idleMemory) release() {
	now := totalAlloc()
	if now-i.lastAlloc < maxIdleAlloc {
		debug.FreeOSMemory()
	}
	i.lastAlloc = now
}

// totalAlloc returns all bytes allocated since the process started.
func totalAlloc() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}
