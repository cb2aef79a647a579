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

// worker is a background goroutine of the server. run stores its state and returns when its context ends.
type worker struct {
	name string
	run  func(context.Context) error
}

// work registers a worker. serve starts all workers and waits for them.
func (s *Server) work(name string, run func(context.Context) error) {
	s.workers = append(s.workers, worker{name, run})
}

// keepRunning runs a worker until its context ends or the worker returns an error. A worker that panics is restarted,
// because the requests of agents depend on this process.
func (s *Server) keepRunning(ctx context.Context, w worker) error {
	for {
		err, panicked := s.attempt(ctx, w)
		if !panicked || ctx.Err() != nil {
			return err
		}
		_ = Pause(ctx, restartPause) // ends with ctx
	}
}

// attempt runs a worker once, and reports whether the worker panicked.
func (s *Server) attempt(ctx context.Context, w worker) (err error, panicked bool) { //nolint:revive // the error is the worker's
	defer func() {
		if v := recover(); v != nil {
			s.log.Error("background worker panicked; restarting", "worker", w.name, "panic", redact.PanicKind(v))
			err, panicked = nil, true
		}
	}()
	return w.run(ctx), false
}

// An idle server would keep the garbage of its last busy minute for hours, because the garbage collector runs only
// after many further allocations. If the server allocated fewer than idleBytes in idleEvery, it therefore collects
// garbage and returns the memory to the system. This takes about ten milliseconds.
const (
	idleEvery = time.Minute
	idleBytes = 64 << 20
)

// idle holds the number of allocated bytes at the last check.
type idle struct{ allocated uint64 }

// release returns memory to the system if the program allocated fewer than idleBytes since the last check.
func (i *idle) release() {
	now := allocated()
	if now-i.allocated < idleBytes {
		debug.FreeOSMemory()
	}
	i.allocated = now
}

// allocated returns the total number of bytes that the program has allocated on the heap since its start.
func allocated() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}
