package store

import (
	"context"

	"precept/session"
)

// A session that opted out with all of its turns has no row, so that another replica that gets its
// next turn, with all that was said before in it, would take it for the first. In a fleet the mark
// of such a session stands in the shared backend as well, before the client has the end of its
// answer. Only a session with a name can be found by another replica.

// mostUnannounced bounds the marks that wait for the backend.
const mostUnannounced = mostMarks

// announceLater puts the session's mark among those that the fleet does not know yet.
func (h *optOutMarks) announceLater(id session.ID, m session.OptOutMark) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if old, ok := h.unannounced[id]; len(h.unannounced) < mostUnannounced && (!ok || old.Items < m.Items) {
		h.unannounced[id] = m
	}
}

// announceOptOuts tells the fleet what it does not know yet. What fails is told again.
func (o *optouts) announceOptOuts(ctx context.Context) error {
	h := o.marks
	h.mu.Lock()
	marks := h.unannounced
	if len(marks) == 0 || o.opts.Fleet == nil {
		h.mu.Unlock()
		return nil
	}
	h.unannounced = map[session.ID]session.OptOutMark{}
	h.mu.Unlock()
	err := o.opts.Fleet.KeepOptOuts(ctx, marks)
	if err != nil {
		for id, m := range marks {
			h.announceLater(id, m)
		}
	}
	return err
}

// optOutOf puts the mark of a session among those that the fleet has to know, where it needs one: a
// session with a name that has opted out so far because somebody asked for it. The caller has the
// record's lock.
func (o *optouts) optOutOf(rec *session.Record) {
	named := rec.Method != session.ByNew && rec.Method != session.ByEcho
	if m, ok := rec.OptOutMark(); ok && rec.Asked && named && o.Shared() {
		o.marks.announceLater(rec.ID, m)
	}
}
