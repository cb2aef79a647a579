package store

import (
	"slices"
	"sync"
	"time"

	"precept/session"
)

// maxEchoes bounds what waits for a store that does not write; what is beyond it is recognised by
// this process alone.
const maxEchoes = 200_000

// laterEvery is how often the rows of sessions are written of which only turns and times changed.
const laterEvery = time.Second

// waiting is what requests leave of sessions until the recorder takes it: which records changed,
// and the keys that went by.
type waiting struct {
	mu      sync.Mutex
	dirty   []*Session
	later   []*Session
	laterAt time.Time
	echoes  []session.Echo
	moving  moving
	held    map[string][]session.Echo // by request, until its exchange is judged
	holding int                       // how many there are
}

// Change says what a turn did to a session's record.
type Change uint8

// The changes.
const (
	Unchanged Change = iota
	Counted          // turns, times: a crash may take back the last second of it
	Decided          // coins were flipped or text was inserted: to be written with the next batch
)

// Release gives a session back after its turn.
func (w *waiting) Release(ses *Session, c Change) {
	w.mu.Lock()
	if ses.gone.Load() {
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

// again asks for a session's row anew.
func (w *waiting) again(ses *Session) {
	ses.pins.Add(1)
	w.Release(ses, Decided)
}

// Note keeps what went by, to be found again by feedback at once, and after a restart or by another
// replica.
func (w *waiting) Note(echoes ...session.Echo) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.echoes) < maxEchoes {
		w.echoes = append(w.echoes, echoes...)
	}
}

// Hold keeps keys that went by in a request until its exchange is judged; they are found in memory
// at once.
func (w *waiting) Hold(request string, echoes ...session.Echo) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.holding+len(echoes) > maxEchoes {
		return
	}
	w.holding += len(echoes)
	w.held[request] = append(w.held[request], echoes...)
}

// LetGo ends the holding of a request's keys: they are written, or dropped.
func (w *waiting) LetGo(request string, keep bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	echoes := w.held[request]
	delete(w.held, request)
	w.holding -= len(echoes)
	if keep && len(w.echoes) < maxEchoes {
		w.echoes = append(w.echoes, echoes...)
	}
}

// heldOf are the keys of a request that wait for its exchange to be judged.
func (w *waiting) heldOf(request string) []session.Echo {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]session.Echo(nil), w.held[request]...)
}

// drain takes what is to be written: sessions in which something was decided at once, the
// others every second.
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

// find finds a key among what went by and the backend does not have yet.
func (w *waiting) find(key session.EchoKey) (session.ID, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, echoes := range w.held {
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

func latest(echoes []session.Echo, key session.EchoKey) (session.ID, bool) {
	for _, e := range slices.Backward(echoes) {
		if e.Key == key {
			return e.ID, true
		}
	}
	return session.ID{}, false
}

// forget lets go of keys, and of what is held for a request that nobody asked for.
func (w *waiting) forget(of func(session.Echo) bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.echoes = slices.DeleteFunc(w.echoes, of)
	w.moving.forget(of)
	w.forgetHeld(of)
}

// expire lets go of what is held for requests that began before a time.
func (w *waiting) expire(before time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.forgetHeld(func(e session.Echo) bool { return e.At.Before(before) })
}

// forgetHeld lets go of held keys. The caller has mu.
func (w *waiting) forgetHeld(of func(session.Echo) bool) {
	for request, echoes := range w.held {
		left := slices.DeleteFunc(echoes, of)
		w.holding -= len(echoes) - len(left)
		if w.held[request] = left; len(left) == 0 {
			delete(w.held, request)
		}
	}
}

// moving are the keys on their way to the backend, by the flush that took them: an early feedback
// looks for them while they are in neither place.
type moving struct {
	flushes []movingFlush
	n       int // keys
}

type movingFlush struct {
	flush  int64
	echoes []session.Echo
}

// add takes in what a flush took, and lets go of what is delivered.
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

// forget lets go of some keys.
func (m *moving) forget(of func(session.Echo) bool) {
	for i := range m.flushes {
		f := &m.flushes[i]
		m.n -= len(f.echoes)
		f.echoes = slices.DeleteFunc(f.echoes, of)
		m.n += len(f.echoes)
	}
}
