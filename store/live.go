package store

import (
	"container/list"
	"sync"
	"sync/atomic"
	"time"

	"precept/internal/session"
)

const (
	// defaultSessions is how many sessions are kept in memory.
	defaultSessions = 20_000
	idleAfter       = 10 * time.Minute
	// overFull times the limit may be in memory while the backend takes nothing: a session that it
	// does not have yet stays.
	overFull  = 2
	sweepStep = 4096 // how many sessions one sweep looks at
	putStep   = 16   // how many are looked at when one is added
)

// live holds the sessions in memory, up to a limit, in the order of their last use. A session may
// be dropped when no request holds it and the backend has its row: its next request reads it from
// there. While the backend takes nothing, memory may hold overFull times as many. Beyond that the
// least recently used are dropped although the backend does not have them, and blind remembers that
// the next request of such a session will not find it.
type live struct {
	mu    sync.Mutex
	of    map[session.ID]*Session
	order *list.List // of *Session, the latest used first
	limit int
	// volatile says that the backend keeps nothing. What is dropped is lost then, so that being
	// idle is no reason to drop it; only the limit is.
	volatile bool
	// blind is the newest flush of a row whose session was dropped before the backend had it. Until
	// that flush is delivered, a session that nobody finds may exist all the same.
	blind atomic.Int64
}

// Session is a record in memory, with what the store has to know of it. Whoever got it from the
// store holds it until Release: as long as somebody does, it is not dropped, and all requests of
// the session share this one copy.
type Session struct {
	*session.Record
	at    *list.Element
	pins  atomic.Int32 // how many hold it
	used  atomic.Int64 // when it was last used, in Unix seconds
	dirty atomic.Bool  // it is in waiting.dirty
	later atomic.Bool  // it is in waiting.later
	put   atomic.Int64 // the flush that last took its row; 0: none did
	mute  atomic.Bool  // all of it opted out, and nothing that is written says so: memory alone knows
	gone  atomic.Bool  // it was forgotten: nothing of it may be written any more
	// unsure says that it was made while the backend could not be asked, and that the backend has
	// not said since whether it has the session.
	unsure atomic.Bool
	// veiled says that its row was made, or left out, before it was known whether its newest turn
	// may be kept. The row is made again then.
	veiled atomic.Bool
}

func newLive(limit int, volatile bool) *live {
	return &live{of: map[session.ID]*Session{}, order: list.New(), limit: limit, volatile: volatile}
}

// get pins a session that is in memory, and counts that as a use.
func (l *live) get(id session.ID, now time.Time) *Session {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.of[id]
	if s != nil {
		l.use(s, now)
	}
	return s
}

// peek pins a session that is in memory, without counting that as a use.
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

// put adds a record and pins it. When another request has added one of that session before, its
// record is pinned and returned instead. delivered is the flush up to which the backend has
// everything.
func (l *live) put(rec *session.Record, now time.Time, delivered int64) *Session {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.of[rec.Identity.ID]
	if s == nil {
		s = &Session{Record: rec}
		s.at = l.order.PushFront(s)
		l.of[rec.Identity.ID] = s
	}
	l.use(s, now)
	l.thin(putStep, time.Time{}, delivered)
	return s
}

// sweep drops sessions that are idle, and those beyond the limit.
func (l *live) sweep(now time.Time, delivered int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.thin(sweepStep, now.Add(-idleAfter), delivered)
}

// thin looks at up to step sessions, the least recently used first, and drops those that may be
// dropped: beyond the limit, or not used since the time idle, where that is not zero. The caller
// has mu.
func (l *live) thin(step int, idle time.Time, delivered int64) {
	if l.volatile {
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
	delete(l.of, s.Identity.ID)
	l.order.Remove(s.at)
}

// forget takes a session out of memory, and says whether it was there. A request that holds it goes
// on with its copy, of which nothing is written any more.
func (l *live) forget(tenant string, id session.ID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.of[id]
	if s == nil || s.Identity.Tenant != tenant {
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
		if s.Identity.Tenant == tenant {
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
