package sqlite

import (
	"bytes"
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"maps"
	"slices"

	"precept/feedback"
	"precept/session"
)

// AddFeedback joins entries to the sets of sessions, in one transaction, and says how many changed
// each set: an entry with a new id, or a later version of one that is there. Sessions whose set
// stayed as it was are left out. Of two versions the later At stands, of the same time the one
// whose JSON has the greater hash, so that every order of arrival ends in the same set. What a full
// set has no room for is told with session.FeedbackFull.
func (s *Store) AddFeedback(ctx context.Context, tenant string, entries map[session.ID][]feedback.Entry) (map[session.ID]int, error) {
	added := map[session.ID]int{}
	if len(entries) == 0 {
		return added, nil
	}
	ids := slices.SortedFunc(maps.Keys(entries), func(a, b session.ID) int { return bytes.Compare(a[:], b[:]) })
	var left session.FeedbackFull
	err := s.update(ctx, "add feedback", func(t *tx) error {
		n, err := t.tenant(tenant)
		if err != nil {
			return err
		}
		for _, id := range ids {
			changed, err := t.addEntries(sessionKey{n, id}, entries[id], &left)
			if err != nil {
				return err
			}
			if changed > 0 {
				added[id] = changed
			}
		}
		return nil
	})
	return summed(added, left, err)
}

// summed is what a call tells that has changed sets, and left something out.
func summed(added map[session.ID]int, left session.FeedbackFull, err error) (map[session.ID]int, error) {
	switch {
	case err != nil:
		return nil, err
	case left > 0:
		return added, left
	default:
		return added, nil
	}
}

func (t *tx) addEntries(k sessionKey, list []feedback.Entry, left *session.FeedbackFull) (changed int, err error) {
	var has *room
	for _, e := range list {
		sid, err := t.sid(k, e.At)
		if err == nil && has == nil {
			has, err = t.room(sid)
		}
		if err != nil {
			return changed, err
		}
		ok, err := t.addEntry(sid, e, has)
		if _, full := errors.AsType[session.FeedbackFull](err); full {
			*left++
			continue
		}
		if err != nil {
			return changed, err
		}
		if !ok {
			continue
		}
		changed++
		if _, err := t.exec("INSERT INTO unsettled(sid, n) VALUES(?, 1) ON CONFLICT(sid) DO UPDATE SET n = n + 1", sid); err != nil {
			return changed, err
		}
	}
	return changed, nil
}

// room is what a set may still take.
type room struct{ entries, bytes int64 }

func (t *tx) room(sid int64) (*room, error) {
	has := &room{int64(t.s.opt.MaxFeedback), session.FeedbackBytes}
	_, err := t.one("SELECT count(*), coalesce(sum(length(data)), 0) FROM feedback WHERE sid = ?", func(row []driver.Value) error {
		has.entries -= integer(row[0])
		has.bytes -= integer(row[1])
		return nil
	}, sid)
	return has, err
}

func (t *tx) addEntry(sid int64, e feedback.Entry, has *room) (bool, error) {
	data, err := encodeEntry(e)
	if err != nil {
		return false, err
	}
	if has.entries > 0 && has.bytes > 0 {
		fresh, err := inserted(t.exec("INSERT INTO feedback(sid, k, data) VALUES(?, ?, ?) ON CONFLICT DO NOTHING", sid, key(e.ID), data))
		if err != nil {
			return false, err
		}
		if fresh {
			has.entries--
			has.bytes -= int64(len(data))
			t.totals[totalFeedback]++
			return true, nil
		}
	}
	found, wins, err := t.supersedes(e, data, "SELECT data FROM feedback WHERE sid = ? AND k = ?", sid, key(e.ID))
	if err != nil || found && !wins {
		return false, err
	}
	// Where the set is full there may be none to change, and a longer version does not fit.
	changed, err := inserted(t.exec("UPDATE feedback SET data = ? WHERE sid = ? AND k = ? AND (length(data) >= ? OR ? > 0)",
		data, sid, key(e.ID), int64(len(data)), has.bytes))
	if err == nil && !changed {
		err = session.FeedbackFull(1)
	}
	return changed, err
}

// supersedes compares a new version of an entry with the one that query finds, if it does.
func (t *tx) supersedes(e feedback.Entry, data []byte, query string, args ...any) (found, wins bool, err error) {
	found, err = t.one(query, func(row []driver.Value) error {
		var old feedback.Entry
		if err := decode(row[0], &old); err != nil {
			return err
		}
		wins = bytes.Compare(feedback.Rank(e.At, data), feedback.Rank(old.At, blob(row[0]))) > 0
		return nil
	}, args...)
	return found, wins, err
}

func encodeEntry(e feedback.Entry) ([]byte, error) {
	data, err := e.Encode()
	if err != nil {
		return nil, fmt.Errorf("feedback %q: %w: %w", e.ID, session.ErrInvalid, err)
	}
	return data, nil
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
	r, err := readSession(ctx, s, tenant, id, func(c *conn, sid int64) (r result, err error) {
		// First, so that what comes in between is not taken for heard.
		if r.heard, err = c.number("SELECT n FROM unsettled WHERE sid = ?", sid); err != nil {
			return r, err
		}
		err = c.query("SELECT data FROM feedback WHERE sid = ?", func(row []driver.Value) error {
			var e feedback.Entry
			if err := decode(row[0], &e); err != nil {
				return err
			}
			r.list = append(r.list, e)
			return ctx.Err()
		}, sid)
		feedback.Sort(r.list)
		return r, err
	})
	return r.list, r.heard, err
}

// Unsettled lists closed sessions to which feedback or exchanges came since they were settled, at
// most limit of them.
func (s *Store) Unsettled(ctx context.Context, limit int) ([]session.Unsettled, error) {
	return read(ctx, s, func(c *conn) (list []session.Unsettled, err error) {
		err = c.query(`SELECT t.name, s.id FROM unsettled u CROSS JOIN settled USING(sid) JOIN sessions s USING(sid) JOIN tenants t ON t.id = s.tenant
			WHERE NOT EXISTS (SELECT 1 FROM aside a WHERE a.sid = u.sid AND a.out = 1) LIMIT ?`,
			func(row []driver.Value) error {
				list = append(list, session.Unsettled{Tenant: text(row[0]), ID: toID(blob(row[1]))})
				return ctx.Err()
			}, int64(limit))
		return list, err
	})
}
