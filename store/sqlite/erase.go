package sqlite

import (
	"context"
	"database/sql/driver"
	"fmt"
	"time"

	"precept/session"
)

// retainChunk is how many sessions one transaction of Retain deletes: some milliseconds, so that the recorder gets its turn.
const retainChunk = 64

// Forget deletes a session wherever it stands: row, exchanges, samples, feedback and what it was settled with. Its echoes
// lead nowhere from then on; they are hashes, and go with their run. What it added to the counters stays; that is sums,
// and names nobody. It says whether there was anything.
//
// Freed pages are overwritten. The WAL may hold old copies until it is folded into the file, which is tried at once and
// succeeds unless a reader is in the way just then; the next checkpoint does it otherwise.
func (s *Store) Forget(ctx context.Context, tenant string, id session.ID) (bool, error) {
	found := false
	err := s.update(ctx, "forget", func(t *tx) error {
		n, err := t.tenant(tenant)
		if err != nil {
			return err
		}
		sid, err := t.number("SELECT sid FROM sessions WHERE id = ? AND tenant = ?", id[:], n)
		if found = err == nil && sid != 0; !found {
			return err
		}
		return t.drop(sid)
	})
	if err != nil || !found {
		return false, err
	}
	return true, s.checkpoint(ctx)
}

// Retain deletes the sessions that were last seen before the given time, as Forget does, and says how many.
func (s *Store) Retain(ctx context.Context, before time.Time) (n int, err error) {
	type victim struct {
		sid int64
		id  session.ID
	}
	for last := int64(0); ; {
		victims, err := read(ctx, s, func(c *conn) (list []victim, err error) {
			err = c.query("SELECT sid, id FROM sessions WHERE sid > ? AND seen < ? ORDER BY sid LIMIT ?", func(row []driver.Value) error {
				list = append(list, victim{integer(row[0]), toID(blob(row[1]))})
				return ctx.Err()
			}, last, micros(before), int64(retainChunk))
			return list, err
		})
		if err != nil {
			return n, err
		}
		if len(victims) == 0 {
			break
		}
		last = victims[len(victims)-1].sid
		gone := 0
		err = s.update(ctx, "retain", func(t *tx) error {
			for _, v := range victims {
				// It may have been seen again since it was listed.
				still, err := t.number("SELECT 1 FROM sessions WHERE sid = ? AND id = ? AND seen < ?", v.sid, v.id[:], micros(before))
				if err != nil {
					return err
				}
				if still == 0 {
					continue
				}
				if err := t.drop(v.sid); err != nil {
					return err
				}
				gone++
			}
			return t.alive()
		})
		if err != nil {
			return n, err
		}
		n += gone
	}
	err = s.update(ctx, "retain", func(t *tx) error { return t.dropOldEchoes(micros(before)) })
	if err != nil || n == 0 {
		return n, err
	}
	return n, s.checkpoint(ctx)
}

func (t *tx) drop(sid int64) error {
	had, err := t.number("SELECT data IS NOT NULL FROM sessions WHERE sid = ?", sid)
	if err != nil {
		return err
	}
	t.totals[totalSessions] -= had
	for _, d := range []struct{ query, total string }{
		{"DELETE FROM exchanges WHERE sid = ?", totalExchanges},
		{"DELETE FROM samples WHERE sid = ?", totalSamples},
		{"DELETE FROM feedback WHERE sid = ?", totalFeedback},
		{"DELETE FROM settled WHERE sid = ?", ""},
		{"DELETE FROM sessions WHERE sid = ?", ""},
	} {
		r, err := t.exec(d.query, sid)
		if err != nil {
			return err
		}
		n, err := r.RowsAffected()
		if err != nil {
			return err
		}
		if d.total != "" {
			t.totals[d.total] -= n
		}
	}
	return nil
}

// checkpoint folds the WAL into the file and cuts it off, if no reader is in the way.
func (s *Store) checkpoint(ctx context.Context) error {
	c, err := s.writer(ctx)
	if err != nil {
		return err
	}
	defer func() { s.write <- c }()
	if err := s.guard.check(); err != nil {
		return err
	}
	if _, err := c.number("PRAGMA wal_checkpoint(TRUNCATE)"); err != nil && !isBusy(err) {
		return fmt.Errorf("sqlite: checkpoint: %w", classify(err))
	}
	return nil
}
