package store

import (
	"container/list"
	"sync"
	"sync/atomic"
	"time"

	"precept/session"
)

const (
	// defaultSessions is how many sessions are kept in memory.
	defaultSessions = 20_000
	idleAfter       = 10 * time.Minute
	// overFull is how much more than the limit there may be while the backend does not take what
	// would have to be let go.
	overFull  = 2
	sweepStep = 4096 // sessions looked at in one sweep
	putStep   = 16   // and when one is added
)

// live holds the sessions in use, at most so many, the one that was used longest ago last. One
// leaves it when nobody holds it and the backend has it, where it is found again when it returns.
// While the backend takes nothing there may be twice as many; then the last ones go all the same,
// and blind says that one that returns may not be found.
type live struct {
	mu    sync.Mutex
	of    map[session.ID]*Session
	order *list.List // of *Session, the latest used first
	limit int
	keeps bool         // the backend keeps nothing: what leaves is lost, and only the number counts
	blind atomic.Int64 // the flush up to which the backend must have come to find what had to go
}

// Session is a pinned record: while it is held, it stays in memory and is the only copy of its
// session.
type Session struct {
	*session.Record
	at    *list.Element
	pins  atomic.Int32
	used  atomic.Int64 // unix seconds
	dirty atomic.Bool  // in the recorder's list
	later atomic.Bool  // in the list that can wait a second
	put   atomic.Int64 // the flush that last put its row down; 0: none
	known atomic.Bool  // it came from the backend
	mute  atomic.Bool  // all of it opted out, and no row tells that: it is known here alone
	gone  atomic.Bool  // it was forgotten: nothing of it may be written any more
	// it is a stand-in, and the backend has not said yet whether it has the session
	unsure atomic.Bool
	// a row of it was made, or left out, while it was not known whether its newest turn may be kept
	veiled atomic.Bool
}

func newLive(limit int, keeps bool) *live {
	return &live{of: map[session.ID]*Session{}, order: list.New(), limit: limit, keeps: keeps}
}

// get pins a session that is in memory, as its newest user.
func (l *live) get(id session.ID, now time.Time) *Session {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.of[id]
	if s != nil {
		l.use(s, now)
	}
	return s
}

// peek pins a session that is in memory for somebody who does not use it.
func (l *live) peek(id session.ID) *Session {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.of[id]
	if s != nil {
		s.pins.Add(1)
	}
	return s
}

func (l *live) use(s *Session, now time.Time) {
	s.pins.Add(1)
	s.used.Store(now.Unix())
	l.order.MoveToFront(s.at)
}

// has says whether a session is in memory.
func (l *live) has(id session.ID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.of[id] != nil
}

// put adds a record, unless another request was first: then that one's record is returned.
// delivered is the flush up to which the backend has everything.
func (l *live) put(rec *session.Record, known bool, now time.Time, delivered int64) *Session {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.of[rec.ID]
	if s == nil {
		s = &Session{Record: rec}
		s.known.Store(known)
		s.at = l.order.PushFront(s)
		l.of[rec.ID] = s
	}
	l.use(s, now)
	l.thin(putStep, time.Time{}, delivered)
	return s
}

// sweep lets go of idle sessions, and of those that are too many.
func (l *live) sweep(now time.Time, delivered int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.thin(sweepStep, now.Add(-idleAfter), delivered)
}

// thin looks at some sessions, the one that was used longest ago first, and lets those go that may.
// The caller has mu.
func (l *live) thin(step int, idle time.Time, delivered int64) {
	if l.keeps {
		idle = time.Time{}
	}
	for e := l.order.Back(); e != nil && step > 0; step-- {
		s := e.Value.(*Session) //nolint:forcetypeassert // nothing else is in it
		e = e.Prev()
		many := len(l.of) > l.limit
		if !many && (idle.IsZero() || s.used.Load() > idle.Unix()) {
			return
		}
		if s.pins.Load() > 0 || s.dirty.Load() || s.later.Load() || s.mute.Load() && !many {
			continue
		}
		if at := s.put.Load(); at > delivered {
			if len(l.of) <= overFull*l.limit {
				continue
			}
			l.blind.Store(max(l.blind.Load(), at))
		}
		l.drop(s)
	}
}

// drop takes a session out. The caller has mu.
func (l *live) drop(s *Session) {
	delete(l.of, s.ID)
	l.order.Remove(s.at)
}

// forget takes a session out of memory, and says whether it was there. A request that holds it goes
// on with what it has.
func (l *live) forget(tenant string, id session.ID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.of[id]
	if s == nil || s.Tenant != tenant {
		return false
	}
	s.gone.Store(true)
	l.drop(s)
	return true
}

// forgetTenant takes a tenant's sessions out of memory, and says how many there were.
func (l *live) forgetTenant(tenant string) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range l.of {
		if s.Tenant == tenant {
			s.gone.Store(true)
			l.drop(s)
			n++
		}
	}
	return n
}

// count is the number of sessions in memory.
func (l *live) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.of)
}
