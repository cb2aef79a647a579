package resolve

import (
	"cmp"
	"context"
	"time"

	"precept/bandit/trial"
	"precept/internal/label"
	"precept/internal/session"
	"precept/store"
)

// search is the state during one Resolve call.
type search struct {
	resolver         *Resolver
	ctx              context.Context
	query            *Query
	result           *Result
	startedAt        time.Time
	parent           *store.Session // pinned; the session named by a sub-agent's request
	askedEchoes      bool           // this replica did not know the request's echo keys (see Index), so the backend was asked
	sessionUncertain bool           // Store.Acquire found nothing, but the session may exist
	fullReason       label.Reason   // see Store.FullReason
	echoesUncertain  bool           // Store.FindByEchoes may have missed the session with the request's items
}

func (s *search) lookUp(keys []session.EchoKey) map[session.EchoKey][]session.ID {
	s.askedEchoes = true
	found, uncertain := s.resolver.store.FindByEchoes(s.ctx, s.query.Scope.Tenant, keys)
	s.echoesUncertain = uncertain
	return found
}

// pinFound pins the session found by the threader. s.result.Session stays nil if the session is not known.
func (s *search) pinFound() {
	s.sessionUncertain = false
	if s.result.Session = s.resolver.store.AcquireInMemory(s.result.Thread.ID); s.result.Session != nil {
		s.refreshIfMoved()
	} else if !s.result.Thread.New {
		s.result.Session, s.sessionUncertain = s.resolver.store.Acquire(s.ctx, s.query.Scope.Tenant, s.result.Thread.ID)
		s.result.MayHaveMoved = s.result.Session != nil
	}
}

// refreshIfMoved reads the session again if a different replica may have served a turn: the request has items unknown
// to this replica, or more items than this replica answered. It also does so if the session began while the store was
// unreachable.
func (s *search) refreshIfMoved() {
	ses := s.result.Session
	if ses.MayHaveOlderRecord() {
		if !s.findLost() {
			s.resolver.store.Refresh(s.ctx, ses)
		}
		return
	}
	if !s.resolver.store.IsShared() {
		return
	}
	ses.Record.Mutex.Lock()
	s.result.MayHaveMoved = s.askedEchoes || ses.Record.WasServedElsewhere(s.query.Request)
	ses.Record.Mutex.Unlock()
	if s.result.MayHaveMoved {
		s.resolver.store.Refresh(s.ctx, ses)
	}
}

// findLost replaces a provisional session with the stored session that owns the items. The provisional session began
// because the backend did not answer in time. The stored session leaves the experiment, because the turns in between
// lacked this session's lessons. The result is also true while the backend has not answered.
func (s *search) findLost() bool {
	provisional := s.result.Session
	provisional.Record.Mutex.Lock()
	replaceable := provisional.Record.State.StartedOffline && provisional.Record.Identity.Method == session.ByNew
	provisional.Record.Mutex.Unlock()
	if !replaceable {
		return false
	}
	thread, ok := s.resolver.threads.FindLostSession(s.result.Thread, s.query.Claim, s.startedAt, s.lookUp)
	if !ok {
		return s.echoesUncertain // no answer from the backend yet
	}
	s.resolver.store.Release(provisional, store.Unchanged)
	s.result.Thread = thread
	if s.result.Session = s.resolver.store.AcquireInMemory(thread.ID); s.result.Session == nil {
		s.result.Session, s.sessionUncertain = s.resolver.store.Acquire(s.ctx, s.query.Scope.Tenant, thread.ID)
	}
	if ses := s.result.Session; ses != nil {
		s.result.MayHaveMoved = true
		ses.Record.Mutex.Lock()
		if !ses.Record.State.Closed {
			ses.Record.Assignment.Exclude(trial.ExcludedLate)
		}
		ses.Record.State.Dirty = true
		ses.Record.Mutex.Unlock()
	}
	return true
}

// splitWrongSession starts a new session when the stored session belongs to a different conversation or run. A client
// may use one name for many sessions, and a session with one run's random choices must not count for a different run.
func (s *search) splitWrongSession() {
	ses := s.result.Session
	if ses == nil || !s.result.Thread.SharedName && !s.inAnotherRun() {
		return
	}
	if s.result.Thread.SharedName {
		ses.Record.Mutex.Lock()
		isSameConversation := ses.Record.SharesItemsWith(s.query.Request) && !ses.Record.RepeatsAnsweredList(s.query.Request)
		ses.Record.Mutex.Unlock()
		if isSameConversation {
			return
		}
	}
	s.resolver.store.Release(ses, store.Unchanged)
	s.result.Session, s.result.MayHaveMoved = nil, false
	s.result.Thread = s.resolver.threads.SplitSession(s.result.Thread, s.query.Claim, s.startedAt)
}

func (s *search) inAnotherRun() bool {
	run, unit := s.query.Claim.Run, s.result.Session.Record.MemberNow().Unit
	return run != "" && unit != session.ID{} && unit != session.RunID(s.query.Scope.Tenant, run)
}

// switchToSubAgent moves the search to a sub-agent's session. The request has the name of a conversation but different
// tools, and neither continues the conversation nor is a side request. The conversation stays pinned as the parent.
func (s *search) switchToSubAgent() bool {
	ses := s.result.Session
	if ses == nil || s.result.Thread.New || !s.query.Claim.HasUniqueName() {
		return false
	}
	ses.Record.Mutex.Lock()
	reason, side := s.resolver.SideReason(ses.Record, s.query)
	otherTools := side && reason == label.SideTools
	first := otherTools && !s.query.Request.Delta && !ses.Record.ShowsConversation(s.query.Request)
	ses.Record.Mutex.Unlock()
	if !otherTools || !first && !s.query.Request.Delta { // a side request that extracts memories quotes the conversation and has different tools, but is not a sub-agent
		return false
	}
	sub, ok := s.resolver.threads.ResolveSubagent(s.result.Thread, s.query.Claim, first, s.startedAt, s.lookUp)
	if !ok {
		return false
	}
	s.parent = ses
	s.result.Session, s.result.Thread, s.result.MayHaveMoved = nil, sub, false
	return true
}

// beginSession starts a session, except for a side request in an unknown conversation. It returns false if memory has
// no room.
func (s *search) beginSession() bool {
	st, res := s.resolver.store, s.result
	rec := session.NewRecord(s.query.Scope.Tenant, s.query.Claim, res.Thread, s.startedAt)
	res.Thread.Name = rec.Identity.Name
	if s.isSide(rec) {
		res.Thread.Echoes = nil
		s.resolver.threads.RecordEnd(res.Thread, true, s.startedAt)
		return true
	}
	if why := st.FullReason(s.query.Scope.Tenant); why != "" {
		s.fullReason = why
		return false
	}
	uncertain := s.sessionUncertain || s.echoesUncertain && res.Thread.New
	if why := s.exclusion(uncertain); why != "" {
		s.exclude(rec, why)
	}
	rec.State.StartedOffline = uncertain
	rec.OptOut.NoLearn = !s.query.Learn
	if !s.joinNew(rec) {
		return false
	}
	if (uncertain || !res.Thread.New) && !s.query.Request.Delta {
		st.ApplyOptOut(s.ctx, rec, s.query.Request.FirstNew(), uncertain)
	}
	if res.Session = st.Add(rec); res.Session == nil {
		return false
	}
	res.IsNew = true
	s.addKeys(res.Session.Record.Identity.ID, session.TenantEchoKey(s.query.Scope.Tenant, "s:"+res.Session.Record.MemberNow().Name))
	s.addMemberKeys()
	return true
}

// passWithoutSession lets the request pass without a session, because memory is full, or because the request must not
// begin a session (OnlyKnownSessions).
func (s *search) passWithoutSession() {
	res := s.result
	if res.Session != nil {
		res.Thread.Name = res.Session.Record.MemberNow().Name
		s.resolver.store.Release(res.Session, store.Unchanged)
	}
	if res.Unit != nil && res.Unit != s.parent {
		s.resolver.store.Release(res.Unit, store.Unchanged)
	}
	res.Session, res.Unit, res.Thread.Echoes = nil, nil, nil
	res.Excluded = []label.Reason{cmp.Or(s.fullReason, label.ExcludedBusy)} // other reasons belong to a session that was not started
	s.resolver.threads.RecordEnd(res.Thread, true, s.startedAt)
}

// isSide reports whether the request is a side request: for a title, a summary or a compaction, or with a quotation
// from a current conversation.
func (s *search) isSide(rec *session.Record) bool {
	res, m := s.result, s.result.Thread.Method
	if !s.sessionUncertain && (res.Thread.SharedName || m == session.ByNew || m == session.ByEcho) { // no name in the request
		res.AboutSession, res.QuotesSession = s.resolver.quotes.QuotedSession(s.query.Scope, s.query.Request, s.startedAt)
	}
	if reason, side := s.resolver.SideReason(rec, s.query); side {
		res.Side = reason
		return true
	}
	if res.QuotesSession {
		res.Side = label.SideQuotes
	}
	return res.QuotesSession
}

// excludeTwins removes sessions with equal histories (twins) from the experiment, because precept may have inserted one
// twin's lessons into the other twin's requests. Twins still get lessons. Three kinds of sessions stay in the
// experiment: closed sessions, which are already counted, named sessions, which are never confused, and a run's
// sessions, which share random choices.
func (s *search) excludeTwins() {
	for _, id := range s.result.Thread.EqualSessions {
		ses := s.resolver.store.AcquireInMemory(id)
		if ses == nil {
			continue
		}
		changed := store.Unchanged
		ses.Record.Mutex.Lock()
		if unnamed := ses.Record.Identity.Method == session.ByNew || ses.Record.Identity.Method == session.ByEcho; unnamed && ses.Record.Unit.ID == "" && !ses.Record.State.Closed && !ses.Record.Assignment.Excluded {
			ses.Record.State.Ambiguous, ses.Record.State.Dirty = true, true
			changed = store.DecisionsChanged
			s.exclude(ses.Record, label.ExcludedTwin)
		}
		ses.Record.Mutex.Unlock()
		s.resolver.store.Release(ses, changed)
	}
}

// exclusion returns the reason to exclude a new session, or "". If uncertain is true, the store may have an earlier
// record.
func (s *search) exclusion(uncertain bool) label.Reason {
	switch {
	case uncertain:
		return label.ExcludedLate
	case s.query.SaltUncertain:
		return label.ExcludedKeys
	}
	return ""
}

// exclude excludes a record from the experiment. The caller locks a shared record.
func (s *search) exclude(rec *session.Record, why label.Reason) {
	rec.Assignment.Exclude(trial.ExclusionReason(why))
	s.result.Excluded = append(s.result.Excluded, why)
}

// optedOut reports whether a turn opted out. If so, the session's echo keys must not be kept.
func (s *search) optedOut() bool {
	s.result.Session.Record.Mutex.Lock()
	defer s.result.Session.Record.Mutex.Unlock()
	return len(s.result.Session.Record.OptOut.Turns) > 0
}

func (s *search) addKeys(id session.ID, keys ...session.EchoKey) {
	s.result.EchoKeys = append(s.result.EchoKeys, echoes(s.query, id, s.startedAt, keys)...)
}

func (s *search) releaseParent() { s.releaseUnlessUnit(s.parent) }

func (s *search) releaseUnlessUnit(ses *store.Session) {
	if ses != nil && ses != s.result.Unit {
		s.resolver.store.Release(ses, store.Unchanged)
	}
}

// abandon releases all pinned sessions, and ends the request at the threader.
func (s *search) abandon() {
	for _, ses := range []*store.Session{s.result.Session, s.result.Unit} {
		if ses != nil {
			s.resolver.store.Release(ses, store.Unchanged)
		}
	}
	s.resolver.threads.RecordEnd(s.result.Thread, false, s.startedAt)
}
