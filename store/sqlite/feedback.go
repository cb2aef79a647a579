package sqlite

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"precept/bandit/feedback"
	"precept/internal/session"
)

// AddFeedback adds entries to the sessions' feedback in one transaction, and returns the number of changes by session.
// Of two versions of an entry, it keeps the one with the later At or, if the times are equal, the one with the greater
// hash. If a session has reached the limit, the error is a session.FeedbackFull with the number of rejected entries.
func (s *Store) AddFeedback(ctx context.Context, tenant string, entries map[session.ID][]feedback.Entry) (map[session.ID]int, error) {
	if len(entries) == 0 {
		return map[session.ID]int{}, nil
	}
	ids := slices.SortedFunc(maps.Keys(entries), func(a, b session.ID) int { return bytes.Compare(a[:], b[:]) })
	var result feedbackChanges
	err := s.update(ctx, "add feedback", func(t *tx) {
		result = feedbackChanges{changed: map[session.ID]int{}}
		tenantNumber := t.findOrAddTenant(tenant)
		for _, id := range ids {
			t.addEntries(sessionKey{tenantNumber, id}, entries[id], &result)
		}
	})
	return result.result(err)
}

type feedbackChanges struct {
	changed  map[session.ID]int
	rejected session.FeedbackFull
}

func (a *feedbackChanges) result(err error) (map[session.ID]int, error) {
	switch {
	case err != nil:
		return nil, err
	case a.rejected > 0:
		return a.changed, a.rejected
	default:
		return a.changed, nil
	}
}

func (t *tx) addEntries(k sessionKey, list []feedback.Entry, result *feedbackChanges) {
	if len(list) == 0 {
		return
	}
	sid := t.findOrAdd(k, list[0].At).sid
	free := t.remainingQuota(sid)
	for _, e := range list {
		changed, full := t.addEntry(sid, e, &free)
		if full {
			result.rejected++
		}
		if changed {
			result.changed[k.id]++
			t.db.exec("INSERT INTO unsettled(sid, n) VALUES(?, 1) ON CONFLICT(sid) DO UPDATE SET n = n + 1", sid)
		}
	}
}

// quota is the number of feedback entries and bytes for which a session still has room.
type quota struct{ entries, bytes int64 }

func (t *tx) remainingQuota(sid int64) quota {
	var entries, bytes int64
	t.db.queryRow("SELECT count(*), sum(length(data)) FROM feedback WHERE sid = ?", sid).scan(&entries, &bytes)
	return quota{int64(t.store.options.MaxFeedback) - entries, session.MaxFeedbackBytes - bytes}
}

// addEntry adds or replaces one entry. If the entry is new, addEntry subtracts it from free. full means that the
// session has no room.
func (t *tx) addEntry(sid int64, e feedback.Entry, free *quota) (changed, full bool) {
	data, k := t.encode(e), hashKey(e.ID)
	if free.entries > 0 && free.bytes > 0 &&
		t.db.exec("INSERT INTO feedback(sid, k, data) VALUES(?, ?, ?) ON CONFLICT DO NOTHING", sid, k, data) == 1 {
		free.entries--
		free.bytes -= int64(len(data))
		t.totals[totalFeedback]++
		return true, false
	}
	old := t.db.queryBlob("SELECT data FROM feedback WHERE sid = ? AND k = ?", sid, k)
	switch {
	case old == nil:
		return false, true
	case !t.supersedes(e, data, old):
		return false, false
	case len(data) > len(old) && free.bytes <= 0:
		return false, true
	}
	t.db.exec("UPDATE feedback SET data = ? WHERE sid = ? AND k = ?", data, sid, k)
	return true, false
}

func (t *tx) supersedes(e feedback.Entry, data, old []byte) bool {
	var stored feedback.Entry
	t.db.decode(old, &stored)
	return bytes.Compare(feedback.Rank(e.At, data), feedback.Rank(stored.At, old)) > 0
}

func (t *tx) encode(e feedback.Entry) []byte {
	data, err := e.Encode()
	if err != nil {
		t.db.fail(fmt.Errorf("feedback %q: %w: %w", e.ID, session.ErrInvalid, err))
	}
	return data
}

// Feedback returns a session's feedback, ordered by time and id.
func (s *Store) Feedback(ctx context.Context, tenant string, id session.ID) ([]feedback.Entry, error) {
	list, _, err := s.SessionFeedback(ctx, tenant, id)
	return list, err
}

// FeedbackEntry returns a session's entry with the given id.
func (s *Store) FeedbackEntry(ctx context.Context, tenant string, id session.ID, entry string) (e feedback.Entry, ok bool, err error) {
	list, err := readSession(ctx, s, tenant, id, func(c *conn, sid int64) []feedback.Entry {
		return c.entries("SELECT data FROM feedback WHERE sid = ? AND k = ?", sid, hashKey(entry))
	})
	return onlyEntry(list, entry, err)
}

// onlyEntry returns the only entry in list. ok is false if list is empty, or if the entry has a different id with the
// same hash.
func onlyEntry(list []feedback.Entry, id string, err error) (feedback.Entry, bool, error) {
	if err != nil || len(list) == 0 || list[0].ID != id {
		return feedback.Entry{}, false, err
	}
	return list[0], true, nil
}

// SessionFeedback returns a session's feedback. Pass the second result as FeedbackState in a settlement that counts
// this feedback.
func (s *Store) SessionFeedback(ctx context.Context, tenant string, id session.ID) ([]feedback.Entry, int64, error) {
	type result struct { // the function below can run after ctx has ended, and must not set this function's variables
		list  []feedback.Entry
		state int64
	}
	r, err := readSession(ctx, s, tenant, id, func(c *conn, sid int64) (r result) {
		// The count is read first, so that an entry arriving between the two queries stays unsettled.
		r.state = c.queryInt("SELECT n FROM unsettled WHERE sid = ?", sid)
		r.list = c.entries("SELECT data FROM feedback WHERE sid = ?", sid)
		return r
	})
	return r.list, r.state, err
}

func (c *conn) entries(query string, args ...any) (list []feedback.Entry) {
	for r := range c.query(query, args...) {
		var doc []byte
		var e feedback.Entry
		r.scan(&doc)
		c.decode(doc, &e)
		list = append(list, e)
	}
	feedback.Sort(list)
	return list
}

// UnsettledSessions returns closed sessions that got feedback or exchanges after the last settlement, at most limit.
func (s *Store) UnsettledSessions(ctx context.Context, limit int) ([]session.UnsettledSession, error) {
	return read(ctx, s, func(c *conn) (list []session.UnsettledSession) {
		for r := range c.query(`SELECT t.name, s.id FROM unsettled u CROSS JOIN settled USING(sid) JOIN sessions s USING(sid) JOIN tenants t ON t.id = s.tenant
			WHERE NOT EXISTS (SELECT 1 FROM aside a WHERE a.sid = u.sid AND a.out = 1) LIMIT ?`, limit) {
			var u session.UnsettledSession
			r.scan(&u.Tenant, &u.ID)
			list = append(list, u)
		}
		return list
	})
}

// Park stores feedback on a session that is not stored yet, under an echo key (see FindEcho). A later version of an
// entry replaces the earlier one. The caller then looks the key up again, because the session might have been stored in
// the meantime.
func (s *Store) Park(ctx context.Context, tenant string, key session.EchoKey, e feedback.Entry) error {
	return s.update(ctx, "store early feedback", func(t *tx) {
		tenantNumber := t.findOrAddTenant(tenant)
		t.park(tenantNumber, echoKey(tenantNumber, key), e)
	})
}

// ParkedEntry returns the entry with the given id parked under a key.
func (s *Store) ParkedEntry(ctx context.Context, tenant string, key session.EchoKey, id string) (e feedback.Entry, ok bool, err error) {
	list, err := readTenant(ctx, s, tenant, func(c *conn, tenantNumber int64) []feedback.Entry {
		return c.entries("SELECT data FROM parked WHERE echo = ? AND k = ?", echoKey(tenantNumber, key), hashKey(id))
	})
	return onlyEntry(list, id, err)
}

func (t *tx) park(tenant, echo int64, e feedback.Entry) {
	data, k := t.encode(e), hashKey(e.ID)
	old := t.db.queryBlob("SELECT data FROM parked WHERE echo = ? AND k = ?", echo, k)
	switch {
	case old != nil:
		if t.supersedes(e, data, old) {
			t.db.exec("UPDATE parked SET at = ?, data = ? WHERE echo = ? AND k = ?", e.At, data, echo, k)
		}
	case t.isParkingFull(tenant, echo):
		t.db.fail(session.ErrParkingFull)
	default:
		t.totals[totalParked]++
		t.db.exec("INSERT INTO parked(echo, k, at, data, tenant) VALUES(?, ?, ?, ?, ?)", echo, k, e.At, data, tenant)
	}
}

// isParkingFull reports whether the tenant or the key has no room for a further parked entry. All tenants together have
// room for 2*MaxParked entries. A tenant must not have more entries than would still fit.
func (t *tx) isParkingFull(tenant, echo int64) bool {
	total := t.db.queryInt("SELECT n FROM totals WHERE name = ?", totalParked)
	tenantCount := t.db.queryInt("SELECT n FROM parked_of WHERE tenant = ?", tenant)
	maxPerKey := int64(t.store.options.MaxFeedback)
	keyCount := t.db.queryInt("SELECT count(*) FROM (SELECT 1 FROM parked WHERE echo = ? LIMIT ?)", echo, maxPerKey)
	return tenantCount >= 2*int64(t.store.options.MaxParked)-total || keyCount >= maxPerKey
}

// Unpark moves the feedback parked under keys to the sessions with these keys, in one transaction. The results are
// those of AddFeedback.
func (s *Store) Unpark(ctx context.Context, tenant string, sessions map[session.EchoKey]session.ID) (map[session.ID]int, error) {
	keys, err := s.parkedKeys(ctx, tenant, slices.Sorted(maps.Keys(sessions)))
	if err != nil || len(keys) == 0 {
		return map[session.ID]int{}, err
	}
	var result feedbackChanges
	err = s.update(ctx, "join feedback", func(t *tx) {
		result = feedbackChanges{changed: map[session.ID]int{}}
		tenantNumber := t.findOrAddTenant(tenant)
		for _, k := range keys {
			list := t.db.entries("DELETE FROM parked WHERE echo = ? RETURNING data", echoKey(tenantNumber, k))
			t.totals[totalParked] -= int64(len(list))
			t.addEntries(sessionKey{tenantNumber, sessions[k]}, list, &result)
		}
	})
	return result.result(err)
}

// parkedKeys returns the keys with parked feedback. Usually no feedback is parked. Unpark then needs no write
// transaction.
func (s *Store) parkedKeys(ctx context.Context, tenant string, keys []session.EchoKey) ([]session.EchoKey, error) {
	return readTenant(ctx, s, tenant, func(c *conn, tenantNumber int64) (parked []session.EchoKey) {
		if c.queryInt("SELECT 1 FROM parked LIMIT 1") == 0 {
			return nil
		}
		for _, k := range keys {
			if c.queryInt("SELECT 1 FROM parked WHERE echo = ? LIMIT 1", echoKey(tenantNumber, k)) != 0 {
				parked = append(parked, k)
			}
		}
		return parked
	})
}

// PurgeParked deletes feedback parked before the given time, and returns the number of entries.
func (s *Store) PurgeParked(ctx context.Context, before time.Time) (n int, err error) {
	err = s.update(ctx, "purge parked feedback", func(t *tx) {
		deleted := t.db.exec("DELETE FROM parked WHERE at < ?", before)
		t.totals[totalParked] -= deleted
		n = int(deleted)
	})
	return n, err
}
