package server

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"precept/configs"
)

// An owner that panics begins anew after a rest, and goes on until its context ends; one that fails
// says so, and is not begun again.
func TestOwnersOutliveTheirPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var said bytes.Buffer
		s := New(Options{Tools: Tools{Now: time.Now}, Config: configs.Default(), Console: &said})
		ctx, stop := context.WithCancel(t.Context())
		began, attempts := time.Now(), 0
		over := make(chan error, 1)
		go func() {
			over <- s.outlive(ctx, func(ctx context.Context) error {
				if attempts++; attempts < 3 {
					panic("thrown by the test")
				}
				<-ctx.Done()
				return nil
			})
		}()
		time.Sleep(time.Minute)
		synctest.Wait()
		if attempts != 3 || strings.Count(said.String(), "an owner panicked") != 2 || strings.Contains(said.String(), "thrown by the test") {
			t.Errorf("%d attempts, and the log says\n%s", attempts, said.String())
		}
		stop()
		if err := <-over; err != nil || time.Since(began) != time.Minute {
			t.Errorf("%v after %v", err, time.Since(began))
		}

		failure := errors.New("it cannot go on")
		if err := s.outlive(t.Context(), func(context.Context) error { return failure }); !errors.Is(err, failure) {
			t.Errorf("a failure is %v", err)
		}

		// A stop does not wait for the rest.
		ctx, stop = context.WithCancel(t.Context())
		go func() { over <- s.outlive(ctx, func(context.Context) error { panic("again") }) }()
		synctest.Wait()
		rested := time.Now()
		stop()
		if err := <-over; err != nil || time.Since(rested) != 0 {
			t.Errorf("%v, %v after the stop", err, time.Since(rested))
		}
	})
}
