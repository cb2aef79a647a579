package store

import (
	"slices"
	"sync"
	"time"

	"precept/internal/session"
)

// maxEchoes limits the echo keys held while the backend is unavailable (see changeQueue). Feedback finds no session by
// a key beyond the limit until the backend has the key.
const maxEchoes = 200_000

// delayedPause is the pause between two writes of rows in which only counts or times changed.
const delayedPause = time.Second

// changeQueue holds changed sessions and new echo keys for the recorder. An echo key is a hash of an id or text by
// which feedback finds a session; a flush is one run of the recorder. Keys stay in undelivered until the backend has
// them, so feedback always finds the session.
type changeQueue struct {
	mu           sync.Mutex
	dirty        []*Session      // rows for the next flush
	delayed      []*Session      // rows for the first flush after delayedPause
	delayedTaken time.Time       // when delayed was last drained
	echoes       []session.Echo  // keys for the next flush
	undelivered  undeliveredKeys // keys that the backend does not have yet
	// heldByRequest holds a request's keys until the recorder has decided whether the exchange opted out.
	heldByRequest map[string][]session.Echo
	heldCount     int
}

// Change is a turn's effect on a session record.
type Change uint8

// The effects of a turn on a session record.
const (
	Unchanged        Change = iota
	CountsChanged           // a crash can lose the last second's counts and times
	DecisionsChanged        // a random decision or an inserted block; the next flush must contain it
)

// Release ends the pin that keeps a session in memory, and queues the session's row as the change requires.
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

// requeueRow queues the row for a session that changed outside a request. The session must be in memory, but the caller
// needs no pin.
func (q *changeQueue) requeueRow(ses *Session) {
	ses.pins.Add(1)
	q.Release(ses, DecisionsChanged)
}

// AddEchoes adds keys. This process finds the sessions by the keys immediately. Other replicas find them after the
// delivery.
func (q *changeQueue) AddEchoes(echoes ...session.Echo) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.echoes) < maxEchoes {
		q.echoes = append(q.echoes, echoes...)
	}
}

// HoldKeys holds a request's keys until ReleaseKeys decides whether they are written. Feedback finds the sessions
// immediately.
func (q *changeQueue) HoldKeys(request string, echoes ...session.Echo) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.heldCount+len(echoes) > maxEchoes {
		return
	}
	q.heldCount += len(echoes)
	q.heldByRequest[request] = append(q.heldByRequest[request], echoes...)
}

// ReleaseKeys queues a request's held keys for the next flush if keep is true, and drops them otherwise.
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

func (q *changeQueue) heldKeys(request string) []session.Echo {
	q.mu.Lock()
	defer q.mu.Unlock()
	return append([]session.Echo(nil), q.heldByRequest[request]...)
}

// drain removes and returns the changes for a flush. The delayed sessions are included if delayedPause has passed, or
// if all is set. Keys stay in undelivered. flush is the new flush's number, and delivered the number of the newest
// flush in the backend.
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

// find returns the session for an undelivered key. It prefers held keys, then the newest key.
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

func newestSession(echoes []session.Echo, key session.EchoKey) (session.ID, bool) {
	for _, e := range slices.Backward(echoes) {
		if e.Key == key {
			return e.ID, true
		}
	}
	return session.ID{}, false
}

func (q *changeQueue) forget(match func(session.Echo) bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.echoes = slices.DeleteFunc(q.echoes, match)
	q.undelivered.forget(match)
	q.forgetHeld(match)
}

func (q *changeQueue) dropHeldBefore(before time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.forgetHeld(func(e session.Echo) bool { return e.At.Before(before) })
}

// forgetHeld drops held keys. The caller holds mu.
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

type undeliveredKeys struct {
	flushes []flushKeys
	count   int
}

type flushKeys struct {
	flush  int64
	echoes []session.Echo
}

// add forgets the keys from flushes up to the flush number delivered. It then adds one flush's keys, unless there would
// be more than maxEchoes keys.
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

func (u *undeliveredKeys) forget(match func(session.Echo) bool) {
	for i := range u.flushes {
		f := &u.flushes[i]
		u.count -= len(f.echoes)
		f.echoes = slices.DeleteFunc(f.echoes, match)
		u.count += len(f.echoes)
	}
}
