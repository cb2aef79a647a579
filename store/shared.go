package store

import (
	"context"

	"precept/session"
)

// Shared says whether other replicas may serve the sessions that are in memory here.
func (s *Store) Shared() bool {
	return s.opts.Fleet != nil
}

// Unsure says that a session was begun while the backend could not be asked for it: it may be known
// there.
func (s *Session) Unsure() bool { return s.unsure.Load() }

// Refresh reads a session anew that has gone on elsewhere, within Options.Lookup. When the backend
// does not answer in time, what is in memory has to do. What stood in for a session gives way to
// it; as a turn of it had to do without its lessons, it is no part of the experiment any more.
func (s *Store) Refresh(ctx context.Context, ses *Session) {
	ctx, cancel := context.WithTimeout(ctx, s.opts.Lookup)
	defer cancel()
	row, ok, err := s.be.Session(ctx, ses.Tenant, ses.ID)
	if err != nil {
		s.opts.Failed("lookup", err)
		return
	}
	if !ok {
		ses.unsure.Store(s.inTheDark())
		s.recallAgain(ctx, ses)
		return
	}
	rec, err := session.Decode(ses.ID, row.Data)
	if err != nil {
		s.opts.Failed("decode", err)
		return
	}
	ses.Lock()
	defer ses.Unlock()
	ses.unsure.Store(false)
	switch {
	case ses.StandIn && !rec.StandIn:
		ses.Adopt(rec)
		ses.Assignment.Excluded, ses.Dirty = true, true
	case rec.StandIn && !ses.StandIn:
	case rec.Turns > ses.Turns || rec.Turns == ses.Turns && rec.Seen.After(ses.Seen):
		ses.Adopt(rec)
	}
}
