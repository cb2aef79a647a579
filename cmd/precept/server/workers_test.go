package server

import (
	"bytes"
	"context"
	"errors"
	"io"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"precept/configs"
)

// The log line about a panic omits the text of the panic, because the text could quote a request.
func TestWorkerRestartsAfterPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var output bytes.Buffer
		s := New(Options{Tools: Tools{Now: time.Now}, Config: configs.Default(), Console: &output})
		ctx, stop := context.WithCancel(t.Context())
		start, attempts := time.Now(), 0
		ended := make(chan error, 1)
		go func() {
			ended <- s.keepRunning(ctx, worker{"test", func(ctx context.Context) error {
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
			t.Errorf("worker with two panics: got %d attempts, want 3; got the log below, want two lines about a panic, without its text:\n%s", attempts, output.String())
		}
		stop()
		if err := <-ended; err != nil || time.Since(start) != time.Minute {
			t.Errorf("keepRunning, stopped after one minute: got error %v after %v, want no error after 1m", err, time.Since(start))
		}
	})
}

func TestWorkerDoesNotRestartAfterError(t *testing.T) {
	s := New(Options{Tools: Tools{Now: time.Now}, Config: configs.Default(), Console: io.Discard})
	failure := errors.New("no memory")
	if err := s.keepRunning(t.Context(), worker{"test", func(context.Context) error { return failure }}); !errors.Is(err, failure) {
		t.Errorf("keepRunning with a worker that returns an error: err = %v, want %v", err, failure)
	}
}

func TestStopEndsPauseBeforeRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(Options{Tools: Tools{Now: time.Now}, Config: configs.Default(), Console: io.Discard})
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- s.keepRunning(ctx, worker{"test", func(context.Context) error { panic("again") }}) }()
		synctest.Wait()
		stopped := time.Now()
		stop()
		if err := <-ended; err != nil || time.Since(stopped) != 0 {
			t.Errorf("keepRunning, stopped during the pause before a restart: got error %v %v after stop, want no error, 0s after stop", err, time.Since(stopped))
		}
	})
}

func TestMemoryIsReleasedOnlyWhenIdle(t *testing.T) {
	forcedCollections := func() uint32 {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.NumForcedGC
	}
	memory, before := idleMemory{totalAlloc()}, forcedCollections()
	memory.release()
	if forcedCollections() != before+1 {
		t.Errorf("release by an idle server: got %d forced garbage collections, want 1", forcedCollections()-before)
	}
	before = forcedCollections()
	for range maxIdleAlloc >> 20 {
		runtime.KeepAlive(make([]byte, 1<<20))
	}
	memory.release()
	if forcedCollections() != before {
		t.Errorf("release by a busy server: got %d forced garbage collections, want 0", forcedCollections()-before)
	}
	memory.release()
	if forcedCollections() != before+1 {
		t.Errorf("release after the server is idle again: got %d forced garbage collections, want 1", forcedCollections()-before)
	}
}
