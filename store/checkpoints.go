package store

import (
	"context"
	"time"

	"precept/internal/label"
	"precept/store/spool"
)

const (
	syncEvery   = 5 * time.Second
	cursorEvery = time.Second
)

// safeAge is how old a delivery to a server must be before the spool lets go of it: a server may
// lose what it acknowledged in its last seconds.
const safeAge = 15 * time.Second

// syncer makes what was written survive a power cut, where the backend does not by itself.
type syncer interface {
	Sync(ctx context.Context) error
}

// checkpoints know how far the spool was delivered, and how much of that cannot be lost any more.
// They belong to whoever hands over.
type checkpoints struct {
	be  syncer
	age time.Duration // after which what was synced is safe

	delivered, safe progress
	marks           []mark
	epoch           string      // of the backend
	synced          spool.Place // of the last sync
	safeAt          spool.Place // of the last checkpoint
	syncAt, keepAt  time.Time   // when each is due
}

// mark is a progress that the backend had synced at a time.
type mark struct {
	at   time.Time
	done progress
}

// load begins where the last run left off.
func (c *checkpoints) load(from spool.Checkpoint) {
	c.epoch, c.delivered, c.safe = from.Epoch, progressOf(from.Delivered), progressOf(from.Safe)
}

// sync finds out what of the delivered is safe.
func (c *checkpoints) sync(ctx context.Context, now time.Time) error {
	c.syncAt = now.Add(syncEvery)
	if c.delivered.At != c.synced {
		if err := c.be.Sync(ctx); err != nil {
			return &stepError{label.StepSync, err}
		}
		c.synced = c.delivered.At
		c.marks = append(c.marks, mark{now, c.delivered.clone()})
	}
	for len(c.marks) > 0 && now.Sub(c.marks[0].at) >= c.age {
		c.safe, c.marks = c.marks[0].done, c.marks[1:]
	}
	return nil
}

// settle takes all that was delivered for safe.
func (c *checkpoints) settle() { c.safe, c.marks, c.synced = c.delivered.clone(), nil, c.delivered.At }

// rewind goes back to where the backend was safe: it has lost what came behind that.
func (c *checkpoints) rewind() { c.delivered, c.marks, c.synced = c.safe.clone(), nil, spool.Place{} }

// keep writes the checkpoint of this moment down, and lets go of what is safe.
func (c *checkpoints) keep(in *spool.Log, now time.Time) error {
	p := spool.Checkpoint{Epoch: c.epoch}
	var err error
	if p.Delivered, err = c.delivered.ack(); err == nil {
		p.Safe, err = c.safe.ack()
	}
	if err == nil {
		err = in.Keep(p)
	}
	if err != nil {
		return &stepError{label.StepSpool, err}
	}
	c.keepAt, c.safeAt = now.Add(cursorEvery), p.Safe.At
	return nil
}
