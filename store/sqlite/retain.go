package sqlite

import (
	"context"
	"time"
)

// youngInARow is after how many sessions in a row that began in time Retain looks no further.
// Sessions are numbered about as they begin, so that the old ones stand first; an old one behind as
// many young ones goes when they do.
const youngInARow = 4096

// Retain deletes the sessions that were last seen before the given time, and says how many. It
// works in steps of some milliseconds and looks at the context between them: with a context that
// ends soon it does at least one step and returns the context's error when there is more to do. The
// echoes of what it deletes lead nowhere at once, and are gone with their generation.
func (s *Store) Retain(ctx context.Context, before time.Time) (n int, err error) {
	whole := context.WithoutCancel(ctx)
	for last := int64(0); ; {
		if err := ctx.Err(); err != nil && (n > 0 || last == 0) {
			return n, err
		}
		p, err := s.retainable(whole, last, before)
		if err != nil {
			return n, err
		}
		gone, err := s.retainStep(whole, p.list, before)
		if err != nil {
			return n, err
		}
		n += gone
		if last = p.last; p.end {
			break
		}
	}
	if err = s.dropOldEchoes(whole, before); err != nil || n == 0 {
		return n, err
	}
	return n, s.checkpoint(whole, false)
}

// candidates are the next sessions to be deleted.
type candidates struct {
	list  []victim
	last  int64 // the last number that was looked at
	young int   // sessions in a row, up to there, that began in time
	end   bool
}

func (s *Store) retainable(ctx context.Context, after int64, before time.Time) (candidates, error) {
	return read(ctx, s, func(c *conn) (p candidates) {
		for r := range c.rows("SELECT sid, id, started, seen FROM sessions WHERE sid > ? ORDER BY sid", after) {
			var v victim
			var started, seen int64
			r.scan(&v.sid, &v.id, &started, &seen)
			p.last = v.sid
			switch {
			case seen < micros(before):
				p.list = append(p.list, v)
				p.young = 0
			case started < micros(before): // old, and still in use
				p.young = 0
			default:
				p.young++
			}
			if p.young == youngInARow {
				break
			}
			if len(p.list) == eraseChunk {
				return p
			}
		}
		p.end = true
		return p
	})
}

// retainStep deletes the candidates, but those that were seen again since they were listed.
func (s *Store) retainStep(ctx context.Context, list []victim, before time.Time) (gone int, err error) {
	if len(list) == 0 {
		return 0, nil
	}
	err = s.update(ctx, "retain", func(t *tx) {
		gone = 0
		for _, v := range list {
			if t.db.number("SELECT 1 FROM sessions WHERE sid = ? AND id = ? AND seen < ?", v.sid, v.id, before) != 0 {
				t.drop(v.sid)
				gone++
			}
		}
	})
	if err != nil {
		return 0, err
	}
	return gone, nil
}
