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

// A session whose turns all opted out has no stored data, and its next turn sends all messages again. Once the session
// has left memory, for example in a restart, precept would take these messages for a new session and store them. An
// opt-out mark prevents this. It holds the number of opted-out turns and messages, under an HMAC of the session's id
// (docs/decisions/0014-opt-out-marks.md).
//
// In a fleet another replica may get the next turn of the session. The mark is therefore also written to the shared
// backend, before the client has the end of the answer. Only the marks of named sessions are written there.

// maxMarks is the largest number of marks. The oldest mark is deleted first.
const maxMarks = 100_000

// optOutKeeper is the part of a shared backend that stores marks for a limited time. If a session gets two marks, the
// mark with more items is stored.
type optOutKeeper interface {
	KeepOptOuts(ctx context.Context, marks map[session.ID]session.OptOutMark) error
}

// optOutMarks holds the marks of opted-out sessions. The goroutine of the shipper writes the marks to the outbox and to
// the shared backend. A request that begins a session looks for the mark of the session.
type optOutMarks struct {
	outbox *outbox.Outbox // nil means no marks
	secret []byte
	fleet  optOutKeeper // nil means this process owns the backend

	mu          sync.Mutex                        // guards the fields below
	byName      map[uint64]outbox.Mark            // the marks by their names, see markName
	order       []uint64                          // the names, oldest first
	unsaved     []outbox.Mark                     // marks that are not in the outbox yet
	unannounced map[session.ID]session.OptOutMark // marks that are not in the shared backend yet
}

// openMarks reads the marks of an outbox.
func openMarks(box *outbox.Outbox, secret []byte, fleet optOutKeeper) (*optOutMarks, error) {
	h := &optOutMarks{byName: map[uint64]outbox.Mark{}, secret: secret, fleet: fleet, unannounced: map[session.ID]session.OptOutMark{}}
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

// markName returns the name of a session's mark, an HMAC of the id with the secret.
func (h *optOutMarks) markName(id session.ID) uint64 {
	m := hmac.New(sha256.New, h.secret)
	_, _ = m.Write(append([]byte("opted out "), id[:]...))
	return binary.LittleEndian.Uint64(m.Sum(nil))
}

// set adds or replaces a mark, and reports whether the marks changed. The caller holds mu, or is the only goroutine
// that has h.
func (h *optOutMarks) set(m outbox.Mark) (changed bool) {
	old, known := h.byName[m.Name]
	if known && old == m {
		return false
	}
	if !known {
		h.order = append(h.order, m.Name)
		if len(h.order) > maxMarks {
			delete(h.byName, h.order[0])
			h.order = h.order[1:]
		}
	}
	h.byName[m.Name] = m
	return true
}

// add marks a session, and reports whether the mark is or will be in the outbox.
func (h *optOutMarks) add(id session.ID, turns, items int) bool {
	if h.outbox == nil {
		return false
	}
	m := outbox.Mark{Name: h.markName(id), Turns: uint32(turns), Items: uint32(items)} // both are bounded by the items of a body
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.set(m) {
		h.unsaved = append(h.unsaved, m)
	}
	return true
}

// apply hides the opted-out turns in the record of a new session, if the session has a mark.
func (h *optOutMarks) apply(rec *session.Record) {
	if h.outbox == nil {
		return
	}
	name := h.markName(rec.Identity.ID)
	h.mu.Lock()
	v, ok := h.byName[name]
	h.mu.Unlock()
	if !ok {
		return
	}
	rec.Hide(session.OptOutMark{Turns: int(v.Turns), Items: int(v.Items)})
	rec.OptOut.ByRequest = true
}

// save writes new marks to the outbox.
func (h *optOutMarks) save() error {
	h.mu.Lock()
	marks := h.unsaved
	h.unsaved = nil
	h.mu.Unlock()
	if len(marks) == 0 {
		return nil
	}
	err := h.outbox.KeepMarks(marks, maxMarks)
	if err != nil {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.unsaved = append(marks, h.unsaved...)
		h.unsaved = h.unsaved[:min(len(h.unsaved), maxMarks)]
	}
	return err
}

// announceLater queues the mark of a session for the shared backend.
func (h *optOutMarks) announceLater(id session.ID, m session.OptOutMark) {
	if h.fleet == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if old, ok := h.unannounced[id]; len(h.unannounced) < maxMarks && (!ok || old.Items < m.Items) {
		h.unannounced[id] = m
	}
}

// announce writes the queued marks to the shared backend. After a failure the marks are queued again.
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
