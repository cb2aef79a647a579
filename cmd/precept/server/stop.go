package server

import (
	"context"
	"errors"
	"net/http"
	"os"
	"sync"
)

type cleanup struct {
	name string
	stop func() error
}

// onStop registers a cleanup. stop runs the cleanups in reverse order.
func (s *Server) onStop(name string, f func() error) {
	s.cleanups = append(s.cleanups, cleanup{name, f})
}

func (s *Server) stop() error {
	var errs error
	for len(s.cleanups) > 0 {
		last := s.cleanups[len(s.cleanups)-1]
		s.cleanups = s.cleanups[:len(s.cleanups)-1]
		if err := last.stop(); err != nil {
			s.log.Debug("a shutdown step failed", "step", last.name, "error", err)
			errs = errors.Join(errs, err)
		}
	}
	return errs
}

// Requests returns how many requests the data listener has received.
func (s *Server) Requests() int64 { return s.requests.total.Load() }

// countRequests counts the calls to h in progress.
func (s *Server) countRequests(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.requests.group.Add(1)
		s.requests.current.Add(1)
		s.requests.total.Add(1)
		defer s.requests.group.Done()
		defer s.requests.current.Add(-1)
		h.ServeHTTP(w, r)
	})
}

// drain closes the data listener and waits for open streams. For limits.drain_delay, it still accepts requests, so that
// load balancers see the 503 from /readyz before connections are refused. Open streams then have limits.drain_timeout
// to end.
//
// A second signal ends both waits. cut reports whether requests were still in progress when drain closed their
// connections. cancelRequests closes WebSockets, which dataServer no longer knows.
func (s *Server) drain(ctx context.Context, dataServer *http.Server, cancelRequests func(), stop <-chan os.Signal) (cut bool) {
	s.proxy.Drain()
	waitCtx, stopWaiting := context.WithCancel(context.WithoutCancel(ctx))
	var signalWait sync.WaitGroup
	signalWait.Go(func() {
		select {
		case <-stop:
			stopWaiting()
		case <-waitCtx.Done():
		}
	})
	if ctx.Err() == nil {
		_ = Sleep(waitCtx, s.cfg.Limits.DrainDelay) // a second signal ends the pause
	}
	drainCtx, cancel := context.WithTimeout(waitCtx, s.cfg.Limits.DrainTimeout)
	defer cancel()
	if dataServer.Shutdown(drainCtx) != nil || !s.waitInFlight(drainCtx) {
		cut = s.requests.current.Load() > 0 // a connection without a request is not a stream
		_ = dataServer.Close()
		cancelRequests()
	}
	stopWaiting()
	signalWait.Wait()
	cutCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), CutWait)
	defer cancel()
	if !s.waitInFlight(cutCtx) {
		s.log.Warn("some requests did not end in time; their exchanges are lost")
	}
	return cut
}

// waitInFlight waits for handlers, because they record exchanges before they return. It returns false if ctx ends
// first.
func (s *Server) waitInFlight(ctx context.Context) bool {
	ended := make(chan struct{})
	go func() {
		s.requests.group.Wait()
		close(ended)
	}()
	select {
	case <-ended:
		return true
	case <-ctx.Done():
		return false
	}
}
