package store

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"precept/internal/file"
	"precept/internal/session"
)

// Of a session whose turns all opted out nothing is kept, and its next turn sends all of it again.
// So that this one is known for what it is after a restart, or when the session had to leave
// memory, one mark stays: how many turns there were and how long their list was, under a name that
// nobody can find without the store's secret (docs/decisions/0014-marks-of-opt-outs.md).

// Another replica that gets the next turn of such a session, with all that was said before in it,
// would take it for the first: in a fleet the mark stands in the shared backend as well, before the
// client has the end of its answer. Only a session with a name can be found by another replica.

const (
	marksFile = "optouts"
	markSize  = 16      // bytes of a mark: its name (8), turns (4), items (4)
	mostMarks = 100_000 // marks; the oldest is let go
)

// optOutMark is what a mark tells.
type optOutMark struct{ turns, items uint32 }

// optOutKeeper is where a fleet keeps the marks, for a time; of two of one session the one of more
// items.
type optOutKeeper interface {
	KeepOptOuts(ctx context.Context, marks map[session.ID]session.OptOutMark) error
}

// optOutMarks are the marks. They are written by the delivery, and read by requests that begin a
// session.
type optOutMarks struct {
	path   string // "": there are none
	secret []byte
	fleet  optOutKeeper // nil: the backend is this process' own

	mu    sync.Mutex
	of    map[uint64]optOutMark
	order []uint64 // the names, oldest first
	fresh []byte   // that are not in the file yet

	unannounced map[session.ID]session.OptOutMark // that the fleet does not know yet
}

// openMarks reads the marks of a directory, and writes them anew where many of them stand there
// more than once.
func openMarks(dir string, secret []byte, fleet optOutKeeper) (*optOutMarks, error) {
	h := &optOutMarks{of: map[uint64]optOutMark{}, secret: secret, fleet: fleet, unannounced: map[session.ID]session.OptOutMark{}}
	if dir == "" || len(secret) == 0 {
		return h, nil
	}
	h.path = filepath.Join(dir, marksFile)
	b, err := os.ReadFile(h.path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return h, fmt.Errorf("read the marks of opt-outs: %w", err)
	}
	for all := b; len(all) >= markSize; all = all[markSize:] {
		h.set(binary.LittleEndian.Uint64(all), optOutMark{binary.LittleEndian.Uint32(all[8:]), binary.LittleEndian.Uint32(all[12:])})
	}
	if len(b)%markSize == 0 && len(b) <= 2*markSize*len(h.of) {
		return h, nil
	}
	out := make([]byte, 0, markSize*len(h.of))
	for _, name := range h.order {
		out = appendMark(out, name, h.of[name])
	}
	if err := file.Write(h.path, 0o600, out); err != nil {
		return h, fmt.Errorf("write the marks of opt-outs: %w", err)
	}
	return h, nil
}

func appendMark(b []byte, name uint64, v optOutMark) []byte {
	b = binary.LittleEndian.AppendUint64(b, name)
	b = binary.LittleEndian.AppendUint32(b, v.turns)
	return binary.LittleEndian.AppendUint32(b, v.items)
}

// name is that of a session's mark.
func (h *optOutMarks) name(id session.ID) uint64 {
	m := hmac.New(sha256.New, h.secret)
	_, _ = m.Write(append([]byte("opted out "), id[:]...))
	return binary.LittleEndian.Uint64(m.Sum(nil))
}

// set notes a mark. The caller has mu, or is alone.
func (h *optOutMarks) set(name uint64, v optOutMark) (news bool) {
	old, known := h.of[name]
	if known && old == v {
		return false
	}
	if !known {
		h.order = append(h.order, name)
		if len(h.order) > mostMarks {
			delete(h.of, h.order[0])
			h.order = h.order[1:]
		}
	}
	h.of[name] = v
	return true
}

// add marks a session, and says whether it will be known again.
func (h *optOutMarks) add(id session.ID, turns, items int) bool {
	if h.path == "" {
		return false
	}
	name, v := h.name(id), optOutMark{uint32(turns), uint32(items)} //nolint:gosec // both are bounded by what a body holds
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.set(name, v) {
		h.fresh = appendMark(h.fresh, name, v)
	}
	return true
}

// recall makes a new record of a session one in which turns opted out, if it is marked.
func (h *optOutMarks) recall(rec *session.Record) {
	if h.path == "" {
		return
	}
	name := h.name(rec.Identity.ID)
	h.mu.Lock()
	v, ok := h.of[name]
	h.mu.Unlock()
	if !ok {
		return
	}
	rec.Hide(session.OptOutMark{Turns: int(v.turns), Items: int(v.items)})
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
	f, err := os.OpenFile(h.path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err == nil {
		_, err = f.Write(fresh)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.fresh = append(fresh, h.fresh...)
		h.fresh = h.fresh[:min(len(h.fresh), mostMarks*markSize)]
		return fmt.Errorf("write the marks of opt-outs: %w", err)
	}
	return nil
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
