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

	"precept/file"
	"precept/session"
)

// Of a session whose turns all opted out nothing is kept, and its next turn sends all of it again.
// So that this one is known for what it is after a restart, or when the session had to leave
// memory, one mark stays: how many turns there were and how long their list was, under a name that
// nobody can find without the store's secret (docs/decisions/0014-marks-of-opt-outs.md).

const (
	hushedFile = "optouts"
	hushedSize = 16      // bytes of a mark: its name (8), turns (4), items (4)
	hushedMost = 100_000 // marks; the oldest is let go
)

// hush is what a mark tells.
type hush struct{ turns, items uint32 }

// hushed are the marks. They are written by the delivery, and read by requests that begin a
// session.
type hushed struct {
	path   string // "": there are none
	secret []byte

	mu    sync.Mutex
	of    map[uint64]hush
	order []uint64 // the names, oldest first
	fresh []byte   // that are not in the file yet

	unsaid map[session.ID]session.OptOutMark // that the fleet does not know yet
}

// openHushed reads the marks of a directory, and writes them anew where many of them stand there
// more than once.
func openHushed(dir string, secret []byte) (*hushed, error) {
	h := &hushed{of: map[uint64]hush{}, secret: secret, unsaid: map[session.ID]session.OptOutMark{}}
	if dir == "" || len(secret) == 0 {
		return h, nil
	}
	h.path = filepath.Join(dir, hushedFile)
	b, err := os.ReadFile(h.path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return h, fmt.Errorf("read the marks of opt-outs: %w", err)
	}
	for all := b; len(all) >= hushedSize; all = all[hushedSize:] {
		h.set(binary.LittleEndian.Uint64(all), hush{binary.LittleEndian.Uint32(all[8:]), binary.LittleEndian.Uint32(all[12:])})
	}
	if len(b)%hushedSize == 0 && len(b) <= 2*hushedSize*len(h.of) {
		return h, nil
	}
	out := make([]byte, 0, hushedSize*len(h.of))
	for _, name := range h.order {
		out = appendHush(out, name, h.of[name])
	}
	if err := file.Write(h.path, 0o600, out); err != nil {
		return h, fmt.Errorf("write the marks of opt-outs: %w", err)
	}
	return h, nil
}

func appendHush(b []byte, name uint64, v hush) []byte {
	b = binary.LittleEndian.AppendUint64(b, name)
	b = binary.LittleEndian.AppendUint32(b, v.turns)
	return binary.LittleEndian.AppendUint32(b, v.items)
}

// name is that of a session's mark.
func (h *hushed) name(id session.ID) uint64 {
	m := hmac.New(sha256.New, h.secret)
	_, _ = m.Write(append([]byte("opted out "), id[:]...))
	return binary.LittleEndian.Uint64(m.Sum(nil))
}

// set notes a mark. The caller has mu, or is alone.
func (h *hushed) set(name uint64, v hush) (news bool) {
	old, known := h.of[name]
	if known && old == v {
		return false
	}
	if !known {
		h.order = append(h.order, name)
		if len(h.order) > hushedMost {
			delete(h.of, h.order[0])
			h.order = h.order[1:]
		}
	}
	h.of[name] = v
	return true
}

// add marks a session, and says whether it will be known again.
func (h *hushed) add(id session.ID, turns, items int) bool {
	if h.path == "" {
		return false
	}
	name, v := h.name(id), hush{uint32(turns), uint32(items)} //nolint:gosec // both are bounded by what a body holds
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.set(name, v) {
		h.fresh = appendHush(h.fresh, name, v)
	}
	return true
}

// recall makes a new record of a session one in which turns opted out, if it is marked.
func (h *hushed) recall(rec *session.Record) {
	if h.path == "" {
		return
	}
	name := h.name(rec.ID)
	h.mu.Lock()
	v, ok := h.of[name]
	h.mu.Unlock()
	if !ok {
		return
	}
	rec.Hide(session.OptOutMark{Turns: int(v.turns), Items: int(v.items)})
	rec.Asked = true
}

// keep writes down what is new.
func (h *hushed) keep() error {
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
		h.fresh = h.fresh[:min(len(h.fresh), hushedMost*hushedSize)]
		return fmt.Errorf("write the marks of opt-outs: %w", err)
	}
	return nil
}

// keepHushed writes the marks down. Where that fails they are tried again.
func (o *optouts) keepHushed(ctx context.Context) {
	if err := errors.Join(o.hushed.keep(), o.announceOptOuts(ctx)); err != nil {
		o.opts.Failed("opt out", err)
	}
}
