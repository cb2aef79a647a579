package resolve

import (
	"precept/internal/label"
	"precept/internal/session"
	"precept/store"
)

// A session may draw its coins through another record, its unit: the record of a run, or of the
// parent session of a sub-agent. The sub-agent has the name of its parent, or was started by a tool
// call of its parent.

// joinUnit pins the unit of a session that is known.
func (s *search) joinUnit() {
	id, ok := s.res.Session.UnitID()
	switch {
	case !ok:
	case s.parent != nil && s.parent.Identity.ID == id:
		s.res.Unit = s.parent
	default:
		s.pinUnit(id, s.res.Session.Unit.RunName)
	}
}

// enlist makes a new session a member of its unit, if the session has a unit.
func (s *search) enlist(rec *session.Record) {
	parent := s.parent
	if parent == nil {
		parent = s.caller(rec)
		defer func() { s.releaseUnlessUnit(parent) }()
	}
	switch {
	case parent != nil && parent.Unit.ID == "":
		s.res.Unit = parent
	case parent != nil:
		id, _ := parent.UnitID()
		s.pinUnit(id, parent.Unit.RunName)
	case s.q.Claim.Run != "":
		s.pinUnit(session.RunKey(s.q.Scope.Tenant, s.q.Claim.Run), s.q.Claim.Run)
	default:
		return
	}
	unit := s.res.Unit
	rec.Unit.ID, rec.Unit.RunName = unit.Identity.ID.String(), unit.Identity.Name
	s.r.store.AddMember(unit, rec)
}

// caller pins the session whose tool call started the new conversation: through the call, the
// lessons of one session reach the other. caller returns nil where no session made the call. Where
// several sessions made an equal call, the new session leaves the experiment.
func (s *search) caller(rec *session.Record) *store.Session {
	if s.q.Claim.Run != "" {
		return nil
	}
	id, ok, sure := s.r.quotes.Caller(s.q.Scope, s.q.Request, s.begun)
	if !ok {
		return nil
	}
	if sure {
		return s.pinLearning(id)
	}
	if !rec.Assignment.Excluded {
		rec.Assignment.Excluded, rec.State.Doubted = true, true
		s.exclude(label.ExcludedTwin)
	}
	return nil
}

// pinLearning pins a session, unless the session or one of its turns opted out. A session without
// learning is no unit: its row would have to name its members.
func (s *search) pinLearning(id session.ID) *store.Session {
	ses := s.r.store.Resident(id)
	if ses == nil {
		return nil
	}
	ses.Lock()
	silent := ses.OptOut.NoLearn || len(ses.OptOut.Turns) > 0
	ses.Unlock()
	if silent {
		s.r.store.Release(ses, store.Unchanged)
		return nil
	}
	return ses
}

// pinUnit pins the record of a unit. A unit leaves the experiment when the backend does not return
// its record in time. A deleted unit begins again.
func (s *search) pinUnit(id session.ID, name string) {
	st, res := s.r.store, s.res
	if res.Unit = st.Resident(id); res.Unit != nil {
		st.Rejoin(s.ctx, res.Unit)
		return
	}
	late := false
	if res.Unit, late = st.Acquire(s.ctx, s.q.Scope.Tenant, id); res.Unit != nil {
		return
	}
	rec := session.NewRun(s.q.Scope.Tenant, s.q.Claim, name, id, s.begun)
	rec.Assignment.Excluded = late || s.q.Unsure
	rec.State.StandIn = late
	res.Unit = st.Add(rec)
}

// noteMember notes the keys under which the unit finds its members, and feedback finds the run.
func (s *search) noteMember() {
	unit := s.res.Unit
	if unit == nil {
		return
	}
	if number := s.res.Session.Unit.MemberNo; number > 0 {
		s.note(s.res.Session.Identity.ID, session.MemberKey(s.q.Scope.Tenant, unit.Identity.ID, number))
	}
	if unit.Unit.IsRun {
		s.note(unit.Identity.ID, session.RunEcho(s.q.Scope.Tenant, unit.Identity.Name))
	}
}
