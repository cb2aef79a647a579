package proxy

import (
	"time"

	"precept/internal/session"
	"precept/store"
)

// drawing finds what a session draws through, while it is found itself.
type drawing struct {
	*sender
	now time.Time
}

// join pins the unit of a session that is known.
func (f *drawing) join() {
	id, ok := f.ses.UnitID()
	switch {
	case !ok:
	case f.above != nil && f.above.ID == id:
		f.unit = unit{f.above}
	default:
		f.pinUnit(id, f.ses.RunName)
	}
}

// enlist makes a new session a member of what it belongs to.
func (f *drawing) enlist(rec *session.Record) {
	above := f.above
	if above == nil {
		above = f.caller(rec)
		defer func() { f.leave(above) }()
	}
	switch {
	case above != nil && above.Unit == "":
		f.unit = unit{above}
	case above != nil:
		id, _ := above.UnitID()
		f.pinUnit(id, above.RunName)
	case f.claim.Run != "":
		f.pinUnit(session.RunKey(f.who.tenant, f.claim.Run), f.claim.Run)
	default:
		return
	}
	rec.Unit, rec.RunName = f.unit.ID.String(), f.unit.Name
	f.opts.Store.AddMember(f.unit.Session, rec)
}

// leave gives a session back that is pinned to find another one's unit, unless it is that.
func (f *drawing) leave(above *store.Session) {
	if above != nil && above != f.unit.Session {
		f.opts.Store.Release(above, store.Unchanged)
	}
}

// caller pins the session whose tool call started the conversation that begins: what is drawn for
// one of them would reach the other. nil where there is none, or where it cannot be told which;
// then the new one is no part of the experiment.
func (f *drawing) caller(rec *session.Record) *store.Session {
	if f.claim.Run != "" {
		return nil
	}
	id, ok, sure := f.quotes.Caller(f.who.scope(), f.req, f.now)
	if !ok {
		return nil
	}
	if sure {
		return f.learning(id)
	}
	if !rec.Assignment.Excluded {
		rec.Assignment.Excluded, rec.Doubted = true, true
		f.opts.Metrics.excluded.WithLabelValues(excludedTwin).Inc()
	}
	return nil
}

// learning pins a session of which something may be kept.
func (f *drawing) learning(id session.ID) *store.Session {
	above := f.opts.Store.Resident(id)
	if above == nil {
		return nil
	}
	above.Lock()
	silent := above.NoLearn || len(above.OptedOut) > 0
	above.Unlock()
	if silent {
		f.opts.Store.Release(above, store.Unchanged)
		return nil
	}
	return above
}

// pinUnit holds a unit's record. One that cannot be looked up in time is no part of the experiment;
// one that is gone begins anew.
func (f *drawing) pinUnit(id session.ID, name string) {
	st := f.opts.Store
	if f.unit.Session = st.Resident(id); f.unit.Session != nil {
		st.Rejoin(f.r.Context(), f.unit.Session)
		return
	}
	late := false
	if f.unit.Session, late = st.Acquire(f.r.Context(), f.who.tenant, id); f.unit.Session != nil {
		return
	}
	rec := session.NewRun(f.who.tenant, f.claim, name, id, f.now)
	rec.Assignment.Excluded = late || f.set.excluded
	rec.StandIn = late
	f.unit.Session = st.Add(rec)
}

// noteMember keeps the keys under which the unit finds its members, and feedback finds the run.
func (f *drawing) noteMember() {
	if f.unit.Session == nil {
		return
	}
	if number := f.ses.MemberNo; number > 0 {
		f.note(f.ses.ID, session.MemberKey(f.who.tenant, f.unit.ID, number))
	}
	if f.unit.IsRun {
		f.note(f.unit.ID, session.RunEcho(f.who.tenant, f.unit.Name))
	}
}
