package proxy

import (
	"time"

	"precept/session"
	"precept/store"
)

// identify finds the session and pins it.
func (t *turn) identify() {
	t.claim = session.Identify(t.r.Header, t.r.URL.EscapedPath(), t.req)
	t.who.claims(&t.claim)
	t.learn = !t.claim.LearnOff && t.set.learns(&t.who, t.claim.Agent)
	t.claim.Agent = t.set.cleanName(t.claim.Agent)
	now := t.p.opts.Now()
	asked := false
	look := func(keys []session.EchoKey) map[session.EchoKey][]session.ID {
		asked = true
		return t.p.opts.Store.Echoes(t.r.Context(), t.who.tenant, keys)
	}
	scope := t.who.scope()
	scope.Run = t.claim.Run
	t.found = t.p.threads.Resolve(scope, t.claim, t.req, now, look)
	late := t.find(asked)
	t.apart(now)
	if t.below(now, look) {
		defer t.leave(t.above)
		late = t.find(asked)
	}
	t.waited = t.p.opts.Now().Sub(now)
	if t.echoed() {
		defer t.notePast()
	}
	defer t.doubt()
	if t.ses != nil {
		t.join(now)
		return
	}
	t.open(now, late)
}

// find pins the session that was found, where it is known. late says that the store could not be
// asked in time.
func (t *turn) find(asked bool) (late bool) {
	if t.ses = t.p.opts.Store.Resident(t.found.ID); t.ses != nil {
		t.catchUp(asked)
	} else if !t.found.New {
		t.ses, late = t.p.opts.Store.Acquire(t.r.Context(), t.who.tenant, t.found.ID)
		t.moved = t.ses != nil
	}
	return late
}

// open begins a session.
func (t *turn) open(now time.Time, late bool) {
	t.isNew = true
	rec := session.NewRecord(t.who.tenant, t.claim, t.found, now)
	if !late && t.nameless() {
		t.about, t.quotes = t.p.quotes.About(t.who.scope(), t.req, now)
	}
	if t.found.New && t.beside(rec) || t.quotesOne() { // of a conversation that is not known: no session begins with it
		t.isNew, t.found.Echoes, t.found.Name = false, nil, rec.Name
		t.p.threads.Ended(t.found, true, now)
		return
	}
	rec.Assignment.Excluded = late || t.set.excluded
	switch {
	case late:
		t.p.opts.Metrics.excluded.WithLabelValues(excludedLate).Inc()
	case t.set.excluded:
		t.p.opts.Metrics.excluded.WithLabelValues(excludedKeys).Inc()
	}
	rec.StandIn = late
	rec.NoLearn = !t.learn
	t.enlist(rec, now)
	if !t.found.New && !t.req.Delta {
		t.p.opts.Store.Recall(t.r.Context(), rec, t.req.New(), late)
	}
	t.ses = t.p.opts.Store.Add(rec)
	t.note(session.EchoKeyOf(t.who.tenant, 0, "s:"+t.ses.Name))
	t.keysOfUnit()
	t.p.opts.Metrics.sessions.WithLabelValues(string(t.found.Method)).Inc()
}

// apart gives a request a session of its own that shares nothing with the one that is stored under
// its name: the name is that of an application, and what the threader knew of it went with a
// restart. So it does where the conversation goes on in another run: what was drawn for one says
// nothing of the other.
func (t *turn) apart(now time.Time) {
	if t.ses == nil || !t.found.Loose && !t.elsewhere() {
		return
	}
	if t.found.Loose {
		t.ses.Lock()
		shares := t.ses.Shares(t.req) && !t.ses.Begins(t.req)
		t.ses.Unlock()
		if shares {
			return
		}
	}
	t.p.opts.Store.Release(t.ses, store.Unchanged)
	t.ses, t.moved = nil, false
	t.found = t.p.threads.Apart(t.found, t.claim, now)
}

// catchUp reads a session anew that is in memory and has gone on at another replica meanwhile:
// because what it sends back did not go by here (asked), or because there is more of it than this
// replica answered. So it does with one that was begun while nobody could say whether there is one.
func (t *turn) catchUp(asked bool) {
	if t.ses.Unsure() {
		t.p.opts.Store.Refresh(t.r.Context(), t.ses)
		return
	}
	if !t.p.opts.Store.Shared() {
		return
	}
	t.ses.Lock()
	elsewhere := asked || t.ses.Elsewhere(t.req)
	t.ses.Unlock()
	if t.moved = elsewhere; elsewhere {
		t.p.opts.Store.Refresh(t.r.Context(), t.ses)
	}
}
