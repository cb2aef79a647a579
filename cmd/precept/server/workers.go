package server

import (
	"context"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"precept/internal/redact"
)

// restartPause is the pause before a panicked worker is restarted.
const restartPause = time.Second

// worker is a background goroutine of the server. When the context ends, run stores the state of the worker and
// returns.
type worker struct {
	name string
	run  func(context.Context) error
}

// addWorker registers a worker. serve starts all workers and waits for them.
func (s *Server) addWorker(name string, run func(context.Context) error) {
	s.workers = append(s.workers, worker{name, run})
}

// keepRunning runs a worker until its context ends or the worker returns an error. After a panic, keepRunning restarts
// the worker, because the requests of agents depend on this process.
func (s *Server) keepRunning(ctx context.Context, w worker) error {
	for {
		err, panicked := s.runOnce(ctx, w)
		if !panicked || ctx.Err() != nil {
			return err
		}
		_ = Sleep(ctx, restartPause) // ends with ctx
	}
}

// runOnce runs a worker once, and reports whether the worker panicked.
func (s *Server) runOnce(ctx context.Context, w worker) (err error, panicked bool) { //nolint:revive // panicked describes the call, and err is only the result of the worker
	defer func() {
		if v := recover(); v != nil {
			s.log.Error("background worker panicked; restarting", "worker", w.name, "panic", redact.SafePanicText(v))
			err, panicked = nil, true
		}
	}()
	return w.run(ctx), false
}

// An idle server would keep the garbage of its last busy minute for hours, because the garbage collector runs only
// after many further allocations. If the server allocated fewer than maxIdleAlloc in idleInterval, it therefore
// collects garbage and returns the memory to the system. This takes about ten milliseconds.
const (
	idleInterval = time.Minute
	maxIdleAlloc = 64 << 20
)

// idleMemory returns memory of an idle server to the system. lastAlloc is the total number of bytes that the server had
// allocated at the last check.
type idleMemory struct{ lastAlloc uint64 }

// release returns memory to the system if the program allocated fewer than maxIdleAlloc since the last check.
func (i *idleMemory) release() {
	now := totalAlloc()
	if now-i.lastAlloc < maxIdleAlloc {
		debug.FreeOSMemory()
	}
	i.lastAlloc = now
}

// totalAlloc returns the total number of bytes that the program has allocated on the heap since its start.
func totalAlloc() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}
