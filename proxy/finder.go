package proxy

import (
	"precept/internal/session"
	"precept/store"
)

// finder finds whose turn a request is, and pins the session. It lives as long as that takes.
type finder struct {
	drawing
	asked bool // the store was asked which sessions own what the request sends back
	late  bool // it could not say in time whether the session is known
}

// identify finds the session and pins it.
func (s *sender) identify() {
	s.claim = session.Identify(s.r.Header, s.r.URL.EscapedPath(), s.req)
	s.who.claims(&s.claim)
	s.learn = !s.claim.LearnOff && s.set.learns(&s.who, s.claim.Agent)
	s.claim.Agent = s.set.cleanName(s.claim.Agent)
	f := &finder{drawing: drawing{s, s.opts.Now()}}
	defer func() { f.leave(s.above) }()
	f.find()
	s.waited = s.opts.Now().Sub(f.now)
	if s.ses == nil {
		f.open()
	} else {
		f.join()
	}
	f.doubt()
	if s.ses != nil && s.echoed() && !f.optedOut() {
		s.note(s.ses.ID, s.found.Echoes...)
	}
}

// find pins the session that the request is of, where it is known.
func (f *finder) find() {
	scope := f.who.scope()
	scope.Run = f.claim.Run
	f.found = f.threads.Resolve(scope, f.claim, f.req, f.now, f.lookUp)
	f.pin()
	f.apart()
	if f.below() {
		f.pin()
	}
}

// lookUp asks the store for the sessions that own keys.
func (f *finder) lookUp(keys []session.EchoKey) map[session.EchoKey][]session.ID {
	f.asked = true
	return f.opts.Store.Echoes(f.r.Context(), f.who.tenant, keys)
}

// pin holds the session that was found, where it is known.
func (f *finder) pin() {
	st := f.opts.Store
	f.late = false
	if f.ses = st.Resident(f.found.ID); f.ses != nil {
		f.catchUp()
	} else if !f.found.New {
		f.ses, f.late = st.Acquire(f.r.Context(), f.who.tenant, f.found.ID)
		f.moved = f.ses != nil
	}
}

// catchUp reads a session anew that is in memory and has gone on at another replica meanwhile:
// because what it sends back did not go by here, or because there is more of it than this replica
// answered. So it does with one that was begun while nobody could say whether there is one.
func (f *finder) catchUp() {
	st := f.opts.Store
	if f.ses.Unsure() {
		st.Refresh(f.r.Context(), f.ses)
		return
	}
	if !st.Shared() {
		return
	}
	f.ses.Lock()
	f.moved = f.asked || f.ses.Elsewhere(f.req)
	f.ses.Unlock()
	if f.moved {
		st.Refresh(f.r.Context(), f.ses)
	}
}

// apart gives a request a session of its own that shares nothing with the one that is stored under
// its name: the name is that of an application, and what the threader knew of it went with a
// restart. So it does where the conversation goes on in another run: what was drawn for one says
// nothing of the other.
func (f *finder) apart() {
	if f.ses == nil || !f.found.Loose && !f.inAnotherRun() {
		return
	}
	if f.found.Loose {
		f.ses.Lock()
		shares := f.ses.Shares(f.req) && !f.ses.Begins(f.req)
		f.ses.Unlock()
		if shares {
			return
		}
	}
	f.opts.Store.Release(f.ses, store.Unchanged)
	f.ses, f.moved = nil, false
	f.found = f.threads.Apart(f.found, f.claim, f.now)
}

// inAnotherRun says that the session that was found is one of another run than the request says.
func (f *finder) inAnotherRun() bool {
	return f.claim.Run != "" && f.ses.Unit != "" && f.ses.Unit != session.RunKey(f.who.tenant, f.claim.Run).String()
}

// below finds the sub-session of a request that came under the name of a conversation and is none
// of it, neither its turn nor a side call: a sub-agent's, with tools of its own. The session above
// stays pinned.
func (f *finder) below() bool {
	if f.ses == nil || f.found.New || !f.claim.Named() {
		return false
	}
	f.ses.Lock()
	reason, side := f.ses.Side(f.req, f.claim, f.signs)
	tools := side && reason == session.SideTools
	first := tools && !f.req.Delta && !f.ses.Shows(f.req)
	f.ses.Unlock()
	if !tools || !first && !f.req.Delta { // what shows the conversation is a memory keeper's
		return false
	}
	sub, ok := f.threads.Below(f.found, f.claim, first, f.now, f.lookUp)
	if !ok {
		return false
	}
	f.above, f.ses, f.found, f.moved = f.ses, nil, sub, false
	return true
}

// open begins a session.
func (f *finder) open() {
	s := f.sender
	rec := session.NewRecord(s.who.tenant, s.claim, s.found, f.now)
	if f.unwanted(rec) { // of a conversation that is not known: no session begins with it
		s.found.Echoes, s.found.Name = nil, rec.Name
		s.threads.Ended(s.found, true, f.now)
		return
	}
	s.isNew = true
	rec.Assignment.Excluded = f.late || s.set.excluded
	switch {
	case f.late:
		s.opts.Metrics.excluded.WithLabelValues(excludedLate).Inc()
	case s.set.excluded:
		s.opts.Metrics.excluded.WithLabelValues(excludedKeys).Inc()
	}
	rec.StandIn = f.late
	rec.NoLearn = !s.learn
	f.enlist(rec)
	if !s.found.New && !s.req.Delta {
		s.opts.Store.Recall(s.r.Context(), rec, s.req.New(), f.late)
	}
	s.ses = s.opts.Store.Add(rec)
	s.note(s.ses.ID, session.EchoKeyOf(s.who.tenant, "s:"+s.ses.Name))
	f.noteMember()
	s.opts.Metrics.sessions.WithLabelValues(string(s.found.Method)).Inc()
}

// unwanted says that the request is beside a conversation, where it would begin one: its words are
// those of a side call, or it shows a conversation that goes on.
func (f *finder) unwanted(rec *session.Record) bool {
	m := f.found.Method
	if !f.late && (f.found.Loose || m == session.ByNew || m == session.ByEcho) { // it has no name of its own
		f.about, f.showing = f.quotes.About(f.who.scope(), f.req, f.now)
	}
	if f.found.New && f.beside(rec) {
		return true
	}
	if f.showing {
		f.aside(session.SideQuotes)
	}
	return f.showing
}

// doubt leaves the sessions out of the experiment that nothing tells apart: the request may be any
// one's, so the draws of one may have gone to another. They keep what they have and get what others
// get; it only counts for nothing. A session that has closed was counted with what it had until
// then, one that has a name of its own is in no doubt, and the draws of a run's sessions are the
// same.
func (f *finder) doubt() {
	for _, id := range f.found.Doubt {
		ses := f.opts.Store.Resident(id)
		if ses == nil {
			continue
		}
		changed := store.Unchanged
		ses.Lock()
		if unnamed := ses.Method == session.ByNew || ses.Method == session.ByEcho; unnamed && ses.Unit == "" && !ses.Closed && !ses.Assignment.Excluded {
			ses.Assignment.Excluded, ses.Doubted, ses.Dirty = true, true, true
			changed = store.Decided
			f.opts.Metrics.excluded.WithLabelValues(excludedTwin).Inc()
		}
		ses.Unlock()
		f.opts.Store.Release(ses, changed)
	}
}

// optedOut says that a turn of the session did: its past has keys of that, which nobody keeps.
func (f *finder) optedOut() bool {
	f.ses.Lock()
	defer f.ses.Unlock()
	return len(f.ses.OptedOut) > 0
}
