package store

import (
	"precept/internal/label"
	"precept/internal/session"
)

// What is known here of sessions before the backend knows it, for whoever learns from them.

// Newest returns the record of a session that closes. The record in memory is newer than the row,
// unless another replica has served the session since. A session of which only exchanges came to the
// backend has a record in which nothing was decided.
func (s *sessions) Newest(row *session.Row) *session.Record {
	var here *session.Record
	if ses := s.live.peek(row.ID); ses != nil {
		ses.Lock()
		here = ses.Snapshot()
		ses.Unlock()
		ses.pins.Add(-1)
	}
	if here != nil && !here.State.StandIn && !s.Shared() { // no other process writes rows
		return here
	}
	stored := &session.Record{Identity: session.Identity{ID: row.ID, Tenant: row.Tenant}}
	if len(row.Data) > 0 {
		rec, err := session.Decode(row.ID, row.Data)
		if err == nil {
			stored = rec
		} else { // the session closes with nothing to count: else it would stay due for ever
			s.failed(label.StepDecode, err)
		}
	}
	if here == nil || stored.Thread.Turns > here.Thread.Turns || here.State.StandIn && !stored.State.StandIn {
		return stored
	}
	if here.Shared() && here.State.StandIn == stored.State.StandIn && len(row.Data) > 0 {
		here.Join(stored)
	}
	return here
}

// InUse is what is known here of who a session belongs to and what it was assigned, nil when it
// is not in memory.
func (s *sessions) InUse(of session.Ref) *session.Record {
	ses := s.live.peek(of.ID)
	if ses == nil {
		return nil
	}
	defer ses.pins.Add(-1)
	if ses.Identity.Tenant != of.Tenant {
		return nil
	}
	ses.Lock() // not held any longer: requests of the session wait for it
	defer ses.Unlock()
	return ses.Snapshot()
}
