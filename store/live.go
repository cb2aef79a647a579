package store

import (
	"container/list"
	"sync"
	"sync/atomic"
	"time"

	"precept/internal/label"
	"precept/internal/redact"
	"precept/internal/session"
)

const (
	defaultSessions = 20_000
	idleAfter       = 10 * time.Minute // age, since the last use, at which a session leaves memory
	keptShare       = 16               // 1/keptShare of the places is reserved for sessions that continue
	sweepStep       = 4096             // sessions that one sweep looks at
	putStep         = 16               // sessions that an addition looks at
)

// live holds the sessions in memory, never more than a limit, in the order of their last use. A
// session leaves memory when no request pins the session and the backend has its row. While the
// backend is down, the row in the outbox suffices, and blind remembers that look-ups may miss the
// session. Where no session can leave, memory is full, and put adds none. A flood of new sessions
// would otherwise take all memory, or push out sessions that nothing else knows.
type live struct {
	mu    sync.Mutex
	of    map[session.ID]*Session
	order *list.List // *Session values, most recently used first
	limit int
	// tenants has the sessions of each tenant with a session in memory, most recently used first.
	tenants     map[string]*list.List
	tenantLimit int // sessions of one tenant; 0: no limit
	// volatile reports that the backend keeps nothing: a session that leaves memory is lost. Only the
	// limit removes sessions of a volatile backend.
	volatile bool
	replica  string // name of this process among the replicas
	// blind is the newest flush with the row of a session that left memory before the backend had the
	// row. Until that flush is delivered, a session that no look-up finds may exist.
	blind atomic.Int64
}

// Session is a session in memory. All requests of a session share one Session, which stays in memory
// while a request pins it: from Acquire, Resident or Add until Release.
type Session struct {
	Record    *session.Record
	element   *list.Element // in live.order
	own       *list.Element // in the list of the tenant
	pins      atomic.Int32  // number of requests that hold the session
	used      atomic.Int64  // last use, in Unix seconds
	dirty     atomic.Bool   // the session is in waiting.dirty
	later     atomic.Bool   // the session is in waiting.later
	put       atomic.Int64  // the flush that last took the row; 0: none
	silent    atomic.Bool   // all turns opted out, and only memory knows
	forgotten atomic.Bool   // the session was forgotten: no row may be written any more
	// numbers are the numbers of placeholders; nil: no exchange was redacted yet. The recorder owns numbers.
	numbers *redact.Numbers
	// unsure reports that the session began without an answer from the backend, and that the backend
	// has not answered since.
	unsure atomic.Bool
	// unjudged reports that the row was made, or left out, before the newest turn was judged. The
	// judgement makes the row again.
	unjudged atomic.Bool
}

// Unsure reports whether the session began without an answer from the backend, which may have an
// older record of the session.
func (s *Session) Unsure() bool { return s.unsure.Load() }

func newLive(limit, tenantLimit int, volatile bool, replica string) *live {
	return &live{
		of: map[session.ID]*Session{}, order: list.New(), limit: limit, tenants: map[string]*list.List{}, tenantLimit: tenantLimit,
		volatile: volatile, replica: replica,
	}
}

// get pins a session that is in memory, which counts as a use; nil: not in memory.
func (l *live) get(id session.ID, now time.Time) *Session {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.of[id]
	if s != nil {
		l.use(s, now)
	}
	return s
}

// peek pins a session that is in memory, which does not count as a use; nil: not in memory.
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
	l.order.MoveToFront(s.element)
	l.tenants[s.Record.Identity.Tenant].MoveToFront(s.own)
}

// has reports whether a session is in memory.
func (l *live) has(id session.ID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.of[id] != nil
}

// put adds and pins a session, or pins the session that another request added before; nil: memory
// is full. fresh reports that the session is new: a new session may not use the places that are
// reserved for continued sessions.
func (l *live) put(rec *session.Record, fresh bool, now time.Time, p progress) *Session {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.of[rec.Identity.ID]
	if s == nil {
		l.thin(putStep, l.most()-1, time.Time{}, p)
		if len(l.of) >= l.limit || fresh && (len(l.of) >= l.most() || l.tenantIsFull(rec.Identity.Tenant, p)) {
			return nil
		}
		rec.Unit.Replica = l.replica // no other goroutine has the record yet
		s = &Session{Record: rec}
		s.element = l.order.PushFront(s)
		own := l.tenants[rec.Identity.Tenant]
		if own == nil {
			own = list.New()
			l.tenants[rec.Identity.Tenant] = own
		}
		s.own = own.PushFront(s)
		l.of[rec.Identity.ID] = s
	}
	l.use(s, now)
	return s
}

// room returns the reason why no session of a tenant may begin; "": a session may begin.
func (l *live) room(tenant string, p progress) label.Reason {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.tenantIsFull(tenant, p) {
		return label.ExcludedTenant
	}
	if l.thin(putStep, l.most()-1, time.Time{}, p); len(l.of) >= l.most() {
		return label.ExcludedBusy
	}
	return ""
}

// tenantIsFull reports whether a tenant has its limit of sessions, and none of putStep sessions, the least
// recently used, can leave memory. The caller holds mu.
func (l *live) tenantIsFull(tenant string, p progress) bool {
	own := l.tenants[tenant]
	if l.tenantLimit == 0 || own == nil {
		return false
	}
	e := own.Back()
	for step := putStep; e != nil && step > 0 && own.Len() >= l.tenantLimit; step-- {
		s := e.Value.(*Session) //nolint:forcetypeassert // the list holds sessions only
		if e = e.Prev(); s.pins.Load() > 0 {
			own.MoveToFront(s.own)
			continue
		}
		l.leave(s, true, p)
	}
	return own.Len() >= l.tenantLimit
}

// most returns the number of sessions in memory beyond which no session begins. The remaining places
// are for sessions that continue, and for the units of sessions.
func (l *live) most() int { return l.limit - l.limit/keptShare }

// sweep removes idle sessions, and sessions beyond the limit.
func (l *live) sweep(now time.Time, p progress) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.thin(sweepStep, l.most(), now.Add(-idleAfter), p)
}

// progress says which sessions may leave memory.
type progress struct {
	delivered int64 // newest flush that the backend has
	inOutbox  int64 // newest flush whose rows may be in the outbox alone
}

// thin looks at up to step sessions, the least recently used first, and removes sessions beyond
// most, and sessions that were not used since the time idle, unless idle is zero. A pinned session
// is in use, and moves to the front: otherwise long streams would hide the sessions that can leave.
// The caller holds mu.
func (l *live) thin(step, most int, idle time.Time, p progress) {
	if l.volatile {
		idle = time.Time{}
	}
	for e := l.order.Back(); e != nil && step > 0; step-- {
		s := e.Value.(*Session) //nolint:forcetypeassert // the list holds sessions only
		e = e.Prev()
		many := len(l.of) > most
		if !many && (idle.IsZero() || s.used.Load() > idle.Unix()) {
			return
		}
		if s.pins.Load() == 0 {
			l.leave(s, many, p)
		} else if many {
			l.order.MoveToFront(s.element)
		}
	}
}

// leave removes a session that no request pins, if its row is stored. many reports that memory has no room.
// The caller holds mu.
func (l *live) leave(s *Session, many bool, p progress) {
	switch at := s.put.Load(); {
	case s.dirty.Load() || s.later.Load() || s.silent.Load() && !many:
	case at <= p.delivered:
		l.drop(s)
	case many && at <= p.inOutbox:
		l.blind.Store(max(l.blind.Load(), at))
		l.drop(s)
	}
}

// drop removes a session. The caller holds mu.
func (l *live) drop(s *Session) {
	delete(l.of, s.Record.Identity.ID)
	l.order.Remove(s.element)
	tenant := s.Record.Identity.Tenant
	own := l.tenants[tenant]
	if own.Remove(s.own); own.Len() == 0 {
		delete(l.tenants, tenant)
	}
}

// forget removes a session from memory, and reports whether the session was there. A request that
// pins the session continues with its copy, which is not written any more.
func (l *live) forget(tenant string, id session.ID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.of[id]
	if s == nil || s.Record.Identity.Tenant != tenant {
		return false
	}
	s.forgotten.Store(true)
	l.drop(s)
	return true
}

// forgetTenant removes the sessions of a tenant from memory, and returns their number.
func (l *live) forgetTenant(tenant string) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for own := l.tenants[tenant]; own != nil && own.Len() > 0; n++ {
		s := own.Front().Value.(*Session) //nolint:forcetypeassert // the list holds sessions only
		s.forgotten.Store(true)
		l.drop(s)
	}
	return n
}

// count returns the number of sessions in memory.
func (l *live) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.of)
}
