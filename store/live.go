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
	defaultSessions  = 20_000
	idleAfter        = 10 * time.Minute // time since its last use after which a session may leave memory
	reservedShare    = 16               // 1/reservedShare of the limit is reserved for sessions that continue
	maxSweepExamined = 4096             // maximum number of sessions that one sweep examines
	maxAddExamined   = 16               // maximum number of sessions that one addition examines
)

// liveSessions holds the sessions in memory, in the order of their last use, and never more than a limit. Without the
// limit, a flood of new sessions would fill the memory. A session leaves memory only when no request pins the session
// and the backend has its row. While the backend is down, a row in the outbox suffices. evictedFlush then records that
// a look-up may miss the session. If no session can leave, memory is full, and add returns nil.
//
// A flush is one run of the recorder, which collects rows for the outbox. Each flush has a higher number than the flush
// before.
type liveSessions struct {
	mu    sync.Mutex
	byID  map[session.ID]*Session
	order *list.List // *Session values, most recently used first
	limit int
	// tenants has the sessions of each tenant with a session in memory, most recently used first.
	tenants     map[string]*list.List
	tenantLimit int // maximum number of sessions of one tenant; 0 means no limit
	// storesNothing reports that the backend stores nothing. A session that leaves memory is then lost. Sessions
	// therefore leave memory only at the limit, and not because they are idle.
	storesNothing bool
	replica       string // name of this process among the replicas
	// evictedFlush is the newest flush with the row of a session that left memory before the backend had
	// the row. Until this flush is delivered, look-ups may miss a session that exists.
	evictedFlush atomic.Int64
}

// Session is a session in memory. All requests of a session share one Session, which stays in memory
// while a request pins it: from Acquire, AcquireInMemory or Add until Release.
type Session struct {
	Record         *session.Record
	element        *list.Element // element of live.order
	tenantElement  *list.Element // element of live.tenants
	pins           atomic.Int32  // number of requests that hold the session
	lastUse        atomic.Int64  // last use, in Unix seconds
	dirty          atomic.Bool   // the session is in changeQueue.dirty
	delayed        atomic.Bool   // the session is in changeQueue.delayed
	rowFlush       atomic.Int64  // number of the newest flush with the row of the session; 0 if none
	unmarkedOptOut atomic.Bool   // all turns opted out, and the outbox has no opt-out mark of the session
	forgotten      atomic.Bool   // the session was deleted, and its row must not be written again
	// placeholderNumbers has the numbers in the placeholders that replace redacted texts; nil means no exchange was
	// redacted yet. Only the recorder uses placeholderNumbers.
	placeholderNumbers *redact.PlaceholderNumbers
	// mayHaveOlderRecord means that the session began while the backend did not answer, so that the backend may hold
	// an older record of the session.
	mayHaveOlderRecord atomic.Bool
	// optOutUnchecked means that the row was encoded, or left out, before the opt-out rules were applied to the newest
	// turn. After their application the row is queued again.
	optOutUnchecked atomic.Bool
}

// MayHaveOlderRecord reports whether the session began while the backend did not answer, so that the backend may still
// hold an older record of the session.
func (s *Session) MayHaveOlderRecord() bool { return s.mayHaveOlderRecord.Load() }

func newLiveSessions(limit, tenantLimit int, storesNothing bool, replica string) *liveSessions {
	return &liveSessions{
		byID: map[session.ID]*Session{}, order: list.New(), limit: limit, tenants: map[string]*list.List{}, tenantLimit: tenantLimit,
		storesNothing: storesNothing, replica: replica,
	}
}

// get returns and pins a session, and marks the session as the most recently used; nil means not in memory.
func (l *liveSessions) get(id session.ID, now time.Time) *Session {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.byID[id]
	if s != nil {
		l.use(s, now)
	}
	return s
}

// peek is like get, but does not change the order of use.
func (l *liveSessions) peek(id session.ID) *Session {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.byID[id]
	if s != nil {
		s.pins.Add(1)
	}
	return s
}

// use pins a session, and marks the session as the most recently used. The caller holds mu.
func (l *liveSessions) use(s *Session, now time.Time) {
	s.pins.Add(1)
	s.lastUse.Store(now.Unix())
	l.order.MoveToFront(s.element)
	l.tenants[s.Record.Identity.Tenant].MoveToFront(s.tenantElement)
}

// has reports whether a session is in memory.
func (l *liveSessions) has(id session.ID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.byID[id] != nil
}

// add adds and pins the session of rec. If another request has added a session with this id, add pins and returns
// that session. nil means memory is full. isNew reports that the session is new: a new session must leave the share
// free that is reserved for sessions that continue.
func (l *liveSessions) add(rec *session.Record, isNew bool, now time.Time, p progress) *Session {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.byID[rec.Identity.ID]
	if s == nil {
		l.evict(maxAddExamined, l.beginLimit()-1, time.Time{}, p)
		if len(l.byID) >= l.limit || isNew && (len(l.byID) >= l.beginLimit() || l.tenantIsFull(rec.Identity.Tenant, p)) {
			return nil
		}
		rec.Unit.Replica = l.replica // no other goroutine has the record yet
		s = &Session{Record: rec}
		s.element = l.order.PushFront(s)
		order := l.tenants[rec.Identity.Tenant]
		if order == nil {
			order = list.New()
			l.tenants[rec.Identity.Tenant] = order
		}
		s.tenantElement = order.PushFront(s)
		l.byID[rec.Identity.ID] = s
	}
	l.use(s, now)
	return s
}

// fullReason returns the reason why no session of a tenant may begin; "" means a session may begin.
func (l *liveSessions) fullReason(tenant string, p progress) label.Reason {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.tenantIsFull(tenant, p) {
		return label.ExcludedTenant
	}
	if l.evict(maxAddExamined, l.beginLimit()-1, time.Time{}, p); len(l.byID) >= l.beginLimit() {
		return label.ExcludedBusy
	}
	return ""
}

// tenantIsFull reports whether a tenant has reached its limit of sessions in memory. At the limit, tenantIsFull first
// examines the maxAddExamined least recently used sessions of the tenant, and evicts those that are stored. The caller
// holds mu.
func (l *liveSessions) tenantIsFull(tenant string, p progress) bool {
	order := l.tenants[tenant]
	if l.tenantLimit == 0 || order == nil {
		return false
	}
	e := order.Back()
	for remaining := maxAddExamined; e != nil && remaining > 0 && order.Len() >= l.tenantLimit; remaining-- {
		s := e.Value.(*Session) //nolint:forcetypeassert // the list holds sessions only
		e = e.Prev()
		if s.pins.Load() > 0 {
			order.MoveToFront(s.tenantElement)
			continue
		}
		l.evictStored(s, true, p)
	}
	return order.Len() >= l.tenantLimit
}

// beginLimit returns the number of sessions in memory at which no new session may begin. The rest of the limit is
// reserved for sessions that continue, and for the units of sessions.
func (l *liveSessions) beginLimit() int { return l.limit - l.limit/reservedShare }

// sweep evicts idle sessions, and sessions beyond beginLimit.
func (l *liveSessions) sweep(now time.Time, p progress) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.evict(maxSweepExamined, l.beginLimit(), now.Add(-idleAfter), p)
}

// progress says which sessions may leave memory, by the newest flush that has their row.
type progress struct {
	delivered int64 // newest flush that the backend has
	inOutbox  int64 // newest flush that the outbox has, while the backend is down; else 0
}

// evict evicts sessions while memory has more than limit sessions, and sessions that were not used since idleSince,
// unless idleSince is zero. evict examines up to maxExamined sessions, the least recently used first. While memory has
// more than limit sessions, a pinned session moves to the front of the order. Otherwise the pinned sessions of long
// streams would use up maxExamined at every call. The caller holds mu.
func (l *liveSessions) evict(maxExamined, limit int, idleSince time.Time, p progress) {
	if l.storesNothing {
		idleSince = time.Time{}
	}
	for e, remaining := l.order.Back(), maxExamined; e != nil && remaining > 0; remaining-- {
		s := e.Value.(*Session) //nolint:forcetypeassert // the list holds sessions only
		e = e.Prev()
		full := len(l.byID) > limit
		if !full && (idleSince.IsZero() || s.lastUse.Load() > idleSince.Unix()) {
			return
		}
		if s.pins.Load() == 0 {
			l.evictStored(s, full, p)
		} else if full {
			l.order.MoveToFront(s.element)
		}
	}
}

// evictStored removes a session that no request pins, if its row is stored. full reports that memory has no room. While
// the backend is down, a row in the outbox then suffices. A session with unmarkedOptOut is removed only if full is
// true. The caller holds mu.
func (l *liveSessions) evictStored(s *Session, full bool, p progress) {
	switch flush := s.rowFlush.Load(); {
	case s.dirty.Load() || s.delayed.Load() || s.unmarkedOptOut.Load() && !full:
	case flush <= p.delivered:
		l.remove(s)
	case full && flush <= p.inOutbox:
		l.evictedFlush.Store(max(l.evictedFlush.Load(), flush))
		l.remove(s)
	}
}

// remove removes a session. The caller holds mu.
func (l *liveSessions) remove(s *Session) {
	delete(l.byID, s.Record.Identity.ID)
	l.order.Remove(s.element)
	tenant := s.Record.Identity.Tenant
	order := l.tenants[tenant]
	if order.Remove(s.tenantElement); order.Len() == 0 {
		delete(l.tenants, tenant)
	}
}

// forget removes a deleted session from memory, and reports whether the session was in memory. A request that pins the
// session continues with its record, but no flush writes this record any more.
func (l *liveSessions) forget(tenant string, id session.ID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.byID[id]
	if s == nil || s.Record.Identity.Tenant != tenant {
		return false
	}
	s.forgotten.Store(true)
	l.remove(s)
	return true
}

// forgetTenant removes the deleted sessions of a tenant from memory, and returns their number.
func (l *liveSessions) forgetTenant(tenant string) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for order := l.tenants[tenant]; order != nil && order.Len() > 0; n++ {
		s := order.Front().Value.(*Session) //nolint:forcetypeassert // the list holds sessions only
		s.forgotten.Store(true)
		l.remove(s)
	}
	return n
}

// count returns the number of sessions in memory.
func (l *liveSessions) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.byID)
}
