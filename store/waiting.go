package store

import (
	"slices"
	"sync"
	"time"

	"precept/internal/session"
)

// maxEchoes bounds how many keys wait in each list while the backend takes none. A key that finds
// its list full is not written: only this process knows it, as long as it has it in memory.
const maxEchoes = 200_000

// laterEvery is how often rows are written in which nothing but counts and times has changed.
const laterEvery = time.Second

// waiting is what requests leave for the recorder besides their exchanges: which records changed,
// and the keys that went by (ids and hashes by which a session is found again).
type waiting struct {
	mu      sync.Mutex
	dirty   []*Session     // whose rows go with the next flush
	later   []*Session     // whose rows go when laterEvery is over
	laterAt time.Time      // when those were last taken
	echoes  []session.Echo // which go with the next flush
	moving  moving         // which a flush took, and the backend does not have yet
	// held are keys by the request in which they went by, until it is judged whether anything of
	// its exchange may be kept.
	held    map[string][]session.Echo
	holding int // how many keys are in held
}

// Change says what a turn did to a session's record.
type Change uint8

// The changes.
const (
	Unchanged Change = iota
	Counted          // counts or times changed: a crash may lose the last second of that
	Decided          // a coin was flipped or a text inserted: the next batch must have it
)

// Release ends the hold on a session, and says what has changed in it meanwhile.
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

// again lets a session's row be made once more.
func (w *waiting) again(ses *Session) {
	ses.pins.Add(1)
	w.Release(ses, Decided)
}

// Note takes keys that went by. Feedback that names one finds its session at once; after a restart,
// and at another replica, it does when they are delivered.
func (w *waiting) Note(echoes ...session.Echo) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.echoes) < maxEchoes {
		w.echoes = append(w.echoes, echoes...)
	}
}

// Hold takes keys that went by in a request whose exchange is not judged yet. Feedback finds them
// at once; they are written when LetGo says so.
func (w *waiting) Hold(request string, echoes ...session.Echo) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.holding+len(echoes) > maxEchoes {
		return
	}
	w.holding += len(echoes)
	w.held[request] = append(w.held[request], echoes...)
}

// LetGo ends what Hold began: the request's keys are written (keep), or dropped.
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

// heldOf are the keys that are held for a request.
func (w *waiting) heldOf(request string) []session.Echo {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]session.Echo(nil), w.held[request]...)
}

// drain takes what a flush is to write: sessions in which something was decided, all keys and, when
// laterEvery is over or all is asked for, the other sessions that changed. The keys are found
// meanwhile in moving, until the backend has delivered them.
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

// find finds the session of a key that the backend does not have yet.
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

// forget drops the keys that of names, wherever they wait.
func (w *waiting) forget(of func(session.Echo) bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.echoes = slices.DeleteFunc(w.echoes, of)
	w.moving.forget(of)
	w.forgetHeld(of)
}

// expire drops keys that are held since before a time: of their requests nobody will say any more
// how they were judged.
func (w *waiting) expire(before time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.forgetHeld(func(e session.Echo) bool { return e.At.Before(before) })
}

// forgetHeld drops the held keys that of names. The caller has mu.
func (w *waiting) forgetHeld(of func(session.Echo) bool) {
	for request, echoes := range w.held {
		left := slices.DeleteFunc(echoes, of)
		w.holding -= len(echoes) - len(left)
		if w.held[request] = left; len(left) == 0 {
			delete(w.held, request)
		}
	}
}

// moving are the keys that a flush has taken and the backend does not have yet. Feedback that names
// one of them would otherwise find it in neither place.
type moving struct {
	flushes []movingFlush
	n       int // keys
}

type movingFlush struct {
	flush  int64
	echoes []session.Echo
}

// add takes in the keys of a flush, and drops those of flushes that are delivered.
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
