package store

import (
	"context"
	"errors"
	"time"

	"precept/store/spool"
)

const (
	syncEvery   = 5 * time.Second
	cursorEvery = time.Second
)

// safeAge is how old a delivery to a server must be before the spool lets go of it: a server may
// lose what it acknowledged in its last seconds.
const safeAge = 15 * time.Second

// mark is a progress that the backend had synced at a time.
type mark struct {
	at       time.Time
	progress progress
}

// secure finds out what of the delivered is safe, from time to time. When the disk is full it does
// so at once: the spool's place may be all that is missing.
func (d *delivery) secure(ctx context.Context, now time.Time) error {
	if d.rec.spool == nil || !d.tidySpool(!now.Before(d.syncAt)) {
		return nil
	}
	d.syncAt = now.Add(syncEvery)
	age := time.Duration(0)
	if d.Shared() {
		age = safeAge
	}
	if d.delivered.At != d.synced {
		if err := d.be.Sync(ctx); err != nil {
			return &stepError{"sync", err}
		}
		d.synced = d.delivered.At
		d.marks = append(d.marks, mark{now, d.delivered.clone()})
	}
	for len(d.marks) > 0 && now.Sub(d.marks[0].at) >= age {
		d.safe, d.marks = d.marks[0].progress, d.marks[1:]
	}
	return nil
}

// tidySpool leaves a segment behind that has grown large, or that holds what shall not stay, when
// all of it is delivered. It says whether it is time to secure what was delivered.
func (d *delivery) tidySpool(due bool) bool {
	d.rec.mu.Lock()
	defer d.rec.mu.Unlock()
	if !due && !d.rec.full {
		return false
	}
	end, _ := d.rec.spool.End()
	drained := !d.rec.lagging && d.rec.ready.empty() && d.tail.empty() && d.delivered.At == end
	switch {
	case drained && (d.rec.scrub || d.rec.full || d.rec.spool.Grown()):
		if at, err := d.rec.spool.Leave(); err == nil {
			d.delivered.At, d.rec.scrub = at, false
		}
	case d.rec.scrub:
		d.rec.spool.Rotate() // of what comes now, nothing stands beside it
	}
	if d.rec.full {
		d.rec.full, d.cursorAt = false, time.Time{}
	}
	return true
}

// scrubSpool sees to it that what stands in the spool goes as soon as it is delivered.
func (d *delivery) scrubSpool() {
	d.rec.mu.Lock()
	defer d.rec.mu.Unlock()
	d.rec.scrub = true
}

// keepCursor keeps how far delivery came, and lets go of what is safe.
func (d *delivery) keepCursor(now time.Time) error {
	if d.rec.spool == nil || now.Before(d.cursorAt) && !d.last {
		return nil
	}
	d.rec.mu.Lock()
	c, err := d.checkpoint()
	d.rec.mu.Unlock()
	if err == nil {
		err = d.rec.spool.Keep(c)
	}
	if err != nil {
		return &stepError{"spool", err}
	}
	d.cursorAt, d.safeAt = now.Add(cursorEvery), c.Safe.At
	return nil
}

// checkpoint is that of this moment. The caller has mu.
func (d *delivery) checkpoint() (c spool.Checkpoint, err error) {
	c.Epoch = d.epoch
	if c.Delivered, err = d.delivered.ack(); err == nil {
		c.Safe, err = d.safe.ack()
	}
	return c, err
}

// purge empties the spool's files: what was forgotten shall not stand there either. What was put
// down so far is delivered first; what comes meanwhile stands in files of its own.
func (d *delivery) purge(ctx context.Context) error {
	if d.rec.spool == nil {
		return nil
	}
	at, err := d.turnOver()
	if err != nil {
		return err
	}
	if !d.tail.empty() {
		if err := d.handOver(ctx, &d.tail); err != nil {
			return err
		}
		d.tail = batch{}
	}
	if err := d.be.Sync(ctx); err != nil {
		return err
	}
	d.rec.mu.Lock()
	d.delivered.At, d.rec.scrub = at, false
	d.delivered.forget(d.tombs.cover)
	d.safe, d.marks = d.delivered.clone(), nil
	c, err := d.checkpoint()
	d.rec.mu.Unlock()
	if err == nil {
		err = d.rec.spool.Keep(c)
	}
	if err == nil {
		err = d.rec.spool.DropAside()
	}
	return err
}

// turnOver takes up all that is put down, and leaves the files of the spool behind. It returns the
// place of what comes now.
func (d *delivery) turnOver() (at spool.Place, err error) {
	d.rec.mu.Lock()
	defer d.rec.mu.Unlock()
	if d.rec.lagging {
		return at, errBacklog
	}
	d.tail.merge(&d.rec.ready)
	d.rec.ready = batch{}
	return d.rec.spool.Leave()
}

// purgeForgotten empties the spool's files of what was forgotten elsewhere, as soon as what stands
// in them is delivered.
func (d *delivery) purgeForgotten(ctx context.Context) error {
	if !d.forgotten || !d.started {
		return nil
	}
	err := d.purge(ctx)
	if errors.Is(err, errBacklog) {
		return nil // later
	}
	d.forgotten = err != nil
	return err
}

// behind says why not everything is where it can be deleted.
func (d *delivery) behind() error {
	d.rec.mu.Lock()
	defer d.rec.mu.Unlock()
	switch {
	case errors.Is(d.err, ErrVolatile):
		return nil
	case d.rec.putErr == nil && d.err == nil && d.rec.lagging:
		return errBacklog
	}
	return errors.Join(d.rec.putErr, d.err)
}

// errBacklog says that something of an earlier time is still on its way to the backend.
var errBacklog = errors.New("a backlog is being written")

// shut ends the spool.
func (d *delivery) shut() error {
	if d.rec.spool == nil {
		return nil
	}
	c, err := d.checkpoint()
	if err == nil {
		err = d.rec.spool.Keep(c)
	}
	return errors.Join(err, d.rec.spool.Close())
}
