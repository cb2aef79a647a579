package app

import (
	"context"
	"net/http"
	"os"
	"time"
)

// counted keeps account of the requests in flight: closing a server does not wait for its handlers,
// and what they have to tell the recorder must be told before it goes.
func (s *Server) counted(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.inFlight.Add(1)
		defer s.inFlight.Done()
		h.ServeHTTP(w, r)
	})
}

// stopData takes requests for the drain delay, so that balancers see that /readyz says no before
// they are refused, and then lets streams end for the drain time; a second signal ends both. cut
// says that some streams did not end.
func (s *Server) stopData(
	ctx context.Context, data *http.Server, stop <-chan os.Signal,
) (cut bool) {
	s.service.drain()
	hurry := false
	if delay := s.cfg.Limits.DrainDelay; delay > 0 && ctx.Err() == nil {
		timer := time.NewTimer(delay)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-stop:
			hurry = true
		}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.cfg.Limits.DrainTimeout)
	defer cancel()
	if hurry {
		cancel()
	}
	done := make(chan error, 1)
	go func() { done <- data.Shutdown(ctx) }()
	for waiting := true; waiting; {
		select {
		case err := <-done:
			cut, waiting = err != nil, false
		case <-stop:
			cancel() // Shutdown returns with an error
		}
	}
	if cut {
		_ = data.Close() // what it would say is that connections were open
	}
	s.waitInFlight()
	return cut
}

// waitInFlight gives cut handlers the time to notice.
func (s *Server) waitInFlight() {
	over := make(chan struct{})
	go func() {
		s.inFlight.Wait()
		close(over)
	}()
	timer := time.NewTimer(CutWait)
	defer timer.Stop()
	select {
	case <-over:
	case <-timer.C:
		s.log.Warn("handlers did not end in time; what they held is lost")
	}
}
