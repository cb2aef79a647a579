package store

import (
	"context"
	"maps"
	"slices"

	"precept/feedback"
	"precept/session"
)

// How feedback goes between a unit and its members: feedback/unit.go.

// Known says who a session is, and whether the tenant has it.
func (s *Store) Known(ctx context.Context, tenant string, id session.ID) (session.Member, bool, error) {
	if ses := s.live.peek(id); ses != nil {
		defer ses.pins.Add(-1)
		ses.Lock()
		defer ses.Unlock()
		return ses.Member(), ses.Tenant == tenant, nil
	}
	row, ok, err := s.be.Session(ctx, tenant, id)
	if err != nil || !ok {
		return session.Member{}, false, err
	}
	rec, err := session.Decode(id, row.Data)
	if err != nil {
		return session.Member{}, false, err
	}
	return rec.Member(), true, nil
}

// Enlist makes the session of rec a member of the unit. The caller holds it pinned, and rec is
// nobody else's yet.
func (s *Store) Enlist(unit *Session, rec *session.Record) {
	unit.Lock()
	defer unit.Unlock()
	unit.Enlist(rec)
}

// keepUnit notes that something of the session's run may be kept, so that the run has a row. The
// caller has locked the session.
func (s *Store) keepUnit(ses *Session) {
	id, ok := ses.UnitID()
	if !ok {
		return
	}
	unit := s.live.peek(id)
	if unit == nil {
		return
	}
	defer unit.pins.Add(-1)
	unit.Lock()
	news := unit.IsRun && !unit.Kept
	unit.Kept = unit.Kept || news
	unit.Unlock()
	if !news {
		return
	}
	unit.mute.Store(false)
	s.dirtyMu.Lock()
	defer s.dirtyMu.Unlock()
	if !unit.gone.Load() && unit.dirty.CompareAndSwap(false, true) {
		s.dirty = append(s.dirty, unit)
	}
}

// passToUnits adds to what the traffic says of members what it says of their units. Of those that
// cannot be asked just now the closing will tell.
func (s *Store) passToUnits(ctx context.Context, tenant string, entries map[session.ID][]feedback.Entry) {
	for _, id := range slices.Collect(maps.Keys(entries)) {
		of, ok, err := s.Known(ctx, tenant, id)
		if err != nil || !ok || of.Unit == (session.ID{}) {
			continue
		}
		if list := feedback.ForUnit(of.ID.String(), of.Seat, entries[id]); len(list) > 0 {
			entries[of.Unit] = append(entries[of.Unit], list...)
		}
	}
}

// passToUnit lets the unit of a session know what the session was told, where it has one.
func (s *Store) passToUnit(ctx context.Context, tenant string, id session.ID) error {
	of, ok, err := s.Known(ctx, tenant, id)
	if err != nil || !ok || of.Unit == (session.ID{}) {
		return err
	}
	entries, err := s.be.Feedback(ctx, tenant, of.ID)
	if err != nil {
		return err
	}
	list := feedback.ForUnit(of.ID.String(), of.Seat, entries)
	if len(list) == 0 {
		return nil
	}
	changed, err := s.be.AddFeedback(ctx, tenant, of.Unit, list)
	if changed > 0 {
		s.Touch(tenant, of.Unit)
	}
	return err
}

// membersOf are the sessions that draw through a session.
func (s *Store) membersOf(ctx context.Context, tenant string, id session.ID) (all []session.ID, err error) {
	of, ok, err := s.Known(ctx, tenant, id)
	if err != nil || !ok {
		return nil, err
	}
	err = session.EachMember(ctx, s.be, tenant, &of, func(ids []session.ID) error {
		all = append(all, ids...)
		return nil
	})
	return all, err
}

// Rejoin reads a unit anew where other replicas may draw for it as well: what one of them has
// decided holds here, too. When the backend does not answer in time, what is in memory has to do;
// the coins are the same.
func (s *Store) Rejoin(ctx context.Context, unit *Session) {
	if !s.Shared() && !unit.Unsure() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, s.opts.Lookup)
	defer cancel()
	row, ok, err := s.be.Session(ctx, unit.Tenant, unit.ID)
	if err != nil {
		s.opts.Failed("lookup", err)
		return
	}
	if !ok {
		unit.unsure.Store(unit.unsure.Load() && s.inTheDark())
		return
	}
	rec, err := session.Decode(unit.ID, row.Data)
	if err != nil {
		s.opts.Failed("decode", err)
		return
	}
	rec.Closed = rec.Closed || row.Closed
	unit.Lock()
	defer unit.Unlock()
	unit.unsure.Store(false)
	if unit.StandIn && !rec.StandIn {
		unit.Adopt(rec)
		unit.Assignment.Excluded, unit.Dirty, unit.Kept = true, true, true
		return
	}
	unit.Join(rec)
}
