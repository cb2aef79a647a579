package sqlite

import (
	"context"
	"fmt"

	"precept/internal/session"
)

// eraseChunk is how many sessions one transaction deletes: some milliseconds, so that the recorder
// gets its turn.
const eraseChunk = 64

// victim is a session that is to be deleted.
type victim struct {
	sid int64
	id  session.ID
}

// Forget deletes a session wherever it stands: row, exchanges, samples, feedback, what it was
// settled with, and its echoes. What it added to the counters stays; that is sums, and names
// nobody. It says whether there was anything.
//
// Freed pages are overwritten, and the WAL, which may hold old copies, is folded into the file (see
// checkpoint).
func (s *Store) Forget(ctx context.Context, tenant string, id session.ID) (bool, error) {
	var sid int64
	err := s.update(ctx, "forget", func(t *tx) {
		if sid = t.db.session(t.known(tenant), id); sid != 0 {
			t.drop(sid)
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

// ForgetTenant deletes all sessions of a tenant, as Forget does, its notes, and the feedback that
// waits for its exchanges. It says how many sessions there were. The tenant's name and its counters
// stay. When it ends with an error, what was not deleted yet is still there: call it again.
func (s *Store) ForgetTenant(ctx context.Context, tenant string) (sessions int, err error) {
	var gone []int64
	for after := []byte{}; ; {
		victims, err := readOf(ctx, s, tenant, func(c *conn, n int64) (list []victim) {
			// Through the index alone: the rows of all other tenants would have to be read
			// otherwise.
			for r := range c.rows("SELECT sid, id FROM sessions INDEXED BY sessions_id WHERE id > ? AND tenant = ? ORDER BY id LIMIT ?", after, n, eraseChunk) {
				var v victim
				r.scan(&v.sid, &v.id)
				list = append(list, v)
			}
			return list
		})
		if err != nil {
			return len(gone), err
		}
		if len(victims) == 0 {
			break
		}
		after = victims[len(victims)-1].id[:]
		err = s.update(ctx, "forget a tenant", func(t *tx) {
			for _, v := range victims {
				t.drop(v.sid)
			}
		})
		if err != nil {
			return len(gone), err
		}
		for _, v := range victims {
			gone = append(gone, v.sid)
		}
	}
	if err := s.dropParked(ctx, tenant); err != nil {
		return len(gone), err
	}
	if err := s.dropEchoes(ctx, gone); err != nil {
		return len(gone), err
	}
	return len(gone), s.checkpoint(ctx, true)
}

// dropParked deletes the tenant's notes and what waits for its exchanges; and what was parked
// before it was noted for whom.
func (s *Store) dropParked(ctx context.Context, tenant string) error {
	return s.update(ctx, "forget parked feedback", func(t *tx) {
		if n := t.known(tenant); n != 0 {
			t.db.exec("DELETE FROM notes WHERE tenant = ?", n)
			t.totals[totalParked] -= t.db.exec("DELETE FROM parked WHERE tenant IN (?, 0)", n)
		}
	})
}

func (t *tx) drop(sid int64) {
	t.totals[totalSessions] -= t.db.number("SELECT data IS NOT NULL FROM sessions WHERE sid = ?", sid)
	t.totals[totalExchanges] -= t.db.exec("DELETE FROM exchanges WHERE sid = ?", sid)
	t.totals[totalSamples] -= t.db.exec("DELETE FROM samples WHERE sid = ?", sid)
	t.totals[totalFeedback] -= t.db.exec("DELETE FROM feedback WHERE sid = ?", sid)
	t.db.exec("DELETE FROM settled WHERE sid = ?", sid)
	t.db.exec("DELETE FROM unsettled WHERE sid = ?", sid)
	t.db.exec("DELETE FROM aside WHERE sid = ?", sid)
	t.db.exec("DELETE FROM marks WHERE sid = ?", sid)
	t.db.exec("DELETE FROM sessions WHERE sid = ?", sid)
}

// checkpoint folds the WAL into the file and cuts it off. A reader that stands in the way is waited
// for, if asked to, as long as for a lock; otherwise, and after that, the next checkpoint does it.
func (s *Store) checkpoint(ctx context.Context, wait bool) error {
	c, err := s.writer(ctx)
	if err != nil {
		return err
	}
	defer func() { s.write <- c }()
	if err := s.guard.check(); err != nil {
		return err
	}
	fold := func() error {
		return c.do(ctx, func() {
			if busy := c.number("PRAGMA wal_checkpoint(TRUNCATE)"); busy != 0 {
				c.fail(errReading)
			}
		})
	}
	if wait {
		err = s.retry(ctx, fold)
	} else {
		err = fold()
	}
	if err != nil && !isBusy(err) {
		return fmt.Errorf("sqlite: checkpoint: %w", classify(err))
	}
	return nil
}
