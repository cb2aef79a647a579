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
	idleAfter        = 10 * time.Minute // a session unused for this time can leave memory
	reserveDivisor   = 16               // 1/16 of the limit is reserved for continuing sessions
	maxSweepExamined = 4096             // sessions examined per sweep
	maxAddExamined   = 16               // sessions examined per addition
)

// liveSessions holds sessions in memory, up to a limit, ordered by last use. A session leaves memory only when no
// request pins it and the backend has its row. While the backend is down, a row in the outbox suffices, and
// evictedFlush records that look-ups can miss the session.
//
// A flush is one numbered run of the recorder.
type liveSessions struct {
	mu        sync.Mutex
	byID      map[session.ID]*Session
	byLastUse *list.List // *Session values, most recently used first
	limit     int
	// byTenant has each tenant's sessions, most recently used first.
	byTenant    map[string]*list.List
	tenantLimit int // session limit per tenant; 0 means no limit
	// storesNothing means that the backend stores nothing. An evicted session would be lost, so sessions leave memory
	// only at the limit.
	storesNothing bool
	replica       string
	// evictedFlush is the newest flush with the row of a session that was evicted before the flush reached the backend.
	// Until the flush is delivered, look-ups can miss the session.
	evictedFlush atomic.Int64
}

// Session is a session in memory. All requests in a session share one Session, which stays in memory while a request
// pins it: from Acquire, AcquireInMemory or Add until Release.
type Session struct {
	Record         *session.Record
	element        *list.Element // in liveSessions.byLastUse
	tenantElement  *list.Element // in liveSessions.byTenant
	pins           atomic.Int32  // requests that hold the session
	lastUse        atomic.Int64  // last use, in Unix seconds
	dirty          atomic.Bool   // the session is in changeQueue.dirty
	delayed        atomic.Bool   // the session is in changeQueue.delayed
	rowFlush       atomic.Int64  // newest flush with the session's row; 0 if none
	unmarkedOptOut atomic.Bool   // all turns opted out, but the outbox has no opt-out mark (see optOutMarks)
	forgotten      atomic.Bool   // the row must not be written again
	// placeholderNumbers has the placeholder numbers for redacted texts; nil means none yet. Only the recorder uses it.
	placeholderNumbers *redact.PlaceholderNumbers
	// mayHaveOlderRecord is MayHaveOlderRecord's result.
	mayHaveOlderRecord atomic.Bool
	// optOutUnchecked means that the row was encoded, or left out, before the newest turn was checked against the
	// opt-out rules. After the check the row is queued again.
	optOutUnchecked atomic.Bool
}

// MayHaveOlderRecord reports whether the session began while the backend did not answer. If so, the backend might have
// an older record.
func (s *Session) MayHaveOlderRecord() bool { return s.mayHaveOlderRecord.Load() }

func newLiveSessions(limit, tenantLimit int, storesNothing bool, replica string) *liveSessions {
	return &liveSessions{
		byID: map[session.ID]*Session{}, byLastUse: list.New(), limit: limit, byTenant: map[string]*list.List{}, tenantLimit: tenantLimit,
		storesNothing: storesNothing, replica: replica,
	}
}

// get returns and pins a session, and marks it as the most recently used.
func (l *liveSessions) get(id session.ID, now time.Time) *Session {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.byID[id]
	if s != nil {
		l.use(s, now)
	}
	return s
}

// peek is like get, but leaves the order by last use unchanged.
func (l *liveSessions) peek(id session.ID) *Session {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.byID[id]
	if s != nil {
		s.pins.Add(1)
	}
	return s
}

// use pins a session, and marks it as most recently used. The caller holds mu.
func (l *liveSessions) use(s *Session, now time.Time) {
	s.pins.Add(1)
	s.lastUse.Store(now.Unix())
	l.byLastUse.MoveToFront(s.element)
	l.byTenant[s.Record.Identity.Tenant].MoveToFront(s.tenantElement)
}

func (l *liveSessions) has(id session.ID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.byID[id] != nil
}

// add adds and pins a session for rec. If another request has already added the session, add pins and returns that one.
// nil means that memory is full: a new session (isNew) must leave room for continuing sessions.
func (l *liveSessions) add(rec *session.Record, isNew bool, now time.Time, p progress) *Session {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.byID[rec.Identity.ID]
	if s == nil {
		l.evict(maxAddExamined, l.newSessionLimit()-1, time.Time{}, p)
		if len(l.byID) >= l.limit || isNew && (len(l.byID) >= l.newSessionLimit() || l.tenantIsFull(rec.Identity.Tenant, p)) {
			return nil
		}
		rec.Unit.Replica = l.replica // no other goroutine has the record yet
		s = &Session{Record: rec}
		s.element = l.byLastUse.PushFront(s)
		order := l.byTenant[rec.Identity.Tenant]
		if order == nil {
			order = list.New()
			l.byTenant[rec.Identity.Tenant] = order
		}
		s.tenantElement = order.PushFront(s)
		l.byID[rec.Identity.ID] = s
	}
	l.use(s, now)
	return s
}

func (l *liveSessions) fullReason(tenant string, p progress) label.Reason {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.tenantIsFull(tenant, p) {
		return label.ExcludedTenant
	}
	if l.evict(maxAddExamined, l.newSessionLimit()-1, time.Time{}, p); len(l.byID) >= l.newSessionLimit() {
		return label.ExcludedBusy
	}
	return ""
}

// tenantIsFull reports whether a tenant has reached the limit for sessions in memory, after trying to evict the least
// recently used ones. The caller holds mu.
func (l *liveSessions) tenantIsFull(tenant string, p progress) bool {
	order := l.byTenant[tenant]
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

// newSessionLimit returns the session count at which no new session begins. The rest is reserved for continuing
// sessions, and for units (runs and parent sessions).
func (l *liveSessions) newSessionLimit() int { return l.limit - l.limit/reserveDivisor }

func (l *liveSessions) sweep(now time.Time, p progress) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.evict(maxSweepExamined, l.newSessionLimit(), now.Add(-idleAfter), p)
}

// progress holds the numbers of the newest stored flushes. A session with a row in a later flush must stay in memory.
type progress struct {
	delivered int64 // newest flush in the backend
	inOutbox  int64 // newest flush in the outbox while the backend is down, otherwise 0
}

// evict removes sessions beyond limit from memory and, if idleSince is set, sessions unused since then. It examines up
// to maxExamined sessions, the least recently used first. Beyond the limit, pinned sessions move to the front of the
// order, so that the next call examines others. The caller holds mu.
func (l *liveSessions) evict(maxExamined, limit int, idleSince time.Time, p progress) {
	if l.storesNothing {
		idleSince = time.Time{}
	}
	for e, remaining := l.byLastUse.Back(), maxExamined; e != nil && remaining > 0; remaining-- {
		s := e.Value.(*Session) //nolint:forcetypeassert // the list holds sessions only
		e = e.Prev()
		full := len(l.byID) > limit
		if !full && (idleSince.IsZero() || s.lastUse.Load() > idleSince.Unix()) {
			return
		}
		if s.pins.Load() == 0 {
			l.evictStored(s, full, p)
		} else if full {
			l.byLastUse.MoveToFront(s.element)
		}
	}
}

// evictStored removes an unpinned session if its row is stored. If memory is full and the backend is down, a row in the
// outbox suffices. A session with unmarkedOptOut leaves only if memory is full. The caller holds mu.
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

// The caller holds mu.
func (l *liveSessions) remove(s *Session) {
	delete(l.byID, s.Record.Identity.ID)
	l.byLastUse.Remove(s.element)
	tenant := s.Record.Identity.Tenant
	order := l.byTenant[tenant]
	if order.Remove(s.tenantElement); order.Len() == 0 {
		delete(l.byTenant, tenant)
	}
}

// forget removes a deleted session, and reports whether the session was in memory. A request with a pin continues with
// the record, but no flush writes the record.
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

func (l *liveSessions) forgetTenant(tenant string) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for order := l.byTenant[tenant]; order != nil && order.Len() > 0; n++ {
		s := order.Front().Value.(*Session) //nolint:forcetypeassert // the list holds sessions only
		s.forgotten.Store(true)
		l.remove(s)
	}
	return n
}

func (l *liveSessions) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.byID)
}
