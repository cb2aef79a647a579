package store

import (
	"context"
	"time"

	"precept/session"
)

// A session that opted out with all of its turns has no row, so that another replica that gets its
// next turn, with all that was said before in it, would take it for the first. In a fleet the mark
// of such a session stands in the shared backend as well, before the client has the end of its
// answer. Only a session with a name can be found by another replica.

// mostUnsaid bounds the marks that wait for the backend.
const mostUnsaid = hushedMost

// unsay puts the session's mark among those that the fleet does not know yet.
func (h *hushed) unsay(id session.ID, m session.OptOutMark) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if old, ok := h.unsaid[id]; len(h.unsaid) < mostUnsaid && (!ok || old.Items < m.Items) {
		h.unsaid[id] = m
	}
}

// announceOptOuts tells the fleet what it does not know yet. What fails is told again.
func (s *Store) announceOptOuts(ctx context.Context) error {
	h := s.hushed
	h.mu.Lock()
	marks := h.unsaid
	if len(marks) == 0 || s.opts.Fleet == nil {
		h.mu.Unlock()
		return nil
	}
	h.unsaid = map[session.ID]session.OptOutMark{}
	h.mu.Unlock()
	err := s.opts.Fleet.KeepOptOuts(ctx, marks)
	if err != nil {
		for id, m := range marks {
			h.unsay(id, m)
		}
	}
	return err
}

// optOutOf puts the mark of a session among those that the fleet has to know, where it needs one: a
// session with a name that has opted out so far because somebody asked for it. The caller has the
// record's lock.
func (s *Store) optOutOf(rec *session.Record) {
	named := rec.Method != session.ByNew && rec.Method != session.ByEcho
	if m, ok := rec.OptOutMark(); ok && rec.Asked && named && s.Shared() {
		s.hushed.unsay(rec.ID, m)
	}
}

// PublishOptOut lets the other replicas know that the newest turn of a session opted out, before
// the client has the whole answer. waited is what the request has waited for the backend before.
func (s *Store) PublishOptOut(ses *Session, waited time.Duration) {
	if !s.Shared() || s.down.Load() || s.overdue.Load() > mostOverdue {
		return
	}
	batch := session.Batch{}
	if row, ok := s.encodeWith(s.newRedactor(), ses); ok {
		batch.Rows = []session.Row{row}
	}
	s.soon(ses.Name, waited, func(ctx context.Context) error {
		if len(batch.Rows) == 0 {
			return s.announceOptOuts(ctx)
		}
		return s.be.Write(ctx, batch)
	})
}

// Recall makes a record that is about to be added one in which turns opted out, where the fleet has
// a mark of them. Where nobody can say whether it has, because the backend was not (late) or is not
// to be asked in time, what stood in the list before, its first items, is kept out as well.
func (s *Store) Recall(ctx context.Context, rec *session.Record, items int, late bool) {
	if !s.Shared() || items <= 0 {
		return
	}
	doubt := session.OptOutMark{Turns: 1, Items: items}
	if late {
		rec.Hide(doubt)
		return
	}
	ctx, cancel := context.WithTimeout(ctx, s.opts.Lookup)
	defer cancel()
	m, ok, err := s.opts.Fleet.OptOutOf(ctx, rec.ID)
	switch {
	case err != nil:
		s.opts.Failed("lookup", err)
		rec.Hide(doubt)
	case ok:
		rec.Hide(m)
		rec.Asked = true
	}
}

// recallAgain is the same for a session that is in memory, opted out so far, and may have gone on
// at another replica.
func (s *Store) recallAgain(ctx context.Context, ses *Session) {
	ses.Lock()
	silent := ses.Silent()
	ses.Unlock()
	if !silent || !s.Shared() {
		return
	}
	m, ok, err := s.opts.Fleet.OptOutOf(ctx, ses.ID)
	if err != nil {
		s.opts.Failed("lookup", err)
		return
	}
	if ok {
		ses.Lock()
		defer ses.Unlock()
		ses.Hide(m)
	}
}
