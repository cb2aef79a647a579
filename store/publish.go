package store

import (
	"context"
	"time"

	"precept/sample"
	"precept/session"
)

const (
	publishLimit = 20 * time.Millisecond // how long the end of an answer may wait until other replicas can find its session
	mostOverdue  = 256                   // of those that are not there in time, beyond which no more are begun
)

// Publish lets the other replicas find a session in which something was decided, before the client has the whole answer: its
// next turn may reach one of them at once. It judges the exchange as the recorder will, so that of what opted out nothing is
// written. While one is overdue nobody waits for another; what fails comes with the next batch as ever. On a backend that is
// this process' own there is nothing to do.
func (s *Store) Publish(ses *Session, x *sample.Exchange, answered []string) {
	if !s.Shared() || s.down.Load() || s.overdue.Load() > mostOverdue {
		return
	}
	keys := s.heldOf(x.RequestID)
	if s.optedOut(x, answered) {
		return
	}
	row, ok := s.encodeWith(sample.NewRedactor(s.opts.Personal), ses) // the recorder has its own
	if !ok {
		return
	}
	there := make(chan struct{})
	s.publishing.Go(func() {
		defer close(there)
		defer func() {
			if r := recover(); r != nil {
				s.opts.Panicked("publish", r)
			}
		}()
		ctx, cancel := context.WithTimeout(context.Background(), writeLimit)
		defer cancel()
		if err := s.be.Write(ctx, session.Batch{Rows: []session.Row{row}, Echoes: keys}); err != nil {
			s.opts.Failed("publish", err)
		}
	})
	limit := publishLimit
	if s.overdue.Load() > 0 {
		limit = 0
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-there:
	case <-timer.C:
		s.overdue.Add(1)
		s.publishing.Go(func() {
			<-there
			s.overdue.Add(-1)
		})
	}
}

// heldOf are the keys of a request that wait for its exchange to be judged.
func (s *Store) heldOf(request string) []session.Echo {
	s.dirtyMu.Lock()
	defer s.dirtyMu.Unlock()
	return append([]session.Echo(nil), s.held[request]...)
}
