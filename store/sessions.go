package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"precept/bandit/trial"
	"precept/internal/label"
	"precept/internal/session"
)

const defaultLookupTimeout = 45 * time.Millisecond

const maxCandidates = 4

// ErrNoSession means that no stored session has the requested name, or that the session opted out.
var ErrNoSession = errors.New("the session has no stored data")

type sessionFinder interface {
	Session(ctx context.Context, tenant string, id session.ID) (session.Row, bool, error)
	FindEcho(ctx context.Context, tenant string, keys []session.EchoKey) (map[session.EchoKey][]session.ID, error)
}

type optOutFinder interface {
	OptOutMark(ctx context.Context, id session.ID) (m session.OptOutMark, ok bool, err error)
}

type sessions struct {
	live          *liveSessions
	backend       sessionFinder
	sharedMarks   optOutFinder // nil if this process is the only user of the backend
	marks         *optOutMarks
	state         *state
	now           func() time.Time
	lookupTimeout time.Duration // longest wait for the backend in a request
	onFailure     func(step label.Step, err error)
}

func (s *sessions) hasReplicas() bool { return s.sharedMarks != nil }

// acquire returns a session from memory or from the backend, and pins it. uncertain means that the session might exist
// although acquire returns nil.
func (s *sessions) acquire(ctx context.Context, tenant string, id session.ID) (ses *Session, uncertain bool) {
	if ses = s.live.get(id, s.now()); ses != nil {
		return ses, false
	}
	rec, _, err := s.fetchRecord(ctx, tenant, id)
	switch {
	case err != nil:
		return nil, true
	case rec == nil:
		return nil, s.mayBeInOutbox() // the row might exist only in the outbox
	}
	ses = s.live.add(rec, false, s.now(), s.state.progress())
	return ses, ses == nil // memory is full: the session exists, but cannot be pinned
}

// reportLookup reports a failed look-up. A timeout error does not wrap session.ErrUnavailable, because the backend
// might work, only slower than the limit.
func (s *sessions) reportLookup(err error) {
	if isTimeout(err) {
		err = fmt.Errorf("the store did not answer within limits.lookup_timeout (%v); if it answers other calls, raise this limit: %v", s.lookupTimeout, err) //nolint:errorlint // see above
	}
	s.onFailure(label.StepLookup, err)
}

// fetchRecord reads a session's record from the backend, within lookupTimeout. rec is nil if there is none.
func (s *sessions) fetchRecord(ctx context.Context, tenant string, id session.ID) (rec *session.Record, closed bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.lookupTimeout)
	defer cancel()
	row, ok, err := s.backend.Session(ctx, tenant, id)
	if err != nil {
		s.reportLookup(err)
		return nil, false, err
	}
	if !ok {
		return nil, false, nil
	}
	if rec, err = session.Decode(id, row.Data); err != nil {
		s.onFailure(label.StepDecode, err)
	}
	return rec, row.Closed, err
}

func (s *sessions) acquireInMemory(id session.ID) *Session { return s.live.get(id, s.now()) }

func (s *sessions) add(rec *session.Record) *Session {
	s.marks.apply(rec)
	ses := s.live.add(rec, !rec.State.StartedOffline && !rec.Unit.IsRun, s.now(), s.state.progress())
	if ses != nil && ses.Record == rec && rec.State.StartedOffline {
		ses.mayHaveOlderRecord.Store(true)
	}
	return ses
}

// findByEchoes returns the sessions that the backend stores for each echo key. If uncertain is true, some might be
// missing.
func (s *sessions) findByEchoes(ctx context.Context, tenant string, keys []session.EchoKey) (found map[session.EchoKey][]session.ID, uncertain bool) {
	if len(keys) == 0 {
		return nil, false
	}
	ctx, cancel := context.WithTimeout(ctx, s.lookupTimeout)
	defer cancel()
	found, err := s.backend.FindEcho(ctx, tenant, keys)
	if err != nil {
		s.reportLookup(err)
		return nil, true
	}
	for k, ids := range found {
		found[k] = ids[:min(len(ids), maxCandidates)]
	}
	return found, len(found) == 0 && s.mayBeInOutbox()
}

func (s *sessions) member(ctx context.Context, tenant string, id session.ID) (member session.Member, ok bool, err error) {
	ok, err = s.withRecord(ctx, tenant, id, func(rec *session.Record) { member = rec.Member() })
	return member, ok, err
}

// withRecord calls use with the locked record of a session, from memory or from the backend. ok is false if the tenant
// has no such session.
func (s *sessions) withRecord(ctx context.Context, tenant string, id session.ID, use func(rec *session.Record)) (ok bool, err error) {
	if ses := s.live.peek(id); ses != nil {
		defer ses.pins.Add(-1)
		ses.Record.Mutex.Lock()
		defer ses.Record.Mutex.Unlock()
		if ses.Record.Identity.Tenant != tenant {
			return false, nil
		}
		use(ses.Record)
		return true, nil
	}
	row, ok, err := s.backend.Session(ctx, tenant, id)
	if err != nil || !ok {
		return false, err
	}
	rec, err := session.Decode(id, row.Data)
	if err != nil {
		return false, err
	}
	use(rec)
	return true, nil
}

func (s *sessions) mayBeInOutbox() bool {
	return s.state.lookupsMayMiss.Load() || s.live.evictedFlush.Load() > s.state.delivered.Load()
}

// refresh replaces the record in memory with a newer stored record from another replica. The record of a session that
// began while the backend did not answer counts as older than every other record.
func (s *sessions) refresh(ctx context.Context, ses *Session) {
	ctx, cancel := context.WithTimeout(ctx, s.lookupTimeout)
	defer cancel()
	rec, _, err := s.fetchRecord(ctx, ses.Record.Identity.Tenant, ses.Record.Identity.ID)
	if err != nil {
		return
	}
	if rec == nil {
		ses.mayHaveOlderRecord.Store(s.mayBeInOutbox())
		s.applyOptOutAgain(ctx, ses)
		return
	}
	ses.Record.Mutex.Lock()
	defer ses.Record.Mutex.Unlock()
	ses.mayHaveOlderRecord.Store(false)
	switch {
	case ses.Record.State.StartedOffline && !rec.State.StartedOffline:
		ses.Record.Adopt(rec)
		ses.Record.Assignment.Exclude(trial.ExcludedLate)
		ses.Record.State.Dirty = true
	case rec.State.StartedOffline && !ses.Record.State.StartedOffline:
	case rec.Thread.Turns > ses.Record.Thread.Turns || rec.Thread.Turns == ses.Record.Thread.Turns && rec.Identity.Seen.After(ses.Record.Identity.Seen):
		ses.Record.Adopt(rec)
	}
}

// refreshUnit merges a unit's stored record, with other replicas' random assignments, into the record in memory. A unit
// is a run or a parent session.
func (s *sessions) refreshUnit(ctx context.Context, unit *Session) {
	if !s.hasReplicas() && !unit.MayHaveOlderRecord() {
		return
	}
	rec, closed, err := s.fetchRecord(ctx, unit.Record.Identity.Tenant, unit.Record.Identity.ID)
	if err != nil {
		return
	}
	if rec == nil {
		unit.mayHaveOlderRecord.Store(unit.mayHaveOlderRecord.Load() && s.mayBeInOutbox())
		return
	}
	rec.State.Closed = rec.State.Closed || closed
	unit.Record.Mutex.Lock()
	defer unit.Record.Mutex.Unlock()
	unit.mayHaveOlderRecord.Store(false)
	if unit.Record.State.StartedOffline && !rec.State.StartedOffline {
		unit.Record.Adopt(rec)
		unit.Record.Assignment.Exclude(trial.ExcludedLate)
		unit.Record.State.Dirty, unit.Record.OptOut.HasStorableSession = true, true
		return
	}
	unit.Record.MergeUnit(rec)
}

// applyOptOut applies the opt-out mark for a session that is new to this replica. If the backend does not answer, all
// earlier turns count as opted out, so that no opted-out text is stored.
func (s *sessions) applyOptOut(ctx context.Context, rec *session.Record, items int, uncertain bool) {
	if !s.hasReplicas() || items <= 0 {
		return
	}
	assumed := session.OptOutMark{Turns: 1, Items: items}
	if uncertain {
		rec.Hide(assumed)
		return
	}
	ctx, cancel := context.WithTimeout(ctx, s.lookupTimeout)
	defer cancel()
	m, ok, err := s.sharedMarks.OptOutMark(ctx, rec.Identity.ID)
	switch {
	case err != nil:
		s.reportLookup(err)
		rec.Hide(assumed)
	case ok:
		rec.Hide(m)
		rec.OptOut.ByRequest = true
	}
}

// applyOptOutAgain is like applyOptOut, for a fully opted-out session in memory. Another replica might have written a
// newer opt-out mark, with more turns to hide.
func (s *sessions) applyOptOutAgain(ctx context.Context, ses *Session) {
	ses.Record.Mutex.Lock()
	fullyOptedOut := ses.Record.IsFullyOptedOut()
	ses.Record.Mutex.Unlock()
	if !fullyOptedOut || !s.hasReplicas() {
		return
	}
	m, ok, err := s.sharedMarks.OptOutMark(ctx, ses.Record.Identity.ID)
	if err != nil {
		s.reportLookup(err)
		return
	}
	if ok {
		ses.Record.Mutex.Lock()
		defer ses.Record.Mutex.Unlock()
		ses.Record.Hide(m)
	}
}

// newestRecord returns the newer of the record in memory and the stored record. If the record in memory is newer and
// shares an assignment with other sessions, the stored record is merged into a copy of it.
func (s *sessions) newestRecord(row *session.Row) *session.Record {
	var inMemory *session.Record
	if ses := s.live.peek(row.ID); ses != nil {
		ses.Record.Mutex.Lock()
		inMemory = ses.Record.Snapshot()
		ses.Record.Mutex.Unlock()
		ses.pins.Add(-1)
	}
	if inMemory != nil && !inMemory.State.StartedOffline && !s.hasReplicas() { // no other process can have written a newer row
		return inMemory
	}
	stored := &session.Record{Identity: session.Identity{ID: row.ID, Tenant: row.Tenant}}
	if len(row.Data) > 0 {
		rec, err := session.Decode(row.ID, row.Data)
		if err == nil {
			stored = rec
		} else { // without a record the session closes, and contributes nothing to the counters
			s.onFailure(label.StepDecode, err)
		}
	}
	if inMemory == nil || stored.Thread.Turns > inMemory.Thread.Turns || inMemory.State.StartedOffline && !stored.State.StartedOffline {
		return stored
	}
	if inMemory.IsShared() && inMemory.State.StartedOffline == stored.State.StartedOffline && len(row.Data) > 0 {
		inMemory.MergeUnit(stored)
	}
	return inMemory
}

func (s *sessions) snapshot(ref session.Ref) *session.Record {
	ses := s.live.peek(ref.ID)
	if ses == nil {
		return nil
	}
	defer ses.pins.Add(-1)
	if ses.Record.Identity.Tenant != ref.Tenant {
		return nil
	}
	ses.Record.Mutex.Lock() // other requests in the session wait for the lock
	defer ses.Record.Mutex.Unlock()
	return ses.Record.Snapshot()
}

// idsByName returns the possible ids for sessions with a name: the ids computed from the name, and those of sessions
// with the name's echo key.
func idsByName(ctx context.Context, backend session.Finder, tenant, name string) ([]session.ID, error) {
	ids := append(session.IDsByName(tenant, name), session.RunID(tenant, name))
	return appendStored(ctx, ids, backend, tenant, session.TenantEchoKey(tenant, "s:"+name))
}

// StoredSessions returns the ids of the stored sessions that ForgetSession deletes.
func StoredSessions(ctx context.Context, backend sessionFinder, tenant, name string) (stored []session.ID, err error) {
	ids, err := idsByName(ctx, backend, tenant, name)
	if err != nil {
		return nil, err
	}
	add := func(id session.ID) (row session.Row, ok bool, err error) {
		if slices.Contains(stored, id) {
			return row, false, nil
		}
		if row, ok, err = backend.Session(ctx, tenant, id); ok {
			stored = append(stored, id)
		}
		return row, ok, err
	}
	for _, id := range ids {
		row, ok, err := add(id)
		if err != nil {
			return nil, err
		}
		rec, decodeErr := session.Decode(id, row.Data)
		if !ok || decodeErr != nil {
			continue
		}
		member := rec.Member()
		err = session.EachMember(ctx, backend, tenant, &member, func(members []session.ID) error {
			for _, id := range members {
				if _, _, err := add(id); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return stored, nil
}

func appendStored(ctx context.Context, ids []session.ID, backend session.Finder, tenant string, key session.EchoKey) ([]session.ID, error) {
	found, err := backend.FindEcho(ctx, tenant, []session.EchoKey{key})
	if err != nil {
		return nil, err
	}
	for _, id := range found[key] {
		if !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	return ids, nil
}
