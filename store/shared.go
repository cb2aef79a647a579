package store

import (
	"context"

	"precept/internal/label"
	"precept/internal/session"
)

// Unsure says that a session was begun while the backend could not be asked for it: it may be known
// there.
func (s *Session) Unsure() bool { return s.unsure.Load() }

// Refresh reads a session anew that has gone on elsewhere, within Options.Lookup. When the backend
// does not answer in time, what is in memory has to do. What stood in for a session gives way to
// it; as a turn of it had to do without its lessons, it is no part of the experiment any more.
func (s *sessions) Refresh(ctx context.Context, ses *Session) {
	ctx, cancel := context.WithTimeout(ctx, s.lookup)
	defer cancel()
	rec, _, err := s.stored(ctx, ses.Identity.Tenant, ses.Identity.ID)
	if err != nil {
		return
	}
	if rec == nil {
		ses.unsure.Store(s.inTheDark())
		s.recallAgain(ctx, ses)
		return
	}
	ses.Lock()
	defer ses.Unlock()
	ses.unsure.Store(false)
	switch {
	case ses.State.StandIn && !rec.State.StandIn:
		ses.Adopt(rec)
		ses.Assignment.Excluded, ses.State.Dirty = true, true
	case rec.State.StandIn && !ses.State.StandIn:
	case rec.Thread.Turns > ses.Thread.Turns || rec.Thread.Turns == ses.Thread.Turns && rec.Identity.Seen.After(ses.Identity.Seen):
		ses.Adopt(rec)
	}
}

// Rejoin reads a unit anew where other replicas may draw for it as well: what one of them has
// decided holds here, too. When the backend does not answer in time, what is in memory has to do;
// the coins are the same.
func (s *sessions) Rejoin(ctx context.Context, unit *Session) {
	if !s.Shared() && !unit.Unsure() {
		return
	}
	rec, closed, err := s.stored(ctx, unit.Identity.Tenant, unit.Identity.ID)
	if err != nil {
		return
	}
	if rec == nil {
		unit.unsure.Store(unit.unsure.Load() && s.inTheDark())
		return
	}
	rec.State.Closed = rec.State.Closed || closed
	unit.Lock()
	defer unit.Unlock()
	unit.unsure.Store(false)
	if unit.State.StandIn && !rec.State.StandIn {
		unit.Adopt(rec)
		unit.Assignment.Excluded, unit.State.Dirty, unit.OptOut.Kept = true, true, true
		return
	}
	unit.Join(rec)
}

// AddMember makes the session of rec a member of the unit. The caller holds it pinned, and rec is
// nobody else's yet.
func (s *sessions) AddMember(unit *Session, rec *session.Record) {
	unit.Lock()
	defer unit.Unlock()
	unit.AddMember(rec)
}

// Recall makes a record that is about to be added one in which turns opted out, where the fleet has
// a mark of them. Where nobody can say whether it has, because the backend was not (late) or is not
// to be asked in time, what stood in the list before, its first items, is kept out as well.
func (s *sessions) Recall(ctx context.Context, rec *session.Record, items int, late bool) {
	if !s.Shared() || items <= 0 {
		return
	}
	doubt := session.OptOutMark{Turns: 1, Items: items}
	if late {
		rec.Hide(doubt)
		return
	}
	ctx, cancel := context.WithTimeout(ctx, s.lookup)
	defer cancel()
	m, ok, err := s.fleet.OptOutOf(ctx, rec.Identity.ID)
	switch {
	case err != nil:
		s.failed(label.StepLookup, err)
		rec.Hide(doubt)
	case ok:
		rec.Hide(m)
		rec.OptOut.Asked = true
	}
}

// recallAgain is the same for a session that is in memory, opted out so far, and may have gone on
// at another replica.
func (s *sessions) recallAgain(ctx context.Context, ses *Session) {
	ses.Lock()
	silent := ses.Silent()
	ses.Unlock()
	if !silent || !s.Shared() {
		return
	}
	m, ok, err := s.fleet.OptOutOf(ctx, ses.Identity.ID)
	if err != nil {
		s.failed(label.StepLookup, err)
		return
	}
	if ok {
		ses.Lock()
		defer ses.Unlock()
		ses.Hide(m)
	}
}
