package store

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"sync"

	"precept/internal/session"
	"precept/store/outbox"
)

// Of a session whose turns all opted out nothing is kept, and its next turn sends all of it again.
// So that this one is known for what it is after a restart, or when the session had to leave
// memory, one mark stays: how many turns there were and how long their list was, under a name that
// nobody can find without the store's secret (docs/decisions/0014-opt-out-marks.md).

// Another replica that gets the next turn of such a session, with all that was said before in it,
// would take it for the first: in a fleet the mark stands in the shared backend as well, before the
// client has the end of its answer. Only a session with a name can be found by another replica.

// mostMarks bounds the marks; the oldest is let go.
const mostMarks = 100_000

// optOutKeeper is where a fleet keeps the marks, for a time; of two of one session the one of more
// items.
type optOutKeeper interface {
	KeepOptOuts(ctx context.Context, marks map[session.ID]session.OptOutMark) error
}

// optOutMarks are the marks. They are written by the shipper, and read by requests that begin a
// session.
type optOutMarks struct {
	outbox *outbox.Outbox // nil: there are none
	secret []byte
	fleet  optOutKeeper // nil: the backend is this process' own

	mu    sync.Mutex
	of    map[uint64]outbox.Mark
	order []uint64      // the names, oldest first
	fresh []outbox.Mark // that are not in the outbox yet

	unannounced map[session.ID]session.OptOutMark // that the fleet does not know yet
}

// openMarks reads the marks of an outbox.
func openMarks(box *outbox.Outbox, secret []byte, fleet optOutKeeper) (*optOutMarks, error) {
	h := &optOutMarks{of: map[uint64]outbox.Mark{}, secret: secret, fleet: fleet, unannounced: map[session.ID]session.OptOutMark{}}
	if box == nil || len(secret) == 0 {
		return h, nil
	}
	h.outbox = box
	list, err := box.Marks()
	for _, m := range list {
		h.set(m)
	}
	return h, err
}

// name is that of a session's mark.
func (h *optOutMarks) name(id session.ID) uint64 {
	m := hmac.New(sha256.New, h.secret)
	_, _ = m.Write(append([]byte("opted out "), id[:]...))
	return binary.LittleEndian.Uint64(m.Sum(nil))
}

// set notes a mark. The caller has mu, or is alone.
func (h *optOutMarks) set(m outbox.Mark) (news bool) {
	old, known := h.of[m.Name]
	if known && old == m {
		return false
	}
	if !known {
		h.order = append(h.order, m.Name)
		if len(h.order) > mostMarks {
			delete(h.of, h.order[0])
			h.order = h.order[1:]
		}
	}
	h.of[m.Name] = m
	return true
}

// add marks a session, and says whether it will be known again.
func (h *optOutMarks) add(id session.ID, turns, items int) bool {
	if h.outbox == nil {
		return false
	}
	m := outbox.Mark{Name: h.name(id), Turns: uint32(turns), Items: uint32(items)} // both are bounded by the items of a body
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.set(m) {
		h.fresh = append(h.fresh, m)
	}
	return true
}

// recall makes a new record of a session one in which turns opted out, if it is marked.
func (h *optOutMarks) recall(rec *session.Record) {
	if h.outbox == nil {
		return
	}
	name := h.name(rec.Identity.ID)
	h.mu.Lock()
	v, ok := h.of[name]
	h.mu.Unlock()
	if !ok {
		return
	}
	rec.Hide(session.OptOutMark{Turns: int(v.Turns), Items: int(v.Items)})
	rec.OptOut.Asked = true
}

// keep writes down what is new.
func (h *optOutMarks) keep() error {
	h.mu.Lock()
	fresh := h.fresh
	h.fresh = nil
	h.mu.Unlock()
	if len(fresh) == 0 {
		return nil
	}
	err := h.outbox.KeepMarks(fresh, mostMarks)
	if err != nil {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.fresh = append(fresh, h.fresh...)
		h.fresh = h.fresh[:min(len(h.fresh), mostMarks)]
	}
	return err
}

// announceLater puts a session's mark among those that the fleet does not know yet.
func (h *optOutMarks) announceLater(id session.ID, m session.OptOutMark) {
	if h.fleet == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if old, ok := h.unannounced[id]; len(h.unannounced) < mostMarks && (!ok || old.Items < m.Items) {
		h.unannounced[id] = m
	}
}

// announce tells the fleet what it does not know yet. What fails is told again.
func (h *optOutMarks) announce(ctx context.Context) error {
	h.mu.Lock()
	marks := h.unannounced
	if len(marks) == 0 {
		h.mu.Unlock()
		return nil
	}
	h.unannounced = map[session.ID]session.OptOutMark{}
	h.mu.Unlock()
	err := h.fleet.KeepOptOuts(ctx, marks)
	if err != nil {
		for id, m := range marks {
			h.announceLater(id, m)
		}
	}
	return err
}
