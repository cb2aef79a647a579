package store

import (
	"context"
	"time"

	"precept/bandit"
	"precept/feedback"
	"precept/session"
)

// earlyLimit bounds the open sessions that the chooser learns from; what is beyond them is learned
// when it closes.
const earlyLimit = 50_000

// earlyGrace is how long after its closing age an open session is still taken for open: then
// another replica has closed it.
const earlyGrace = 5 * time.Second

// early is what open sessions have told so far, for the chooser and for nobody else
// (bandit.Chooser.AddProvisional). It belongs to the recorder's goroutine; the counters behind it
// are guarded by shared.mu.
type early struct {
	sessions map[session.Ref]foreseen
	begun    time.Time   // sessions that began before are of an earlier run
	after    session.Row // how far those have been looked at
	recalled bool        // all of them
}

type foreseen struct {
	provisional bandit.Provisional
	due         time.Time // when the session closes
}

// foresee lets the chooser learn from an open session's feedback at once. It is the rewards of the
// last closing age, and where there is little history that is much of it.
func (s *Store) foresee(ctx context.Context, tenant string, id session.ID) {
	rec := s.inMemory(tenant, id)
	if rec == nil {
		row, ok, err := s.be.Session(ctx, tenant, id)
		if err != nil || !ok || row.Closed {
			return // closing will see it
		}
		s.foreseeRow(ctx, &row)
		return
	}
	entries, err := s.be.Feedback(ctx, tenant, id)
	if err != nil {
		s.opts.Failed("early", err)
		return
	}
	s.foreseen(rec, feedback.Reward(inTime(entries, rec.Started, s.opts.CloseAfter), s.opts.Tiers))
}

// foreseeRow does so for a session that is not in memory.
func (s *Store) foreseeRow(ctx context.Context, row *session.Row) {
	entries, err := s.be.Feedback(ctx, row.Tenant, row.ID)
	if err != nil {
		s.opts.Failed("early", err)
		return
	}
	s.foreseeSaid(row, entries)
}

// foreseeSaid does so with what was said of it.
func (s *Store) foreseeSaid(row *session.Row, entries []feedback.Entry) {
	rec, err := session.Decode(row.ID, row.Data)
	if err != nil {
		return // closing tells of it
	}
	if here := s.inMemory(row.Tenant, row.ID); here != nil && here.Turns >= rec.Turns { // else it has gone on at another replica
		rec = here
	}
	s.foreseen(rec, feedback.Reward(inTime(entries, rec.Started, s.opts.CloseAfter), s.opts.Tiers))
}

// inMemory is what is known here of who a session belongs to and what it was assigned, nil when it
// is not in memory.
func (s *Store) inMemory(tenant string, id session.ID) *session.Record {
	ses := s.live.peek(id)
	if ses == nil {
		return nil
	}
	defer ses.pins.Add(-1)
	if ses.Tenant != tenant {
		return nil
	}
	ses.Lock() // not held any longer: requests of the session wait for it
	defer ses.Unlock()
	return &session.Record{ID: id, Tenant: tenant, Started: ses.Started, Turns: ses.Turns, Unit: ses.Unit, Assignment: ses.Assignment.Clone()}
}

// foreseen puts a session's reward of this moment in the place of the one before.
func (s *Store) foreseen(rec *session.Record, out feedback.Outcome) {
	if rec.Unit != "" { // its unit was told as well
		return
	}
	at := session.Ref{Tenant: rec.Tenant, ID: rec.ID}
	s.shared.mu.Lock()
	defer s.shared.mu.Unlock()
	s.unforesee(at)
	if !out.OK || len(s.early.sessions) >= earlyLimit {
		return
	}
	c := s.Beliefs(rec.Tenant)
	reward := c.AddProvisional(&rec.Assignment, out.Reward, out.Tier)
	s.early.sessions[at] = foreseen{reward, rec.Started.Add(s.opts.CloseAfter)}
	if reward.Told() {
		s.tenant(rec.Tenant).rewards++
	}
}

// unforesee takes back what an open session told. The caller holds shared.mu.
func (s *Store) unforesee(at session.Ref) {
	f, ok := s.early.sessions[at]
	if !ok {
		return
	}
	delete(s.early.sessions, at)
	s.Beliefs(at.Tenant).DropProvisional(f.provisional)
	if f.provisional.Told() {
		s.tenant(at.Tenant).rewards--
	}
}

// expire takes back what was told of sessions that must have been closed elsewhere.
func (s *Store) expire() {
	s.shared.mu.Lock()
	defer s.shared.mu.Unlock()
	late := s.opts.Now().Add(-earlyGrace - 2*s.closeTick())
	for at, f := range s.early.sessions {
		if f.due.Before(late) {
			s.unforesee(at)
		}
	}
}

// recall learns from the sessions that an earlier run left open, a bounded step a call.
func (s *Store) recall(ctx context.Context) {
	if s.early.recalled {
		return
	}
	s.early.recalled = true // unless what follows comes to its end
	rows, err := s.be.Due(ctx, s.early.begun, s.early.after, closeBatch)
	if err != nil {
		s.early.recalled = false
		s.opts.Failed("early", err)
		return
	}
	for i := range rows {
		s.guard.On("recall", session.Ref{Tenant: rows[i].Tenant, ID: rows[i].ID}, "", func() {
			s.foreseeRow(ctx, &rows[i])
		})
	}
	if len(rows) == closeBatch {
		s.early.recalled, s.early.after = false, rows[len(rows)-1]
	}
}
