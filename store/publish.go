package store

import (
	"context"

	"precept/sample"
	"precept/session"
)

// Publish lets the other replicas find a session in which something was decided, before the client has the whole answer: its
// next turn may reach one of them at once. It judges the exchange as the recorder will, so that of what opted out nothing is
// written, and waits for the backend no longer than a look-up would. What fails is written with the next batch as ever. On a
// backend that is this process' own there is nothing to do.
func (s *Store) Publish(ctx context.Context, ses *Session, x *sample.Exchange, answered []string) {
	if !s.Shared() || s.down.Load() {
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
	ctx, cancel := context.WithTimeout(ctx, s.opts.Lookup)
	defer cancel()
	if err := s.be.Write(ctx, session.Batch{Rows: []session.Row{row}, Echoes: keys}); err != nil {
		s.opts.Failed("publish", err)
	}
}

// heldOf are the keys of a request that wait for its exchange to be judged.
func (s *Store) heldOf(request string) []session.Echo {
	s.dirtyMu.Lock()
	defer s.dirtyMu.Unlock()
	return append([]session.Echo(nil), s.held[request]...)
}
