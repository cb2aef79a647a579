package store

import (
	"context"
	"errors"
	"time"

	"precept/internal/label"
	"precept/store/outbox"
)

// syncer makes writes survive a power cut, if the backend does not.
type syncer interface {
	Sync(ctx context.Context) error
}

// safety knows which rows the backend cannot lose any more.
type safety struct {
	age    time.Duration // age at which a synced row is safe
	marks  []mark
	synced int64  // the last row at the last sync
	row    int64  // rows up to here are safe
	epoch  string // epoch of the backend
}

// mark is a sequence number up to which the backend had synced at a time.
type mark struct {
	at time.Time
	to int64
}

// secure finds the safe rows, and deletes the safe rows, whatever failed before. On a full disk
// secure runs at once, because the room of the outbox may be missing.
func (d *shipper) secure(ctx context.Context, now time.Time, failed error, tight bool) error {
	box := d.handoff.outbox
	full := d.handoff.wasFull()
	due := box != nil && (!now.Before(d.due.sync) || full)
	if due && (failed == nil || tight) {
		if err := d.sync(ctx, now); err != nil {
			failed = errors.Join(failed, &stepError{label.StepSync, err})
		}
	}
	if failed != nil {
		d.tools.state.healthy(false)
	} else if d.tail.empty() { // also after an outage without new rows
		d.tools.state.healthy(true)
	}
	if box == nil {
		return failed
	}
	var err error
	if !now.Before(d.due.keep) || full || d.phase == stopping {
		d.due.keep = now.Add(keepEvery)
		err = box.Release(d.safe.row)
	}
	if err == nil && due {
		err = box.Tidy()
	}
	if tight {
		box.YieldDisk()
	}
	if err != nil && failed == nil {
		failed = &stepError{label.StepSpool, err}
	}
	return failed
}

// sync finds out which of the delivered rows are safe.
func (d *shipper) sync(ctx context.Context, now time.Time) error {
	d.due.sync = now.Add(syncEvery)
	s := &d.safe
	if to, _ := d.handoff.outbox.Delivered(); to != s.synced {
		if err := d.be.Sync(ctx); err != nil {
			return err
		}
		s.synced = to
		s.marks = append(s.marks, mark{now, to})
	}
	for len(s.marks) > 0 && now.Sub(s.marks[0].at) >= s.age {
		s.row, s.marks = s.marks[0].to, s.marks[1:]
	}
	return nil
}

// close stores the delivery position, and closes the outbox.
func (d *shipper) close() error {
	if d.handoff.outbox == nil {
		return nil
	}
	return errors.Join(d.handoff.outbox.Release(d.safe.row), d.handoff.outbox.Close())
}

// lagReason returns the reason why some rows cannot be deleted yet; nil: none.
func (d *shipper) lagReason() error {
	lagging, putErr := d.handoff.trouble()
	switch {
	case errors.Is(d.err, ErrVolatile):
		return nil
	case putErr == nil && d.err == nil && lagging:
		return errBacklog
	}
	return errors.Join(putErr, d.err)
}

// bypassFullDisk delivers rows to a remote backend if this machine's disk is full, so that capture
// continues. The rows are in no outbox: they are not written again if the backend loses data.
func (d *shipper) bypassFullDisk(ctx context.Context) error {
	if d.fleet == nil || d.handoff.outbox == nil {
		return nil
	}
	if _, err := d.handoff.trouble(); !errors.Is(err, outbox.ErrFull) {
		return nil
	}
	return d.bypass(ctx)
}

// bypass delivers the rows that the outbox refused, after the delivery of all rows in the outbox.
// Meanwhile nothing is appended.
func (d *shipper) bypass(ctx context.Context) error {
	if d.handoff.outbox == nil || !d.tail.empty() {
		return nil
	}
	b, ok := d.handoff.takeForBypass()
	if !ok {
		return nil
	}
	err := d.writer.write(ctx, &b)
	d.handoff.endBypass(&b, err)
	if err != nil {
		return err
	}
	refused := d.count(&b)
	f := outbox.Flush{Ended: b.ended, Dropped: b.dropped, Scrub: b.scrub}
	for reason, n := range refused {
		if f.Dropped == nil {
			f.Dropped = map[string]int64{}
		}
		f.Dropped[reason] += n
	}
	d.handoff.outbox.Pass(int64(len(b.exchanges))+b.counted-refused[droppedBad], &f)
	return nil
}
