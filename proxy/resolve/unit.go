package resolve

import (
	"cmp"

	"precept/bandit/trial"
	"precept/internal/label"
	"precept/internal/session"
	"precept/store"
)

// A session can share the random choices of a unit: the record of a run, or of a sub-agent's parent session. A
// sub-agent's parent is the session that the sub-agent's request names, or the session with the tool call that started
// the sub-agent.

// joinUnit pins a known session's unit. It returns false if memory has no room.
func (s *search) joinUnit() bool {
	member := s.result.Session.Record.MemberNow()
	switch {
	case member.Unit == session.ID{}:
		return true
	case s.parent != nil && s.parent.Record.Identity.ID == member.Unit:
		s.result.Unit = s.parent
		return true
	default:
		return s.pinUnit(member.Unit, member.UnitName)
	}
}

// joinNew finds a new session's unit. It returns false if memory has no room.
func (s *search) joinNew(rec *session.Record) bool {
	parent := s.parent
	if parent == nil {
		if parent = s.declaredParent(rec); parent == nil {
			parent = s.callingSession(rec)
		}
		defer func() { s.releaseUnlessUnit(parent) }()
	}
	var parentMember session.Member
	if parent != nil {
		parentMember = parent.Record.MemberNow()
	}
	hasRoom := true
	switch {
	case parent != nil && parentMember.Unit == session.ID{}:
		s.result.Unit = parent
	case parent != nil:
		hasRoom = s.pinUnit(parentMember.Unit, parentMember.UnitName)
	case s.query.Claim.Run != "":
		hasRoom = s.pinUnit(session.RunID(s.query.Scope.Tenant, s.query.Claim.Run), s.query.Claim.Run)
	default:
		return true
	}
	if !hasRoom {
		return false
	}
	unit, member := s.result.Unit, s.result.Unit.Record.MemberNow()
	rec.Unit.ID, rec.Unit.RunName = member.ID.String(), cmp.Or(member.Run, member.Name)
	s.resolver.store.AddMember(unit, rec)
	return true
}

// declaredParent pins the parent session that the agent's headers name, and passes the parent's blocks on. If the
// parent opted out, the request also opts out.
func (s *search) declaredParent(rec *session.Record) *store.Session {
	if s.query.Claim.Parent == "" {
		return nil
	}
	ses, uncertain := s.resolver.store.Acquire(s.ctx, s.query.Scope.Tenant, s.query.scope().ParentID(s.query.Claim))
	if uncertain && !rec.Assignment.Excluded {
		s.exclude(rec, label.ExcludedLate)
	}
	if ses == nil {
		return nil
	}
	if ses = s.unlessOptedOut(ses); ses == nil {
		rec.OptOut.NoLearn, s.query.Learn = true, false // the request may continue the history of the parent
		return nil
	}
	ses.Record.Mutex.Lock()
	defer ses.Record.Mutex.Unlock()
	rec.InheritBlocks(ses.Record, s.query.Request)
	return ses
}

// callingSession pins the session with the tool call that started the conversation, because the call may repeat lessons
// from that session. If several sessions made an equal call, the new session leaves the experiment.
func (s *search) callingSession(rec *session.Record) *store.Session {
	if s.query.Claim.Run != "" {
		return nil
	}
	id, ok, isCertain := s.resolver.quotes.Caller(s.query.Scope, s.query.Request, s.startedAt)
	if !ok {
		return nil
	}
	if isCertain {
		return s.unlessOptedOut(s.resolver.store.AcquireInMemory(id))
	}
	if !rec.Assignment.Excluded {
		rec.State.Ambiguous = true
		s.exclude(rec, label.ExcludedTwin)
	}
	return nil
}

// unlessOptedOut returns the pinned session, or releases an opted-out session and returns nil. An opted-out session
// cannot be a unit, because a unit's stored row names the member sessions.
func (s *search) unlessOptedOut(ses *store.Session) *store.Session {
	if ses == nil {
		return nil
	}
	ses.Record.Mutex.Lock()
	optedOut := ses.Record.OptOut.NoLearn || len(ses.Record.OptOut.Turns) > 0
	ses.Record.Mutex.Unlock()
	if optedOut {
		s.resolver.store.Release(ses, store.Unchanged)
		return nil
	}
	return ses
}

// pinUnit pins a unit's record. If the backend has no record, pinUnit adds one. If the backend does not answer in time,
// the new record is excluded from the experiment. pinUnit returns false if memory has no room.
func (s *search) pinUnit(id session.ID, name string) bool {
	st, res := s.resolver.store, s.result
	if res.Unit = st.AcquireInMemory(id); res.Unit != nil {
		st.RefreshUnit(s.ctx, res.Unit)
		return true
	}
	uncertain := false
	if res.Unit, uncertain = st.Acquire(s.ctx, s.query.Scope.Tenant, id); res.Unit != nil {
		return true
	}
	rec := session.NewRun(s.query.Scope.Tenant, s.query.Claim, name, id, s.startedAt)
	if why := s.exclusion(uncertain); why != "" {
		rec.Assignment.Exclude(trial.ExclusionReason(why)) // not s.exclude, because the metric counts sessions and not runs
	}
	rec.State.StartedOffline = uncertain
	res.Unit = st.Add(rec)
	return res.Unit != nil
}

// addMemberKeys adds a key by which the unit finds this session, and a key by which feedback finds the run.
func (s *search) addMemberKeys() {
	unit := s.result.Unit
	if unit == nil {
		return
	}
	if number := s.result.Session.Record.MemberNow().MemberNumber; number > 0 {
		s.addKeys(s.result.Session.Record.Identity.ID, session.MemberKey(s.query.Scope.Tenant, unit.Record.Identity.ID, number))
	}
	if run := unit.Record.MemberNow().Run; run != "" {
		s.addKeys(unit.Record.Identity.ID, session.RunEchoKey(s.query.Scope.Tenant, run))
	}
}
