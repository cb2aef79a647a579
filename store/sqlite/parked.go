package sqlite

import (
	"cmp"
	"context"
	"database/sql/driver"
	"fmt"
	"maps"
	"slices"
	"time"

	"precept/feedback"
	"precept/session"
)

// Park keeps feedback for a key that has not gone by yet. Versions of one entry fold as in
// AddFeedback. The exchange may land between the caller's look-up and Park: look the key up once
// more afterwards.
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
		return t.park(n, echoKey(n, key), e, data)
	})
}

func (t *tx) park(tenant, echo int64, e feedback.Entry, data []byte) error {
	k := key(e.ID)
	found, wins, err := t.supersedes(e, data, "SELECT data FROM parked WHERE echo = ? AND k = ?", echo, k)
	if err != nil {
		return err
	}
	if found {
		if wins {
			_, err = t.exec("UPDATE parked SET at = ?, data = ? WHERE echo = ? AND k = ?", micros(e.At), data, echo, k)
		}
		return err
	}
	if full, err := t.parkingFull(tenant, echo); full || err != nil {
		return cmp.Or(err, session.ErrParkingFull)
	}
	t.totals[totalParked]++
	_, err = t.exec("INSERT INTO parked(echo, k, at, data, tenant) VALUES(?, ?, ?, ?, ?)", echo, k, micros(e.At), data, tenant)
	return err
}

// parkingFull says whether no more can wait, of the tenant or for the key. A tenant may hold as
// many places as it leaves free: it never takes those that others need.
func (t *tx) parkingFull(tenant, echo int64) (bool, error) {
	all, err := t.number("SELECT n FROM totals WHERE name = ?", totalParked)
	if err != nil {
		return false, err
	}
	own, err := t.number("SELECT n FROM parked_of WHERE tenant = ?", tenant)
	if err != nil {
		return false, err
	}
	most := int64(t.s.opt.MaxFeedback)
	here, err := t.number("SELECT count(*) FROM (SELECT 1 FROM parked WHERE echo = ? LIMIT ?)", echo, most)
	return own >= 2*int64(t.s.opt.MaxParked)-all || here >= most, err
}

// Join moves what waits for the keys to the sessions that have them, in one transaction: nothing is
// lost between the two. It tells how many entries changed each session's set, as AddFeedback does.
func (s *Store) Join(ctx context.Context, tenant string, owners map[session.EchoKey]session.ID) (map[session.ID]int, error) {
	added := map[session.ID]int{}
	keys, err := s.waiting(ctx, tenant, slices.Sorted(maps.Keys(owners)))
	if err != nil || len(keys) == 0 {
		return added, err
	}
	var left session.FeedbackFull
	err = s.update(ctx, "join feedback", func(t *tx) error {
		n, err := t.tenant(tenant)
		if err != nil {
			return err
		}
		for _, k := range keys {
			list, err := t.unpark(echoKey(n, k))
			if err != nil {
				return err
			}
			changed, err := t.addEntries(sessionKey{n, owners[k]}, list, &left)
			if err != nil {
				return err
			}
			if changed > 0 {
				added[owners[k]] += changed
			}
		}
		return nil
	})
	return summed(added, left, err)
}

// waiting tells for which of the keys feedback waits.
func (s *Store) waiting(ctx context.Context, tenant string, keys []session.EchoKey) ([]session.EchoKey, error) {
	return readOf(ctx, s, tenant, func(c *conn, n int64) (waiting []session.EchoKey, err error) {
		if some, err := c.number("SELECT 1 FROM parked LIMIT 1"); err != nil || some == 0 {
			return nil, err
		}
		for _, k := range keys {
			rid, err := c.number("SELECT rid FROM parked WHERE echo = ? LIMIT 1", echoKey(n, k))
			if err != nil {
				return nil, err
			}
			if rid != 0 {
				waiting = append(waiting, k)
			}
			if err := ctx.Err(); err != nil {
				return nil, err
			}
		}
		return waiting, nil
	})
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
	feedback.Sort(list)
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
