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
func (t *turn) below(now time.Time, look session.Lookup) bool {
	if t.ses == nil || t.found.New || !t.claim.Named() {
		return false
	}
	t.ses.Lock()
	reason, side := t.ses.Side(t.req, t.claim, t.p.signs)
	tools := side && reason == session.SideTools
	first := tools && !t.req.Delta && !t.ses.Shows(t.req)
	t.ses.Unlock()
	if !tools || !first && !t.req.Delta { // what shows the conversation is a memory keeper's
		return false
	}
	sub, ok := t.p.threads.Below(t.found, t.claim, first, now, look)
	if !ok {
		return false
	}
	t.above, t.ses, t.found, t.moved = t.ses, nil, sub, false
	return true
}

// leave gives the session above back, unless it is the unit.
func (t *turn) leave(above *store.Session) {
	if t.unit != above {
		t.p.opts.Store.Release(above, store.Unchanged)
	}
}

// caller pins the session whose tool call started the conversation that begins: what is drawn for
// one of them would reach the other. nil where there is none, or where it cannot be told which;
// then the new one is no part of the experiment.
func (t *turn) caller(rec *session.Record, now time.Time) *store.Session {
	if t.claim.Run != "" {
		return nil
	}
	id, ok, sure := t.p.quotes.Caller(t.who.scope(), t.req, now)
	if !ok {
		return nil
	}
	if sure {
		return t.learning(id)
	}
	if !rec.Assignment.Excluded {
		rec.Assignment.Excluded, rec.Doubted = true, true
		t.p.opts.Metrics.excluded.WithLabelValues(excludedTwin).Inc()
	}
	return nil
}

// learning pins a session of which something may be kept.
func (t *turn) learning(id session.ID) *store.Session {
	above := t.p.opts.Store.Resident(id)
	if above == nil {
		return nil
	}
	above.Lock()
	silent := above.NoLearn || len(above.OptedOut) > 0
	above.Unlock()
	if silent {
		t.p.opts.Store.Release(above, store.Unchanged)
		return nil
	}
	return above
}

// elsewhere says that the session that was found is one of another run than the request says.
func (t *turn) elsewhere() bool {
	return t.claim.Run != "" && t.ses.Unit != "" && t.ses.Unit != session.RunKey(t.who.tenant, t.claim.Run).String()
}

// join pins the unit of a session that is known.
func (t *turn) join(now time.Time) {
	id, ok := t.ses.UnitID()
	switch {
	case !ok:
	case t.above != nil && t.above.ID == id:
		t.unit = t.above
	default:
		t.pinUnit(id, t.ses.RunName, now)
	}
}

// enlist makes a new session a member of what it belongs to.
func (t *turn) enlist(rec *session.Record, now time.Time) {
	above := t.above
	if above == nil {
		if above = t.caller(rec, now); above != nil {
			defer t.leave(above)
		}
	}
	switch {
	case above != nil && above.Unit == "":
		t.unit = above
	case above != nil:
		id, _ := above.UnitID()
		t.pinUnit(id, above.RunName, now)
	case t.claim.Run != "":
		t.pinUnit(session.RunKey(t.who.tenant, t.claim.Run), t.claim.Run, now)
	default:
		return
	}
	rec.Unit, rec.RunName = t.unit.ID.String(), t.unit.Name
	t.p.opts.Store.Enlist(t.unit, rec)
}

// pinUnit holds a unit's record. One that cannot be looked up in time is no part of the experiment;
// one that is gone begins anew.
func (t *turn) pinUnit(id session.ID, name string, now time.Time) {
	st := t.p.opts.Store
	if t.unit = st.Resident(id); t.unit != nil {
		st.Rejoin(t.r.Context(), t.unit)
		return
	}
	late := false
	if t.unit, late = st.Acquire(t.r.Context(), t.who.tenant, id); t.unit != nil {
		return
	}
	rec := session.NewRun(t.who.tenant, t.claim, name, id, now)
	rec.Assignment.Excluded = late || t.set.excluded
	rec.StandIn = late
	t.unit = st.Add(rec)
}

// drawsThrough is the unit's record, nil for a session of its own.
func (t *turn) drawsThrough() *session.Record {
	if t.unit == nil {
		return nil
	}
	return t.unit.Record
}

// ofUnit does something with the unit, where there is one.
func (t *turn) ofUnit(do func(u *session.Record)) {
	if t.unit == nil {
		return
	}
	t.unit.Lock()
	defer t.unit.Unlock()
	do(t.unit.Record)
}

// met counts the turn of a member.
func (t *turn) met(now time.Time) {
	t.ofUnit(func(u *session.Record) { u.Met(now) })
}

// keysOfUnit keeps the keys under which the unit finds its members, and feedback finds the run.
func (t *turn) keysOfUnit() {
	if t.unit == nil {
		return
	}
	if seat := t.ses.Seat; seat > 0 {
		t.note(session.SeatKey(t.who.tenant, t.unit.ID, seat))
	}
	if t.unit.IsRun {
		t.noteOf(t.unit.ID, session.RunEcho(t.who.tenant, t.unit.Name))
	}
}
