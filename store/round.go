package store

import (
	"context"
	"errors"
	"time"

	"precept/internal/label"
	"precept/internal/session"
)

// handDown hands what is due to the backend. A failure of it leaves the spool alone: what is new is
// put down meanwhile.
func (d *delivery) handDown(ctx context.Context, now time.Time) {
	if now.Before(d.retryAt) {
		return
	}
	// A stop must not tear a write that is under way: it is bounded by itself.
	wctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeLimit)
	defer cancel()
	d.err = d.guard.Err(label.StepDeliver, func() error {
		if err := d.deliver(wctx, now); err != nil || d.last {
			return err
		}
		return d.passBy(wctx)
	})
	tight := d.journal.spool != nil && errors.Is(d.err, session.ErrDiskFull)
	if tight {
		d.journal.giveWay(now)
	}
	if failed := d.err; d.started { // a start does not wait for the disk
		d.err = d.guard.Err(label.StepSecure, func() error { return d.secure(wctx, now, failed, tight) })
	}
	if d.err != nil && !errors.Is(d.err, ErrVolatile) {
		d.tally.WriteErrors.Add(1)
		d.failed(stepOf(d.err), d.err)
		d.retryAt = now.Add(retryAfter)
	}
}

// secure makes safe what was delivered, and keeps how far that came, whatever failed before.
func (d *delivery) secure(ctx context.Context, now time.Time, failed error, tight bool) error {
	if failed == nil || tight {
		failed = errors.Join(failed, d.syncDue(ctx, now))
	}
	if failed != nil {
		d.state.healthy(false)
	} else if d.tail.empty() && !d.volatile { // also after an outage in which nothing came
		d.state.healthy(true)
	}
	if d.journal.spool == nil {
		return failed
	}
	if !now.Before(d.keepAt) || d.last {
		if err := d.keep(d.journal.spool, now); failed == nil {
			failed = err
		}
	}
	if tight {
		d.journal.spool.PunchHole(d.safeAt)
	}
	return failed
}

// syncDue finds out what of the delivered is safe, from time to time. When the disk is full it does
// so at once: the spool's place may be all that is missing.
func (d *delivery) syncDue(ctx context.Context, now time.Time) error {
	if d.journal.spool == nil {
		return nil
	}
	due, full := !now.Before(d.syncAt), false
	if d.delivered.At, full = d.journal.tidy(d.delivered.At, d.tail.empty(), due); full {
		d.keepAt = time.Time{}
	}
	if !due && !full {
		return nil
	}
	return d.sync(ctx, now)
}

// shut ends the spool.
func (d *delivery) shut() error {
	if d.journal.spool == nil {
		return nil
	}
	return errors.Join(d.keep(d.journal.spool, d.now()), d.journal.spool.Close())
}
