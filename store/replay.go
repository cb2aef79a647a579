package store

import (
	"precept/internal/guard"
	"precept/internal/label"
	"precept/internal/session"
	"precept/store/spool"
)

const (
	replayBytes = 4 << 20 // read back for one delivery
	startBytes  = 1 << 17 // the same while a start waits for it
)

// reader reads batches back from a spool.
type reader struct {
	from    spool.Reader
	account bool // draw up the account only
	most    int  // bytes of a batch

	guard *guard.Guard // nil: none
}

// next reads the next batch from a place on, up to the place until. It never crosses the beginning
// of a segment or of a run, so that the account can be drawn up there, and it ends behind something
// that was written at once, where that can be seen.
func (r *reader) next(from, until spool.Place) (b batch, err error) {
	size := 0
	b.end, err = r.from.Next(from, until, func(rec spool.Record) (spool.Step, error) {
		var err error
		switch {
		case rec.Kind == recordRun && !b.empty():
			return spool.Later, nil // it begins the next batch
		case rec.Kind == recordRun:
			b.crashed = true
		case r.account:
			err = r.reading(rec, b.count)
		default:
			err = r.reading(rec, b.add)
		}
		size += len(rec.Payload)
		if size >= r.most && rec.Kind == spool.KindEnd || size >= 4*r.most {
			return spool.Last, err
		}
		return spool.More, err
	})
	return b, err
}

// reading runs what reads one record: one that makes it panic is damaged, like one that cannot be
// read.
func (r *reader) reading(rec spool.Record, read func(spool.Record) error) error {
	if r.guard == nil {
		return read(rec)
	}
	return r.guard.Err(label.StepReadBack, func() error {
		if rec.Kind == recordExchange {
			_, id, _, err := cutExchange(rec.Payload)
			if err != nil {
				return err
			}
			r.guard.Before(label.StepReadBack, session.ID{}, string(id))
		}
		return read(rec)
	})
}
