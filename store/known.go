package store

import (
	"precept/internal/label"
	"precept/internal/session"
)

// What is known here of sessions before the backend knows it, for whoever learns from them.

// Newest is the record of a session that closes. One in memory is newer than its row, unless
// another replica has served the session since. Of a session of which only exchanges came to the
// backend it is one in which nothing was decided.
func (s *sessions) Newest(row *session.Row) *session.Record {
	rec := &session.Record{Identity: session.Identity{ID: row.ID, Tenant: row.Tenant}}
	if len(row.Data) > 0 {
		stored, err := session.Decode(row.ID, row.Data)
		if err == nil {
			rec = stored
		} else { // closed with nothing to count, rather than looked at for ever
			s.failed(label.StepDecode, err)
		}
	}
	ses := s.live.peek(row.ID)
	if ses == nil {
		return rec
	}
	defer ses.pins.Add(-1)
	ses.Lock()
	defer ses.Unlock()
	if rec.Thread.Turns <= ses.Thread.Turns && (rec.State.StandIn || !ses.State.StandIn) { // else it has gone on at another replica
		if c, err := session.Decode(row.ID, mustEncode(ses.Record)); err == nil {
			if c.Shared() && c.State.StandIn == rec.State.StandIn && len(row.Data) > 0 {
				c.Join(rec)
			}
			rec = c
		}
	}
	return rec
}

// mustEncode is the JSON of a record, or nothing.
func mustEncode(r *session.Record) []byte {
	b, err := r.Encode()
	if err != nil {
		return nil
	}
	return b
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
	return &session.Record{
		Identity:   session.Identity{ID: of.ID, Tenant: of.Tenant, Started: ses.Identity.Started},
		Unit:       session.Unit{ID: ses.Unit.ID},
		Thread:     session.Thread{Turns: ses.Thread.Turns},
		Assignment: ses.Assignment.Clone(),
	}
}
