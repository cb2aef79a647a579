package store

import (
	"context"
	"time"

	"precept/sample"
	"precept/session"
)

const (
	waitLimit    = 65 * time.Millisecond // how long a request may wait for the backend in all: for its look-up, and until others can find it
	overdueLimit = 3 * time.Millisecond  // the same while others have waited in vain
	mostOverdue  = 256                   // of those, beyond which no more are begun
)

// Publish lets the other replicas find a session in which something was decided, before the client
// has the whole answer: its next turn may reach one of them at once. unit is what it draws through,
// nil: itself. It judges the exchange as the recorder will, so that of what opted out nothing is
// written. What fails comes with the next batch as ever. waited is what the request has waited for
// the backend before. On a backend that is this process' own there is nothing to do.
func (s *Store) Publish(ses, unit *Session, x *sample.Exchange, answered []string, waited time.Duration) {
	if !s.Shared() || s.down.Load() || s.overdue.Load() > mostOverdue {
		return
	}
	keys := s.heldOf(x.RequestID)
	if s.optedOut(x, answered) {
		s.PublishOptOut(ses, waited)
		return
	}
	redactor := s.newRedactor() // the recorder has its own
	row, ok := s.encodeWith(redactor, ses)
	if !ok {
		return
	}
	rows := []session.Row{row}
	if unit != nil {
		if row, ok := s.encodeWith(redactor, unit); ok {
			rows = append(rows, row)
		}
	}
	s.soon(x.RequestID, waited, func(ctx context.Context) error {
		return s.be.Write(ctx, session.Batch{Rows: rows, Echoes: keys})
	})
}

// soon writes to the backend what others must find, and waits for it as long as a request may.
func (s *Store) soon(request string, waited time.Duration, write func(ctx context.Context) error) {
	there := make(chan struct{})
	s.publishing.Go(func() {
		defer close(there)
		defer func() {
			if r := recover(); r != nil {
				s.opts.Panicked("publish", AtRequest{request, r})
			}
		}()
		ctx, cancel := context.WithTimeout(context.Background(), writeLimit)
		defer cancel()
		if err := write(ctx); err != nil {
			s.opts.Failed("publish", err)
		}
	})
	limit := waitLimit - waited
	if s.overdue.Load() > 0 {
		limit = min(limit, overdueLimit)
	}
	timer := time.NewTimer(max(limit, 0))
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
