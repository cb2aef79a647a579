package sqlite

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"

	"precept/bandit/feedback"
	"precept/internal/session"
)

// AddFeedback joins entries to the sets of sessions, in one transaction, and says how many changed
// each set: an entry with a new id, or a later version of one that is there. Sessions whose set
// stayed as it was are left out. Of two versions the later At stands, of the same time the one
// whose JSON has the greater hash, so that every order of arrival ends in the same set. What a full
// set has no room for is told with session.FeedbackFull.
func (s *Store) AddFeedback(ctx context.Context, tenant string, entries map[session.ID][]feedback.Entry) (map[session.ID]int, error) {
	if len(entries) == 0 {
		return map[session.ID]int{}, nil
	}
	ids := slices.SortedFunc(maps.Keys(entries), func(a, b session.ID) int { return bytes.Compare(a[:], b[:]) })
	var to joined
	err := s.update(ctx, "add feedback", func(t *tx) {
		to = joined{changed: map[session.ID]int{}}
		n := t.tenant(tenant)
		for _, id := range ids {
			t.addEntries(sessionKey{n, id}, entries[id], &to)
		}
	})
	return to.result(err)
}

// joined is what a call did to sets: how many entries changed each, and for how many there was no
// room.
type joined struct {
	changed map[session.ID]int
	left    session.FeedbackFull
}

func (j *joined) result(err error) (map[session.ID]int, error) {
	switch {
	case err != nil:
		return nil, err
	case j.left > 0:
		return j.changed, j.left
	default:
		return j.changed, nil
	}
}

// addEntries joins entries to a session's set.
func (t *tx) addEntries(k sessionKey, list []feedback.Entry, to *joined) {
	if len(list) == 0 {
		return
	}
	sid := t.named(k, list[0].At).sid
	has := t.room(sid)
	for _, e := range list {
		changed, full := t.addEntry(sid, e, &has)
		if full {
			to.left++
		}
		if changed {
			to.changed[k.id]++
			t.db.exec("INSERT INTO unsettled(sid, n) VALUES(?, 1) ON CONFLICT(sid) DO UPDATE SET n = n + 1", sid)
		}
	}
}

// room is what a set may still take.
type room struct{ entries, bytes int64 }

func (t *tx) room(sid int64) room {
	var entries, bytes int64
	t.db.row("SELECT count(*), sum(length(data)) FROM feedback WHERE sid = ?", sid).scan(&entries, &bytes)
	return room{int64(t.s.opt.MaxFeedback) - entries, session.FeedbackBytes - bytes}
}

// addEntry says whether the entry changed the set, or found it full.
func (t *tx) addEntry(sid int64, e feedback.Entry, has *room) (changed, full bool) {
	data, k := t.encode(e), key(e.ID)
	if has.entries > 0 && has.bytes > 0 &&
		t.db.exec("INSERT INTO feedback(sid, k, data) VALUES(?, ?, ?) ON CONFLICT DO NOTHING", sid, k, data) == 1 {
		has.entries--
		has.bytes -= int64(len(data))
		t.totals[totalFeedback]++
		return true, false
	}
	old := t.db.value("SELECT data FROM feedback WHERE sid = ? AND k = ?", sid, k)
	switch {
	case old == nil:
		return false, true
	case !t.supersedes(e, data, old):
		return false, false
	case len(data) > len(old) && has.bytes <= 0:
		return false, true
	}
	t.db.exec("UPDATE feedback SET data = ? WHERE sid = ? AND k = ?", data, sid, k)
	return true, false
}

// supersedes says whether a version of an entry stands before the one that is there.
func (t *tx) supersedes(e feedback.Entry, data, old []byte) bool {
	var was feedback.Entry
	t.db.decode(old, &was)
	return bytes.Compare(feedback.Rank(e.At, data), feedback.Rank(was.At, old)) > 0
}

func (t *tx) encode(e feedback.Entry) []byte {
	data, err := e.Encode()
	if err != nil {
		t.db.fail(fmt.Errorf("feedback %q: %w: %w", e.ID, session.ErrInvalid, err))
	}
	return data
}

// Feedback lists a session's set by time, then id.
func (s *Store) Feedback(ctx context.Context, tenant string, id session.ID) ([]feedback.Entry, error) {
	list, _, err := s.Heard(ctx, tenant, id)
	return list, err
}

// Heard is Feedback, with what a settlement that is made of it says of it
// (session.Settlement.Heard).
func (s *Store) Heard(ctx context.Context, tenant string, id session.ID) ([]feedback.Entry, int64, error) {
	type result struct { // read may go on when ctx has ended, and nobody else must see what it writes then
		list  []feedback.Entry
		heard int64
	}
	r, err := readSession(ctx, s, tenant, id, func(c *conn, sid int64) (r result) {
		// First, so that what comes in between is not taken for heard.
		r.heard = c.number("SELECT n FROM unsettled WHERE sid = ?", sid)
		r.list = c.entries("SELECT data FROM feedback WHERE sid = ?", sid)
		return r
	})
	return r.list, r.heard, err
}

// entries are those that a query finds, by time, then id.
func (c *conn) entries(query string, args ...any) (list []feedback.Entry) {
	for r := range c.rows(query, args...) {
		var doc []byte
		var e feedback.Entry
		r.scan(&doc)
		c.decode(doc, &e)
		list = append(list, e)
	}
	feedback.Sort(list)
	return list
}

// Unsettled lists closed sessions to which feedback or exchanges came since they were settled, at
// most limit of them.
func (s *Store) Unsettled(ctx context.Context, limit int) ([]session.Unsettled, error) {
	return read(ctx, s, func(c *conn) (list []session.Unsettled) {
		for r := range c.rows(`SELECT t.name, s.id FROM unsettled u CROSS JOIN settled USING(sid) JOIN sessions s USING(sid) JOIN tenants t ON t.id = s.tenant
			WHERE NOT EXISTS (SELECT 1 FROM aside a WHERE a.sid = u.sid AND a.out = 1) LIMIT ?`, limit) {
			var u session.Unsettled
			r.scan(&u.Tenant, &u.ID)
			list = append(list, u)
		}
		return list
	})
}
