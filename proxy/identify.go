package proxy

import (
	"time"

	"precept/session"
	"precept/store"
)

// identify finds the session and pins it.
func (s *sender) identify() {
	s.claim = session.Identify(s.r.Header, s.r.URL.EscapedPath(), s.req)
	s.who.claims(&s.claim)
	s.learn = !s.claim.LearnOff && s.set.learns(&s.who, s.claim.Agent)
	s.claim.Agent = s.set.cleanName(s.claim.Agent)
	now := s.p.opts.Now()
	asked := false
	look := func(keys []session.EchoKey) map[session.EchoKey][]session.ID {
		asked = true
		return s.p.opts.Store.Echoes(s.r.Context(), s.who.tenant, keys)
	}
	scope := s.who.scope()
	scope.Run = s.claim.Run
	s.found = s.p.threads.Resolve(scope, s.claim, s.req, now, look)
	late := s.find(asked)
	s.apart(now)
	if s.below(now, look) {
		defer s.leave(s.above)
		late = s.find(asked)
	}
	s.waited = s.p.opts.Now().Sub(now)
	if s.echoed() {
		defer s.notePast()
	}
	defer s.doubt()
	if s.ses != nil {
		s.join(now)
		return
	}
	s.open(now, late)
}

// find pins the session that was found, where it is known. late says that the store could not be
// asked in time.
func (s *sender) find(asked bool) (late bool) {
	if s.ses = s.p.opts.Store.Resident(s.found.ID); s.ses != nil {
		s.catchUp(asked)
	} else if !s.found.New {
		s.ses, late = s.p.opts.Store.Acquire(s.r.Context(), s.who.tenant, s.found.ID)
		s.moved = s.ses != nil
	}
	return late
}

// open begins a session.
func (s *sender) open(now time.Time, late bool) {
	s.isNew = true
	rec := session.NewRecord(s.who.tenant, s.claim, s.found, now)
	if !late && s.nameless() {
		s.about, s.quotes = s.p.quotes.About(s.who.scope(), s.req, now)
	}
	if s.found.New && s.beside(rec) || s.quotesOne() { // of a conversation that is not known: no session begins with it
		s.isNew, s.found.Echoes, s.found.Name = false, nil, rec.Name
		s.p.threads.Ended(s.found, true, now)
		return
	}
	rec.Assignment.Excluded = late || s.set.excluded
	switch {
	case late:
		s.p.opts.Metrics.excluded.WithLabelValues(excludedLate).Inc()
	case s.set.excluded:
		s.p.opts.Metrics.excluded.WithLabelValues(excludedKeys).Inc()
	}
	rec.StandIn = late
	rec.NoLearn = !s.learn
	s.enlist(rec, now)
	if !s.found.New && !s.req.Delta {
		s.p.opts.Store.Recall(s.r.Context(), rec, s.req.New(), late)
	}
	s.ses = s.p.opts.Store.Add(rec)
	s.note(session.EchoKeyOf(s.who.tenant, 0, "s:"+s.ses.Name))
	s.keysOfUnit()
	s.p.opts.Metrics.sessions.WithLabelValues(string(s.found.Method)).Inc()
}

// apart gives a request a session of its own that shares nothing with the one that is stored under
// its name: the name is that of an application, and what the threader knew of it went with a
// restart. So it does where the conversation goes on in another run: what was drawn for one says
// nothing of the other.
func (s *sender) apart(now time.Time) {
	if s.ses == nil || !s.found.Loose && !s.elsewhere() {
		return
	}
	if s.found.Loose {
		s.ses.Lock()
		shares := s.ses.Shares(s.req) && !s.ses.Begins(s.req)
		s.ses.Unlock()
		if shares {
			return
		}
	}
	s.p.opts.Store.Release(s.ses, store.Unchanged)
	s.ses, s.moved = nil, false
	s.found = s.p.threads.Apart(s.found, s.claim, now)
}

// catchUp reads a session anew that is in memory and has gone on at another replica meanwhile:
// because what it sends back did not go by here (asked), or because there is more of it than this
// replica answered. So it does with one that was begun while nobody could say whether there is one.
func (s *sender) catchUp(asked bool) {
	if s.ses.Unsure() {
		s.p.opts.Store.Refresh(s.r.Context(), s.ses)
		return
	}
	if !s.p.opts.Store.Shared() {
		return
	}
	s.ses.Lock()
	elsewhere := asked || s.ses.Elsewhere(s.req)
	s.ses.Unlock()
	if s.moved = elsewhere; elsewhere {
		s.p.opts.Store.Refresh(s.r.Context(), s.ses)
	}
}
