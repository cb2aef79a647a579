package sqlite

import (
	"context"
	"time"

	"precept/internal/session"
)

// deleteChunk is the number of sessions deleted per transaction, so that other writes can run in between.
const deleteChunk = 64

type storedSession struct {
	sid int64
	id  session.ID
}

// Forget deletes a session with all its data, and reports whether the session existed. The counters keep the session's
// contribution, which identifies no session. SQLite overwrites the freed pages, and a checkpoint removes old copies
// from the WAL.
func (s *Store) Forget(ctx context.Context, tenant string, id session.ID) (bool, error) {
	var sid int64
	err := s.update(ctx, "forget", func(t *tx) {
		if sid = t.db.sessionNumber(t.tenantNumber(tenant), id); sid != 0 {
			t.dropSession(sid)
		}
	})
	if err != nil || sid == 0 {
		return false, err
	}
	if err := s.dropEchoes(ctx, []int64{sid}); err != nil {
		return true, err
	}
	return true, s.checkpoint(ctx, true)
}

// ForgetTenant deletes a tenant's sessions, notes and parked feedback (feedback on sessions that are not stored yet),
// and returns the number of sessions. The tenant's name and counters stay. After an error, call ForgetTenant again.
func (s *Store) ForgetTenant(ctx context.Context, tenant string) (sessions int, err error) {
	var deleted []int64
	for after := []byte{}; ; {
		found, err := readTenant(ctx, s, tenant, func(c *conn, tenantNumber int64) (list []storedSession) {
			// Without this index SQLite would read all other tenants' rows.
			for r := range c.query("SELECT sid, id FROM sessions INDEXED BY sessions_id WHERE id > ? AND tenant = ? ORDER BY id LIMIT ?", after, tenantNumber, deleteChunk) {
				var v storedSession
				r.scan(&v.sid, &v.id)
				list = append(list, v)
			}
			return list
		})
		if err != nil {
			return len(deleted), err
		}
		if len(found) == 0 {
			break
		}
		after = found[len(found)-1].id[:]
		err = s.update(ctx, "forget a tenant", func(t *tx) {
			for _, v := range found {
				t.dropSession(v.sid)
			}
		})
		if err != nil {
			return len(deleted), err
		}
		for _, v := range found {
			deleted = append(deleted, v.sid)
		}
	}
	if err := s.dropNotesAndParked(ctx, tenant); err != nil {
		return len(deleted), err
	}
	if err := s.dropEchoes(ctx, deleted); err != nil {
		return len(deleted), err
	}
	return len(deleted), s.checkpoint(ctx, true)
}

// dropNotesAndParked deletes a tenant's notes and parked feedback, and all parked feedback from before schema 2, which
// has no tenant.
func (s *Store) dropNotesAndParked(ctx context.Context, tenant string) error {
	return s.update(ctx, "forget parked feedback", func(t *tx) {
		if n := t.tenantNumber(tenant); n != 0 {
			t.db.exec("DELETE FROM notes WHERE tenant = ?", n)
			t.totals[totalParked] -= t.db.exec("DELETE FROM parked WHERE tenant IN (?, 0)", n)
		}
	})
}

func (t *tx) dropSession(sid int64) {
	t.totals[totalSessions] -= t.db.queryInt("SELECT data IS NOT NULL FROM sessions WHERE sid = ?", sid)
	t.totals[totalExchanges] -= t.db.exec("DELETE FROM exchanges WHERE sid = ?", sid)
	t.totals[totalSamples] -= t.db.exec("DELETE FROM samples WHERE sid = ?", sid)
	t.totals[totalFeedback] -= t.db.exec("DELETE FROM feedback WHERE sid = ?", sid)
	t.db.exec("DELETE FROM settled WHERE sid = ?", sid)
	t.db.exec("DELETE FROM unsettled WHERE sid = ?", sid)
	t.db.exec("DELETE FROM aside WHERE sid = ?", sid)
	t.db.exec("DELETE FROM marks WHERE sid = ?", sid)
	t.db.exec("DELETE FROM sessions WHERE sid = ?", sid)
}

// PurgeSessions stops after maxYoungSessions consecutive sessions that started after the time limit. Few older sessions
// follow, because sessions are numbered approximately in start order. If a session started more than maxDisorder after
// the newest session, the clock was ahead when the session was stored. Such a session does not count, because it says
// nothing about the following ones.
const (
	maxYoungSessions = 4096
	maxDisorder      = time.Hour
)

// PurgeSessions deletes the sessions last seen before a time, and returns their number. When ctx is done, PurgeSessions
// finishes the current step, which takes a few milliseconds. Echoes stay until their generation (a group of echoes) is
// deleted, but FindEcho no longer returns them.
func (s *Store) PurgeSessions(ctx context.Context, before time.Time) (n int, err error) {
	uncancelled := context.WithoutCancel(ctx)
	for last := int64(0); ; {
		if err := ctx.Err(); err != nil && (n > 0 || last == 0) {
			return n, err
		}
		p, err := s.findOldSessions(uncancelled, last, before)
		if err != nil {
			return n, err
		}
		deleted, err := s.deleteOldSessions(uncancelled, p.list, before)
		if err != nil {
			return n, err
		}
		n += deleted
		last = p.lastSID
		if p.isLast {
			break
		}
	}
	if err = s.dropOldEchoes(uncancelled, before); err != nil || n == 0 {
		return n, err
	}
	return n, s.checkpoint(uncancelled, false)
}

type purgeCandidates struct {
	list       []storedSession
	lastSID    int64
	youngCount int  // consecutive young sessions up to lastSID
	isLast     bool // no candidates follow
}

// findOldSessions returns up to deleteChunk sessions last seen before a time, ordered by sid, from after+1.
func (s *Store) findOldSessions(ctx context.Context, after int64, before time.Time) (purgeCandidates, error) {
	return read(ctx, s, func(c *conn) (p purgeCandidates) {
		newest := c.queryInt("SELECT started FROM sessions ORDER BY sid DESC LIMIT 1")
		for r := range c.query("SELECT sid, id, started, seen FROM sessions WHERE sid > ? ORDER BY sid", after) {
			var v storedSession
			var started, seen int64
			r.scan(&v.sid, &v.id, &started, &seen)
			p.lastSID = v.sid
			switch {
			case seen < micros(before):
				p.list = append(p.list, v)
				p.youngCount = 0
			case started < micros(before): // an old session that is still in use
				p.youngCount = 0
			case started > newest+maxDisorder.Microseconds():
			default:
				p.youngCount++
			}
			if p.youngCount == maxYoungSessions {
				break
			}
			if len(p.list) == deleteChunk {
				return p
			}
		}
		p.isLast = true
		return p
	})
}

// deleteOldSessions deletes sessions in one transaction, except those seen again after findOldSessions found them.
func (s *Store) deleteOldSessions(ctx context.Context, list []storedSession, before time.Time) (deleted int, err error) {
	if len(list) == 0 {
		return 0, nil
	}
	err = s.update(ctx, "delete old entries", func(t *tx) {
		deleted = 0
		for _, v := range list {
			if t.db.queryInt("SELECT 1 FROM sessions WHERE sid = ? AND id = ? AND seen < ?", v.sid, v.id, before) != 0 {
				t.dropSession(v.sid)
				deleted++
			}
		}
	})
	if err != nil {
		return 0, err
	}
	return deleted, nil
}
