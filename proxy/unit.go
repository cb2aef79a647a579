package proxy

import (
	"time"

	"precept/session"
	"precept/store"
)

// A session may draw through another record, its unit: that of the run that it belongs to, or that
// of the session whose sub-agent it is, which has the same name or was started by a tool call. The
// unit stays pinned as long as the request holds the session; it is locked inside of the session's
// lock.

// below finds the sub-session of a request that came under the name of a conversation and is none
// of it, neither its turn nor a side call: a sub-agent's, with tools of its own. The session above
// stays pinned.
func (s *sender) below(now time.Time, look session.Lookup) bool {
	if s.ses == nil || s.found.New || !s.claim.Named() {
		return false
	}
	s.ses.Lock()
	reason, side := s.ses.Side(s.req, s.claim, s.p.signs)
	tools := side && reason == session.SideTools
	first := tools && !s.req.Delta && !s.ses.Shows(s.req)
	s.ses.Unlock()
	if !tools || !first && !s.req.Delta { // what shows the conversation is a memory keeper's
		return false
	}
	sub, ok := s.p.threads.Below(s.found, s.claim, first, now, look)
	if !ok {
		return false
	}
	s.above, s.ses, s.found, s.moved = s.ses, nil, sub, false
	return true
}

// leave gives the session above back, unless it is the unit.
func (s *sender) leave(above *store.Session) {
	if s.unit != above {
		s.p.opts.Store.Release(above, store.Unchanged)
	}
}

// caller pins the session whose tool call started the conversation that begins: what is drawn for
// one of them would reach the other. nil where there is none, or where it cannot be told which;
// then the new one is no part of the experiment.
func (s *sender) caller(rec *session.Record, now time.Time) *store.Session {
	if s.claim.Run != "" {
		return nil
	}
	id, ok, sure := s.p.quotes.Caller(s.who.scope(), s.req, now)
	if !ok {
		return nil
	}
	if sure {
		return s.learning(id)
	}
	if !rec.Assignment.Excluded {
		rec.Assignment.Excluded, rec.Doubted = true, true
		s.p.opts.Metrics.excluded.WithLabelValues(excludedTwin).Inc()
	}
	return nil
}

// learning pins a session of which something may be kept.
func (s *sender) learning(id session.ID) *store.Session {
	above := s.p.opts.Store.Resident(id)
	if above == nil {
		return nil
	}
	above.Lock()
	silent := above.NoLearn || len(above.OptedOut) > 0
	above.Unlock()
	if silent {
		s.p.opts.Store.Release(above, store.Unchanged)
		return nil
	}
	return above
}

// elsewhere says that the session that was found is one of another run than the request says.
func (s *sender) elsewhere() bool {
	return s.claim.Run != "" && s.ses.Unit != "" && s.ses.Unit != session.RunKey(s.who.tenant, s.claim.Run).String()
}

// join pins the unit of a session that is known.
func (s *sender) join(now time.Time) {
	id, ok := s.ses.UnitID()
	switch {
	case !ok:
	case s.above != nil && s.above.ID == id:
		s.unit = s.above
	default:
		s.pinUnit(id, s.ses.RunName, now)
	}
}

// enlist makes a new session a member of what it belongs to.
func (s *sender) enlist(rec *session.Record, now time.Time) {
	above := s.above
	if above == nil {
		if above = s.caller(rec, now); above != nil {
			defer s.leave(above)
		}
	}
	switch {
	case above != nil && above.Unit == "":
		s.unit = above
	case above != nil:
		id, _ := above.UnitID()
		s.pinUnit(id, above.RunName, now)
	case s.claim.Run != "":
		s.pinUnit(session.RunKey(s.who.tenant, s.claim.Run), s.claim.Run, now)
	default:
		return
	}
	rec.Unit, rec.RunName = s.unit.ID.String(), s.unit.Name
	s.p.opts.Store.Enlist(s.unit, rec)
}

// pinUnit holds a unit's record. One that cannot be looked up in time is no part of the experiment;
// one that is gone begins anew.
func (s *sender) pinUnit(id session.ID, name string, now time.Time) {
	st := s.p.opts.Store
	if s.unit = st.Resident(id); s.unit != nil {
		st.Rejoin(s.r.Context(), s.unit)
		return
	}
	late := false
	if s.unit, late = st.Acquire(s.r.Context(), s.who.tenant, id); s.unit != nil {
		return
	}
	rec := session.NewRun(s.who.tenant, s.claim, name, id, now)
	rec.Assignment.Excluded = late || s.set.excluded
	rec.StandIn = late
	s.unit = st.Add(rec)
}

// drawsThrough is the unit's record, nil for a session of its own.
func (s *sender) drawsThrough() *session.Record {
	if s.unit == nil {
		return nil
	}
	return s.unit.Record
}

// ofUnit does something with the unit, where there is one.
func (s *sender) ofUnit(do func(u *session.Record)) {
	if s.unit == nil {
		return
	}
	s.unit.Lock()
	defer s.unit.Unlock()
	do(s.unit.Record)
}

// met counts the turn of a member.
func (s *sender) met(now time.Time) {
	s.ofUnit(func(u *session.Record) { u.Met(now) })
}

// keysOfUnit keeps the keys under which the unit finds its members, and feedback finds the run.
func (s *sender) keysOfUnit() {
	if s.unit == nil {
		return
	}
	if seat := s.ses.Seat; seat > 0 {
		s.note(session.SeatKey(s.who.tenant, s.unit.ID, seat))
	}
	if s.unit.IsRun {
		s.noteOf(s.unit.ID, session.RunEcho(s.who.tenant, s.unit.Name))
	}
}
