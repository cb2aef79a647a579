package store

import (
	"slices"
	"sync"
	"time"

	"precept/internal/session"
)

// maxEchoes is the maximum number of keys in each list of echo keys. The lists grow while the backend is unavailable.
// A key beyond the maximum is dropped, and feedback with this key does not find its session.
const maxEchoes = 200_000

// delayedPause is the pause between two writes of rows in which only counts or times changed.
const delayedPause = time.Second

// changeQueue holds the changed sessions and the new echo keys of requests until the recorder takes both. An echo key
// is the hash of an id or a text, by which feedback finds a session. changeQueue also keeps the keys that the recorder
// has taken and the backend does not have yet, so that feedback finds a session at every moment.
type changeQueue struct {
	mu           sync.Mutex
	dirty        []*Session      // sessions with a row in the next flush
	delayed      []*Session      // sessions with a row in the first flush after delayedPause
	delayedTaken time.Time       // time at which drain last took the sessions in delayed
	echoes       []session.Echo  // keys for the next flush
	undelivered  undeliveredKeys // keys of earlier flushes that the backend does not have yet
	// heldByRequest holds, by request id, the keys of requests until the recorder has judged whether the exchange opted
	// out.
	heldByRequest map[string][]session.Echo
	heldCount     int // number of keys in heldByRequest
}

// Change is the effect of a turn on the record of a session.
type Change uint8

// The effects of a turn on the record of a session.
const (
	Unchanged        Change = iota
	CountsChanged           // counts or times changed: a crash may lose the changes of the last second
	DecisionsChanged        // a lesson was assigned at random, or a block inserted: the next flush must contain the row
)

// Release ends the pin of a session, and queues the row of the session as its change requires.
func (q *changeQueue) Release(ses *Session, c Change) {
	q.mu.Lock()
	if ses.forgotten.Load() {
		c = Unchanged
	}
	if c == DecisionsChanged && ses.dirty.CompareAndSwap(false, true) {
		q.dirty = append(q.dirty, ses)
	} else if c == CountsChanged && !ses.dirty.Load() && ses.delayed.CompareAndSwap(false, true) {
		q.delayed = append(q.delayed, ses)
	}
	q.mu.Unlock()
	ses.pins.Add(-1)
}

// requeueRow queues a session, so that the next flush writes its row again. Call requeueRow after a
// change of the record outside of a request. The session must be in memory; the caller needs no pin.
func (q *changeQueue) requeueRow(ses *Session) {
	ses.pins.Add(1)
	q.Release(ses, DecisionsChanged)
}

// AddEchoes adds keys. Feedback finds the sessions of the keys at once in this process, and after the
// delivery in other replicas and after a restart.
func (q *changeQueue) AddEchoes(echoes ...session.Echo) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.echoes) < maxEchoes {
		q.echoes = append(q.echoes, echoes...)
	}
}

// HoldKeys holds the keys of a request until the recorder has decided whether the exchange opted out. Feedback finds
// the sessions of the keys at once. ReleaseKeys decides whether the keys are written.
func (q *changeQueue) HoldKeys(request string, echoes ...session.Echo) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.heldCount+len(echoes) > maxEchoes {
		return
	}
	q.heldCount += len(echoes)
	q.heldByRequest[request] = append(q.heldByRequest[request], echoes...)
}

// ReleaseKeys queues the held keys of a request for the next flush if keep is true, and drops the keys otherwise.
func (q *changeQueue) ReleaseKeys(request string, keep bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	echoes := q.heldByRequest[request]
	delete(q.heldByRequest, request)
	q.heldCount -= len(echoes)
	if keep && len(q.echoes) < maxEchoes {
		q.echoes = append(q.echoes, echoes...)
	}
}

// heldKeys returns the held keys of a request.
func (q *changeQueue) heldKeys(request string) []session.Echo {
	q.mu.Lock()
	defer q.mu.Unlock()
	return append([]session.Echo(nil), q.heldByRequest[request]...)
}

// drain removes and returns the changes for a flush: the sessions in dirty, all keys, and the delayed
// sessions if delayedPause has passed or all is true. The keys stay in undelivered until their
// delivery. delivered is the newest flush that the backend has.
func (q *changeQueue) drain(now time.Time, all bool, flush, delivered int64) ([]*Session, []session.Echo) {
	q.mu.Lock()
	defer q.mu.Unlock()
	dirty, echoes := q.dirty, q.echoes
	q.dirty, q.echoes = nil, nil
	q.undelivered.add(flush, echoes, delivered)
	if all || now.Sub(q.delayedTaken) >= delayedPause {
		for _, ses := range q.delayed {
			if ses.delayed.Swap(false) && ses.dirty.CompareAndSwap(false, true) {
				dirty = append(dirty, ses)
			}
		}
		q.delayed, q.delayedTaken = nil, now
	}
	return dirty, echoes
}

// find returns the session of an undelivered key. If several sessions have the key, find prefers a held key, then the
// last added key.
func (q *changeQueue) find(key session.EchoKey) (session.ID, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, echoes := range q.heldByRequest {
		if id, ok := newestSession(echoes, key); ok {
			return id, true
		}
	}
	if id, ok := newestSession(q.echoes, key); ok {
		return id, true
	}
	for _, f := range slices.Backward(q.undelivered.flushes) {
		if id, ok := newestSession(f.echoes, key); ok {
			return id, true
		}
	}
	return session.ID{}, false
}

// findAll returns the sessions of an undelivered key, newest first.
func (q *changeQueue) findAll(key session.EchoKey) (ids []session.ID) {
	q.mu.Lock()
	defer q.mu.Unlock()
	var found []session.Echo
	add := func(echoes []session.Echo) {
		for i := range echoes {
			if echoes[i].Key == key {
				found = append(found, echoes[i])
			}
		}
	}
	for _, echoes := range q.heldByRequest {
		add(echoes)
	}
	add(q.echoes)
	for _, f := range q.undelivered.flushes {
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

// newestSession returns the session of the last echo with a key.
func newestSession(echoes []session.Echo, key session.EchoKey) (session.ID, bool) {
	for _, e := range slices.Backward(echoes) {
		if e.Key == key {
			return e.ID, true
		}
	}
	return session.ID{}, false
}

// forget drops the selected keys.
func (q *changeQueue) forget(match func(session.Echo) bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.echoes = slices.DeleteFunc(q.echoes, match)
	q.undelivered.forget(match)
	q.forgetHeld(match)
}

// dropHeldBefore drops the held keys that are older than a time. The request of such a key has ended
// without ReleaseKeys.
func (q *changeQueue) dropHeldBefore(before time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.forgetHeld(func(e session.Echo) bool { return e.At.Before(before) })
}

// forgetHeld drops the selected held keys. The caller holds mu.
func (q *changeQueue) forgetHeld(match func(session.Echo) bool) {
	for request, echoes := range q.heldByRequest {
		remaining := slices.DeleteFunc(echoes, match)
		q.heldCount -= len(echoes) - len(remaining)
		q.heldByRequest[request] = remaining
		if len(remaining) == 0 {
			delete(q.heldByRequest, request)
		}
	}
}

// undeliveredKeys holds the keys of flushes that the backend does not have yet. The backend cannot
// find the sessions of these keys.
type undeliveredKeys struct {
	flushes []flushKeys
	count   int // number of keys in flushes
}

// flushKeys holds the echo keys that one flush wrote to the outbox.
type flushKeys struct {
	flush  int64
	echoes []session.Echo
}

// add stores the keys of a flush, and drops the keys of delivered flushes.
func (u *undeliveredKeys) add(flush int64, echoes []session.Echo, delivered int64) {
	u.flushes = slices.DeleteFunc(u.flushes, func(f flushKeys) bool {
		if f.flush <= delivered {
			u.count -= len(f.echoes)
		}
		return f.flush <= delivered
	})
	if len(echoes) > 0 && u.count+len(echoes) <= maxEchoes {
		u.flushes = append(u.flushes, flushKeys{flush, echoes})
		u.count += len(echoes)
	}
}

// forget drops the selected keys.
func (u *undeliveredKeys) forget(match func(session.Echo) bool) {
	for i := range u.flushes {
		f := &u.flushes[i]
		u.count -= len(f.echoes)
		f.echoes = slices.DeleteFunc(f.echoes, match)
		u.count += len(f.echoes)
	}
}
