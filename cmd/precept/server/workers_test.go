package server

import (
	"bytes"
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"precept/configs"
)

// A worker that panics restarts after a pause, until its context ends. A worker that fails returns
// the failure and does not restart.
func TestWorkerRestartsAfterPanicButNotAfterError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var output bytes.Buffer
		s := New(Options{Tools: Tools{Now: time.Now}, Config: configs.Default(), Console: &output})
		ctx, stop := context.WithCancel(t.Context())
		began, attempts := time.Now(), 0
		over := make(chan error, 1)
		go func() {
			over <- s.keepRunning(ctx, worker{"test", func(ctx context.Context) error {
				if attempts++; attempts < 3 {
					panic("thrown by the test")
				}
				<-ctx.Done()
				return nil
			}})
		}()
		time.Sleep(time.Minute)
		synctest.Wait()
		if attempts != 3 || strings.Count(output.String(), "background worker panicked") != 2 || strings.Contains(output.String(), "thrown by the test") {
			t.Errorf("%d attempts, want 3 with two panics in the log:\n%s", attempts, output.String())
		}
		stop()
		if err := <-over; err != nil || time.Since(began) != time.Minute {
			t.Errorf("the worker ended with %v after %v, want no error after 1m", err, time.Since(began))
		}

		failure := errors.New("it cannot go on")
		if err := s.keepRunning(t.Context(), worker{"test", func(context.Context) error { return failure }}); !errors.Is(err, failure) {
			t.Errorf("a failing worker ended with %v, want %v", err, failure)
		}

		// A stop does not wait for the pause.
		ctx, stop = context.WithCancel(t.Context())
		go func() { over <- s.keepRunning(ctx, worker{"test", func(context.Context) error { panic("again") }}) }()
		synctest.Wait()
		rested := time.Now()
		stop()
		if err := <-over; err != nil || time.Since(rested) != 0 {
			t.Errorf("the worker ended with %v %v after the stop, want no error and 0s", err, time.Since(rested))
		}
	})
}

// An idle server returns its memory to the system; the collector decides for a busy server.
func TestIdleServerReturnsMemory(t *testing.T) {
	forced := func() uint32 {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.NumForcedGC
	}
	i, was := idle{allocated()}, forced()
	i.release()
	if forced() != was+1 {
		t.Error("an idle server keeps free memory, want one return to the system")
	}
	was = forced()
	for range idleBytes >> 20 {
		runtime.KeepAlive(make([]byte, 1<<20))
	}
	i.release()
	if forced() != was {
		t.Error("a busy server collected its garbage, want no collection")
	}
	i.release()
	if forced() != was+1 {
		t.Error("a server keeps free memory after the load, want one return to the system")
	}
}
