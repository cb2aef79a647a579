package sqlite

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"database/sql/driver"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"precept/feedback"
	"precept/session"
)

// AddFeedback joins entries to a session's set and says how many changed it: an entry with a new id, or a later version of
// one that is there. Of two versions the later At stands, of the same time the one whose JSON has the greater hash, so that
// every order of arrival ends in the same set.
func (s *Store) AddFeedback(ctx context.Context, tenant string, id session.ID, entries []feedback.Entry) (added int, err error) {
	m, err := s.AddFeedbackAll(ctx, tenant, map[session.ID][]feedback.Entry{id: entries})
	return m[id], err
}

// AddFeedbackAll is AddFeedback for many sessions in one transaction. It tells how many entries changed each session's set
// and leaves out the sessions whose set stayed as it was.
func (s *Store) AddFeedbackAll(ctx context.Context, tenant string, entries map[session.ID][]feedback.Entry) (map[session.ID]int, error) {
	added := map[session.ID]int{}
	if len(entries) == 0 {
		return added, nil
	}
	ids := slices.SortedFunc(maps.Keys(entries), func(a, b session.ID) int { return bytes.Compare(a[:], b[:]) })
	err := s.update(ctx, "add feedback", func(t *tx) error {
		clear(added)
		n, err := t.tenant(tenant)
		if err != nil {
			return err
		}
		for _, id := range ids {
			for _, e := range entries[id] {
				if err := t.alive(); err != nil {
					return err
				}
				sid, err := t.sid(sessionKey{n, id}, e.At)
				if err != nil {
					return err
				}
				changed, err := t.addEntry(sid, e)
				if err != nil {
					return err
				}
				if changed {
					added[id]++
				}
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return added, nil
}

func (t *tx) addEntry(sid int64, e feedback.Entry) (bool, error) {
	data, err := encodeEntry(e)
	if err != nil {
		return false, err
	}
	fresh, err := inserted(t.exec("INSERT INTO feedback(sid, k, data) VALUES(?, ?, ?) ON CONFLICT DO NOTHING", sid, key(e.ID), data))
	if err != nil {
		return false, err
	}
	if fresh {
		t.totals[totalFeedback]++
		return true, nil
	}
	wins, err := t.supersedes(e, data, "SELECT data FROM feedback WHERE sid = ? AND k = ?", sid, key(e.ID))
	if err == nil && wins {
		_, err = t.exec("UPDATE feedback SET data = ? WHERE sid = ? AND k = ?", data, sid, key(e.ID))
	}
	return wins, err
}

// supersedes compares a new version of an entry with the one that query finds.
func (t *tx) supersedes(e feedback.Entry, data []byte, query string, args ...any) (wins bool, err error) {
	_, err = t.one(query, func(row []driver.Value) error {
		var old feedback.Entry
		if err := decode(row[0], &old); err != nil {
			return err
		}
		if c := e.At.Compare(old.At); c != 0 {
			wins = c > 0
			return nil
		}
		a, b := sha256.Sum256(data), sha256.Sum256(blob(row[0]))
		wins = bytes.Compare(a[:], b[:]) > 0
		return nil
	}, args...)
	return wins, err
}

func encodeEntry(e feedback.Entry) ([]byte, error) {
	e.At = e.At.UTC().Round(0) // one instant, one text
	data, err := json.Marshal(e)
	if err != nil {
		return nil, fmt.Errorf("feedback %q: %w: %w", e.ID, ErrInvalid, err)
	}
	return data, nil
}

// Feedback lists a session's set by time, then id.
func (s *Store) Feedback(ctx context.Context, tenant string, id session.ID) ([]feedback.Entry, error) {
	return read(ctx, s, func(c *conn) (list []feedback.Entry, err error) {
		sid, err := s.existing(c, tenant, id)
		if err != nil || sid == 0 {
			return nil, err
		}
		err = c.query("SELECT data FROM feedback WHERE sid = ?", func(row []driver.Value) error {
			var e feedback.Entry
			if err := decode(row[0], &e); err != nil {
				return err
			}
			list = append(list, e)
			return ctx.Err()
		}, sid)
		sortEntries(list)
		return list, err
	})
}

func sortEntries(list []feedback.Entry) {
	slices.SortFunc(list, func(a, b feedback.Entry) int { return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.ID, b.ID)) })
}

// Park keeps feedback for a key that has not gone by yet. Versions of one entry fold as in AddFeedback. The exchange may
// land between the caller's look-up and Park: look the key up once more afterwards.
func (s *Store) Park(ctx context.Context, tenant string, key session.EchoKey, e feedback.Entry) error {
	data, err := encodeEntry(e)
	if err != nil {
		return fmt.Errorf("sqlite: park: %w", err)
	}
	return s.update(ctx, "park", func(t *tx) error {
		n, err := t.tenant(tenant)
		if err != nil {
			return err
		}
		return t.park(echoKey(n, key), e, data)
	})
}

func (t *tx) park(echo int64, e feedback.Entry, data []byte) error {
	k := key(e.ID)
	found, err := t.number("SELECT rid FROM parked WHERE echo = ? AND k = ?", echo, k)
	if err != nil {
		return err
	}
	if found != 0 {
		wins, err := t.supersedes(e, data, "SELECT data FROM parked WHERE rid = ?", found)
		if err == nil && wins {
			_, err = t.exec("UPDATE parked SET at = ?, data = ? WHERE rid = ?", micros(e.At), data, found)
		}
		return err
	}
	waiting, err := t.number("SELECT n FROM totals WHERE name = ?", totalParked)
	if err != nil {
		return err
	}
	if waiting >= int64(t.s.opt.MaxParked) {
		return fmt.Errorf("%w (%d entries)", ErrParkingFull, waiting)
	}
	t.totals[totalParked]++
	_, err = t.exec("INSERT INTO parked(echo, k, at, data) VALUES(?, ?, ?, ?)", echo, k, micros(e.At), data)
	return err
}

// Unpark takes out what waits for the keys, by time, then id. Asking is cheap when nothing waits: no transaction is begun.
func (s *Store) Unpark(ctx context.Context, tenant string, keys []session.EchoKey) (map[session.EchoKey][]feedback.Entry, error) {
	waiting, err := read(ctx, s, func(c *conn) (waiting []session.EchoKey, err error) {
		n, err := s.tenant(c, tenant)
		if err != nil || n == 0 {
			return nil, err
		}
		if any, err := c.number("SELECT 1 FROM parked LIMIT 1"); err != nil || any == 0 {
			return nil, err
		}
		for _, k := range keys {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			rid, err := c.number("SELECT rid FROM parked WHERE echo = ? LIMIT 1", echoKey(n, k))
			if err != nil {
				return nil, err
			}
			if rid != 0 {
				waiting = append(waiting, k)
			}
		}
		return waiting, nil
	})
	out := map[session.EchoKey][]feedback.Entry{}
	if err != nil || len(waiting) == 0 {
		return out, err
	}
	err = s.update(ctx, "unpark", func(t *tx) error {
		clear(out)
		n, err := t.tenant(tenant)
		if err != nil {
			return err
		}
		for _, k := range waiting {
			list, err := t.unpark(echoKey(n, k))
			if err != nil {
				return err
			}
			if len(list) > 0 { // another may have been faster
				out[k] = list
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

func (t *tx) unpark(echo int64) (list []feedback.Entry, err error) {
	err = t.query("DELETE FROM parked WHERE echo = ? RETURNING data", func(row []driver.Value) error {
		var e feedback.Entry
		if err := decode(row[0], &e); err != nil {
			return err
		}
		list = append(list, e)
		return nil
	}, echo)
	t.totals[totalParked] -= int64(len(list))
	sortEntries(list)
	return list, err
}

// PurgeParked gives up on feedback from before the given time and says on how much.
func (s *Store) PurgeParked(ctx context.Context, before time.Time) (n int, err error) {
	err = s.update(ctx, "purge parked feedback", func(t *tx) error {
		r, err := t.exec("DELETE FROM parked WHERE at < ?", micros(before))
		if err != nil {
			return err
		}
		gone, err := r.RowsAffected()
		n = int(gone)
		t.totals[totalParked] -= gone
		return err
	})
	return n, err
}
