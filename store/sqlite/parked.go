package sqlite

import (
	"context"
	"maps"
	"slices"
	"time"

	"precept/bandit/feedback"
	"precept/internal/session"
)

// Park keeps feedback for a key that has not gone by yet. Versions of one entry fold as in
// AddFeedback. The exchange may land between the caller's look-up and Park: look the key up once
// more afterwards.
func (s *Store) Park(ctx context.Context, tenant string, key session.EchoKey, e feedback.Entry) error {
	return s.update(ctx, "park", func(t *tx) {
		n := t.tenant(tenant)
		t.park(n, echoKey(n, key), e)
	})
}

func (t *tx) park(tenant, echo int64, e feedback.Entry) {
	data, k := t.encode(e), key(e.ID)
	old := t.db.value("SELECT data FROM parked WHERE echo = ? AND k = ?", echo, k)
	switch {
	case old != nil:
		if t.supersedes(e, data, old) {
			t.db.exec("UPDATE parked SET at = ?, data = ? WHERE echo = ? AND k = ?", e.At, data, echo, k)
		}
	case t.parkingFull(tenant, echo):
		t.db.fail(session.ErrParkingFull)
	default:
		t.totals[totalParked]++
		t.db.exec("INSERT INTO parked(echo, k, at, data, tenant) VALUES(?, ?, ?, ?, ?)", echo, k, e.At, data, tenant)
	}
}

// parkingFull says whether no more can wait, of the tenant or for the key. A tenant may hold as
// many places as it leaves free: it never takes those that others need.
func (t *tx) parkingFull(tenant, echo int64) bool {
	all := t.db.number("SELECT n FROM totals WHERE name = ?", totalParked)
	own := t.db.number("SELECT n FROM parked_of WHERE tenant = ?", tenant)
	most := int64(t.s.opt.MaxFeedback)
	here := t.db.number("SELECT count(*) FROM (SELECT 1 FROM parked WHERE echo = ? LIMIT ?)", echo, most)
	return own >= 2*int64(t.s.opt.MaxParked)-all || here >= most
}

// Join moves what waits for the keys to the sessions that have them, in one transaction: nothing is
// lost between the two. It tells how many entries changed each session's set, as AddFeedback does.
func (s *Store) Join(ctx context.Context, tenant string, owners map[session.EchoKey]session.ID) (map[session.ID]int, error) {
	keys, err := s.waiting(ctx, tenant, slices.Sorted(maps.Keys(owners)))
	if err != nil || len(keys) == 0 {
		return map[session.ID]int{}, err
	}
	var to joined
	err = s.update(ctx, "join feedback", func(t *tx) {
		to = joined{changed: map[session.ID]int{}}
		n := t.tenant(tenant)
		for _, k := range keys {
			list := t.db.entries("DELETE FROM parked WHERE echo = ? RETURNING data", echoKey(n, k))
			t.totals[totalParked] -= int64(len(list))
			t.addEntries(sessionKey{n, owners[k]}, list, &to)
		}
	})
	return to.result(err)
}

// waiting tells for which of the keys feedback waits.
func (s *Store) waiting(ctx context.Context, tenant string, keys []session.EchoKey) ([]session.EchoKey, error) {
	return readOf(ctx, s, tenant, func(c *conn, n int64) (waiting []session.EchoKey) {
		if c.number("SELECT 1 FROM parked LIMIT 1") == 0 {
			return nil
		}
		for _, k := range keys {
			if c.number("SELECT 1 FROM parked WHERE echo = ? LIMIT 1", echoKey(n, k)) != 0 {
				waiting = append(waiting, k)
			}
		}
		return waiting
	})
}

// PurgeParked gives up on feedback from before the given time and says on how much.
func (s *Store) PurgeParked(ctx context.Context, before time.Time) (n int, err error) {
	err = s.update(ctx, "purge parked feedback", func(t *tx) {
		gone := t.db.exec("DELETE FROM parked WHERE at < ?", before)
		t.totals[totalParked] -= gone
		n = int(gone)
	})
	return n, err
}
