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

// If all turns in a session opted out, no data about the session is stored. Once the session has left memory, precept
// would take the next turn's messages for a new session and store them. An opt-out mark prevents this. It is the number
// of opted-out turns and messages, stored under an HMAC of the session id (docs/decisions/0014-opt-out-marks.md).
//
// Another replica can get a named session's next turn, so the mark is also written to the shared backend before the
// client has received the end of the response.

// maxMarks is the largest number of marks. The oldest mark is deleted first.
const maxMarks = 100_000

// markBytes is the approximate memory for a session id with a mark.
const markBytes = 64

// optOutKeeper stores marks in a shared backend for a limited time. Of two marks on a session, it keeps the one with
// more items.
type optOutKeeper interface {
	PutOptOutMarks(ctx context.Context, marks map[session.ID]session.OptOutMark) error
}

// optOutMarks holds the marks for opted-out sessions. The deliverer's goroutine writes them to the outbox and to the
// shared backend.
type optOutMarks struct {
	outbox      *outbox.Outbox
	secret      []byte
	sharedMarks optOutKeeper // nil means this process owns the backend
	direct      *directWrites

	mu          sync.Mutex                        // guards the fields below
	byName      map[uint64]outbox.Mark            // by markName
	order       []uint64                          // names, oldest first
	unsaved     []outbox.Mark                     // not in the outbox yet
	unannounced map[session.ID]session.OptOutMark // not in the shared backend yet
}

// openMarks reads the marks from the outbox. Without an outbox or a secret, no mark is kept.
func openMarks(box *outbox.Outbox, secret []byte, sharedMarks optOutKeeper) (*optOutMarks, error) {
	h := &optOutMarks{byName: map[uint64]outbox.Mark{}, secret: secret, sharedMarks: sharedMarks, unannounced: map[session.ID]session.OptOutMark{}}
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

func (o *optOutMarks) markName(id session.ID) uint64 {
	mac := hmac.New(sha256.New, o.secret)
	_, _ = mac.Write(append([]byte("opted out "), id[:]...))
	return binary.LittleEndian.Uint64(mac.Sum(nil))
}

// set adds or replaces a mark, and reports whether the marks changed. The caller holds mu, or is the only user of o.
func (o *optOutMarks) set(m outbox.Mark) (changed bool) {
	old, exists := o.byName[m.Name]
	if exists && old == m {
		return false
	}
	if !exists {
		o.order = append(o.order, m.Name)
		if len(o.order) > maxMarks {
			delete(o.byName, o.order[0])
			o.order = o.order[1:]
		}
	}
	o.byName[m.Name] = m
	return true
}

// add marks a session, and reports whether the mark is or will be in the outbox.
func (o *optOutMarks) add(id session.ID, turns, items int) bool {
	if o.outbox == nil {
		return false
	}
	m := outbox.Mark{Name: o.markName(id), Turns: uint32(turns), Items: uint32(items)} // limits.items bounds both numbers
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.set(m) {
		o.unsaved = append(o.unsaved, m)
	}
	return true
}

// apply hides the turns in a new record if the session has a mark.
func (o *optOutMarks) apply(rec *session.Record) {
	if o.outbox == nil {
		return
	}
	name := o.markName(rec.Identity.ID)
	o.mu.Lock()
	v, ok := o.byName[name]
	o.mu.Unlock()
	if !ok {
		return
	}
	rec.Hide(session.OptOutMark{Turns: int(v.Turns), Items: int(v.Items)})
	rec.OptOut.ByRequest = true
}

// save writes new marks to the outbox. After an error the next call writes them again.
func (o *optOutMarks) save() error {
	o.mu.Lock()
	marks := o.unsaved
	o.unsaved = nil
	o.mu.Unlock()
	if len(marks) == 0 {
		return nil
	}
	err := o.outbox.AddMarks(marks, maxMarks)
	if err != nil {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.unsaved = append(marks, o.unsaved...)
		o.unsaved = o.unsaved[:min(len(o.unsaved), maxMarks)]
	}
	return err
}

// announceLater adds a mark to the next announce call, which writes the marks to the shared backend.
func (o *optOutMarks) announceLater(id session.ID, m session.OptOutMark) {
	if o.sharedMarks == nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if old, ok := o.unannounced[id]; len(o.unannounced) < maxMarks && (!ok || old.Items < m.Items) {
		o.unannounced[id] = m
	}
}

func (o *optOutMarks) announce(ctx context.Context) error {
	o.mu.Lock()
	marks := o.unannounced
	if len(marks) == 0 {
		o.mu.Unlock()
		return nil
	}
	o.unannounced = map[session.ID]session.OptOutMark{}
	o.mu.Unlock()
	announceAgain := func(context.Context) {
		for id, m := range marks {
			o.announceLater(id, m)
		}
	}
	err := o.sharedMarks.PutOptOutMarks(ctx, marks)
	if err != nil {
		announceAgain(ctx)
		return err
	}
	o.direct.add("", len(marks)*markBytes, announceAgain)
	return nil
}
