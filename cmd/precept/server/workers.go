package server

import (
	"context"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"precept/internal/redact"
)

// workerRest is the pause before a worker that panicked starts again.
const workerRest = time.Second

// worker is a goroutine of the program. run returns when its context ends, after run has stored the
// state that it holds.
type worker struct {
	name string
	run  func(context.Context) error
}

// work adds a worker. serve starts all workers and waits for them.
func (s *Server) work(name string, run func(context.Context) error) {
	s.workers = append(s.workers, worker{name, run})
}

// keepRunning runs a worker until its context ends or the worker returns an error. After a panic the worker restarts,
// because the requests of agents depend on this process.
func (s *Server) keepRunning(ctx context.Context, w worker) error {
	for {
		err, panicked := s.attempt(ctx, w)
		if !panicked || ctx.Err() != nil {
			return err
		}
		_ = Pause(ctx, workerRest) // ends with ctx
	}
}

// attempt runs a worker once and reports whether the worker panicked.
func (s *Server) attempt(ctx context.Context, w worker) (err error, panicked bool) { //nolint:revive // the error is the worker's
	defer func() {
		if v := recover(); v != nil {
			s.log.Error("background worker panicked; restarting", "worker", w.name, "panic", redact.PanicKind(v))
			err, panicked = nil, true
		}
	}()
	return w.run(ctx), false
}

// An idle server would keep the garbage of its last busy minute for hours, because the collector runs only
// after many further allocations. A server that allocated less than idleBytes in idleEvery therefore collects
// its garbage and returns the memory to the system, in some ten milliseconds a minute.
const (
	idleEvery = time.Minute
	idleBytes = 64 << 20
)

// idle holds the number of allocated bytes at the last check.
type idle struct{ allocated uint64 }

// release returns memory to the system when the program allocated little since the last check.
func (i *idle) release() {
	now := allocated()
	if now-i.allocated < idleBytes {
		debug.FreeOSMemory()
	}
	i.allocated = now
}

// allocated returns the bytes that the program has allocated on the heap since its start.
func allocated() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}
