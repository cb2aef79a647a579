package server

import (
	"context"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// inFlight counts the requests on the data listener: closing a server does not wait for its
// handlers, and what they have to tell the recorder must be told before it goes.
type inFlight struct {
	sync.WaitGroup
	n atomic.Int64
}

// counted keeps account of the requests in flight.
func (s *Server) counted(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.requests.Add(1)
		s.requests.n.Add(1)
		defer s.requests.Done()
		defer s.requests.n.Add(-1)
		h.ServeHTTP(w, r)
	})
}

// stopData takes requests for the drain delay, so that balancers see that /readyz says no before
// they are refused, and then lets streams end for the drain time; a second signal ends both. cut
// says that some streams did not end.
func (s *Server) stopData(
	ctx context.Context, data *http.Server, stop <-chan os.Signal,
) (cut bool) {
	s.parts.proxy.Drain()
	patient, hurry := context.WithCancel(context.WithoutCancel(ctx))
	var lookout sync.WaitGroup
	lookout.Go(func() {
		select {
		case <-stop:
			hurry()
		case <-patient.Done():
		}
	})
	if ctx.Err() == nil {
		_ = Pause(patient, s.cfg.Limits.DrainDelay) // a second signal ends it
	}
	draining, end := context.WithTimeout(patient, s.cfg.Limits.DrainTimeout)
	defer end()
	if data.Shutdown(draining) != nil {
		cut = s.requests.n.Load() > 0 // else connections were open on which nothing was asked
		_ = data.Close()              // what it would say is that connections were open
	}
	hurry()
	lookout.Wait()
	s.waitInFlight()
	return cut
}

// waitInFlight gives cut handlers the time to notice.
func (s *Server) waitInFlight() {
	over := make(chan struct{})
	go func() {
		s.requests.Wait()
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
