package store

import (
	"slices"
	"sync"
	"time"

	"precept/internal/session"
)

// maxEchoes bounds the keys in each list while the backend takes no keys. A key beyond the bound is
// not written: only the memory of this process has the key.
const maxEchoes = 200_000

// laterEvery is the pause between two writes of rows with changed counts and times only.
const laterEvery = time.Second

// waiting holds the changed sessions and the echo keys (ids and hashes that identify a session) of
// requests for the recorder.
type waiting struct {
	mu      sync.Mutex
	dirty   []*Session     // sessions with a row in the next flush
	later   []*Session     // sessions with a row after laterEvery
	laterAt time.Time      // last time the sessions in later were taken
	echoes  []session.Echo // which go with the next flush
	moving  moving         // which a flush took, and the backend does not have yet
	// heldByRequest holds keys, until the exchange of the request is judged.
	heldByRequest map[string][]session.Echo
	heldCount     int // number of keys in heldByRequest
}

// Change is the effect of a turn on the record of a session.
type Change uint8

// The changes.
const (
	Unchanged Change = iota
	Counted          // counts or times changed: a crash may lose the changes of the last second
	Decided          // a coin was flipped or a text inserted: the next batch must have the row
)

// Release ends the pin of a session, and queues a changed session.
func (w *waiting) Release(ses *Session, c Change) {
	w.mu.Lock()
	if ses.forgotten.Load() {
		c = Unchanged
	}
	if c == Decided && ses.dirty.CompareAndSwap(false, true) {
		w.dirty = append(w.dirty, ses)
	} else if c == Counted && !ses.dirty.Load() && ses.later.CompareAndSwap(false, true) {
		w.later = append(w.later, ses)
	}
	w.mu.Unlock()
	ses.pins.Add(-1)
}

// requeue lets a session's row be made once more.
func (w *waiting) requeue(ses *Session) {
	ses.pins.Add(1)
	w.Release(ses, Decided)
}

// Note adds keys. Feedback finds the sessions of the keys at once; after a restart, and at another
// replica, after the delivery.
func (w *waiting) Note(echoes ...session.Echo) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.echoes) < maxEchoes {
		w.echoes = append(w.echoes, echoes...)
	}
}

// HoldKeys adds keys of a request whose exchange is not judged yet. Feedback finds the sessions of the
// keys at once; ReleaseKeys decides whether the keys are written.
func (w *waiting) HoldKeys(request string, echoes ...session.Echo) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.heldCount+len(echoes) > maxEchoes {
		return
	}
	w.heldCount += len(echoes)
	w.heldByRequest[request] = append(w.heldByRequest[request], echoes...)
}

// ReleaseKeys ends HoldKeys: the keys of the request are written if keep is true, else dropped.
func (w *waiting) ReleaseKeys(request string, keep bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	echoes := w.heldByRequest[request]
	delete(w.heldByRequest, request)
	w.heldCount -= len(echoes)
	if keep && len(w.echoes) < maxEchoes {
		w.echoes = append(w.echoes, echoes...)
	}
}

// heldKeys returns the held keys of a request.
func (w *waiting) heldKeys(request string) []session.Echo {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]session.Echo(nil), w.heldByRequest[request]...)
}

// drain returns the changes for a flush: sessions with decisions, all keys, and after laterEvery or
// with all, the other changed sessions. moving keeps the keys until their delivery.
func (w *waiting) drain(now time.Time, all bool, flush, delivered int64) ([]*Session, []session.Echo) {
	w.mu.Lock()
	defer w.mu.Unlock()
	dirty, echoes := w.dirty, w.echoes
	w.dirty, w.echoes = nil, nil
	w.moving.add(flush, echoes, delivered)
	if all || now.Sub(w.laterAt) >= laterEvery {
		for _, ses := range w.later {
			if ses.later.Swap(false) && ses.dirty.CompareAndSwap(false, true) {
				dirty = append(dirty, ses)
			}
		}
		w.later, w.laterAt = nil, now
	}
	return dirty, echoes
}

// find returns the session of an undelivered key.
func (w *waiting) find(key session.EchoKey) (session.ID, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, echoes := range w.heldByRequest {
		if id, ok := latest(echoes, key); ok {
			return id, true
		}
	}
	if id, ok := latest(w.echoes, key); ok {
		return id, true
	}
	for _, f := range slices.Backward(w.moving.flushes) {
		if id, ok := latest(f.echoes, key); ok {
			return id, true
		}
	}
	return session.ID{}, false
}

// findAll returns the sessions of an undelivered key, newest first.
func (w *waiting) findAll(key session.EchoKey) (ids []session.ID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var found []session.Echo
	add := func(echoes []session.Echo) {
		for i := range echoes {
			if echoes[i].Key == key {
				found = append(found, echoes[i])
			}
		}
	}
	for _, echoes := range w.heldByRequest {
		add(echoes)
	}
	add(w.echoes)
	for _, f := range w.moving.flushes {
		add(f.echoes)
	}
	slices.SortStableFunc(found, func(a, b session.Echo) int { return b.At.Compare(a.At) })
	for i := range found {
		if !slices.Contains(ids, found[i].ID) {
			ids = append(ids, found[i].ID)
		}
	}
	return ids
}

func latest(echoes []session.Echo, key session.EchoKey) (session.ID, bool) {
	for _, e := range slices.Backward(echoes) {
		if e.Key == key {
			return e.ID, true
		}
	}
	return session.ID{}, false
}

// forget drops the keys that of selects.
func (w *waiting) forget(of func(session.Echo) bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.echoes = slices.DeleteFunc(w.echoes, of)
	w.moving.forget(of)
	w.forgetHeld(of)
}

// expire drops the held keys from before a time: their requests are lost.
func (w *waiting) expire(before time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.forgetHeld(func(e session.Echo) bool { return e.At.Before(before) })
}

// forgetHeld drops the held keys that of selects. The caller holds mu.
func (w *waiting) forgetHeld(of func(session.Echo) bool) {
	for request, echoes := range w.heldByRequest {
		left := slices.DeleteFunc(echoes, of)
		w.heldCount -= len(echoes) - len(left)
		if w.heldByRequest[request] = left; len(left) == 0 {
			delete(w.heldByRequest, request)
		}
	}
}

// moving holds the keys of flushes without delivery. Feedback could not find the sessions of the
// keys otherwise.
type moving struct {
	flushes []movingFlush
	n       int // keys
}

type movingFlush struct {
	flush  int64
	echoes []session.Echo
}

// add stores the keys of a flush, and drops the keys of delivered flushes.
func (m *moving) add(flush int64, echoes []session.Echo, delivered int64) {
	m.flushes = slices.DeleteFunc(m.flushes, func(f movingFlush) bool {
		if f.flush <= delivered {
			m.n -= len(f.echoes)
		}
		return f.flush <= delivered
	})
	if len(echoes) > 0 && m.n+len(echoes) <= maxEchoes {
		m.flushes = append(m.flushes, movingFlush{flush, echoes})
		m.n += len(echoes)
	}
}

// forget drops the keys that of names.
func (m *moving) forget(of func(session.Echo) bool) {
	for i := range m.flushes {
		f := &m.flushes[i]
		m.n -= len(f.echoes)
		f.echoes = slices.DeleteFunc(f.echoes, of)
		m.n += len(f.echoes)
	}
}
