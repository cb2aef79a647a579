package store

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"precept/session"
	"precept/store/spool"
)

const (
	epochEvery = time.Second
	retryAfter = time.Second
	startLimit = 20 * time.Millisecond  // what a start may wait for what the last run left behind
	roundLimit = 150 * time.Millisecond // of reading back, before the delivery looks after other things
	stopLimit  = 3 * time.Second        // what a stop may wait for a backlog: it lies in the spool
	tailBytes  = 2 << 20                // of exchanges, beyond which the backend is not left alone any longer
	manyRows   = 10 * flushAt           // sessions in waiting
)

// delivery hands to the backend what is put down, and knows how far that came. It belongs to
// whoever has handing: one at a time hands over, forgets or closes.
type delivery struct {
	kit
	rec   *recorder
	posts *poster
	tombs *tombstones
	// elsewhere looks what other replicas have forgotten; nothing is handed over before that.
	elsewhere func(ctx context.Context, now time.Time) error

	handing sync.Mutex

	tail            batch // taken up, and not delivered
	delivered, safe progress
	marks           []mark
	epoch           string

	err       error     // of the last attempt
	retryAt   time.Time // after a failed one
	deliverAt time.Time
	epochAt   time.Time
	syncAt    time.Time
	cursorAt  time.Time

	synced spool.Place // of the last sync
	safeAt spool.Place // of the last checkpoint

	forgotten bool // the spool holds what was forgotten elsewhere
	started   bool // Open has returned
	volatile  bool // the backend keeps nothing
	last      bool // the program stops: nothing waits any longer
}

// flush puts what is new into the spool, and hands what is due to the backend.
func (d *delivery) flush(ctx context.Context) {
	now := d.opts.Now()
	d.rec.spoolUp(now, ctx.Err() != nil || d.last)
	d.handDown(ctx, now)
}

// handDown hands what is due to the backend. A failure of it leaves the spool alone: what is new is
// put down meanwhile.
func (d *delivery) handDown(ctx context.Context, now time.Time) {
	defer d.lag()
	if now.Before(d.retryAt) {
		return
	}
	// A stop must not tear a write that is under way: it is bounded by itself.
	wctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeLimit)
	defer cancel()
	d.err = d.guard.Err("deliver", func() error {
		if err := d.deliver(wctx, now); err != nil || d.last {
			return err
		}
		return d.passBy(wctx)
	})
	d.giveWay(now)
	if failed := d.err; d.started { // a start does not wait for the disk
		d.err = d.guard.Err("secure", func() error { return d.keep(wctx, now, failed) })
	}
	if d.err != nil && !errors.Is(d.err, ErrVolatile) {
		d.failedTo(stepOf(d.err), d.err)
		d.retryAt = now.Add(retryAfter)
	}
}

// giveWay leaves what room there is on a full disk to the backend: what it takes can leave the
// spool, and nothing else makes more. Meanwhile what comes waits in memory, within its bound.
func (d *delivery) giveWay(now time.Time) {
	if d.rec.spool == nil || !errors.Is(d.err, session.ErrDiskFull) {
		return
	}
	d.rec.mu.Lock()
	defer d.rec.mu.Unlock()
	d.rec.full, d.rec.putAt = true, now.Add(2*retryAfter)
	d.rec.spool.DropBallast()
}

// keep secures what was delivered, and keeps how far that came, whatever failed before.
func (d *delivery) keep(ctx context.Context, now time.Time, failed error) error {
	tight := d.rec.spool != nil && errors.Is(failed, session.ErrDiskFull)
	if failed == nil || tight {
		failed = errors.Join(failed, d.secure(ctx, now))
	}
	if failed != nil {
		d.state.healthy(false)
	} else if d.tail.empty() && !d.volatile { // also after an outage in which nothing came
		d.state.healthy(true)
	}
	if err := d.keepCursor(now); failed == nil {
		failed = err
	}
	if tight {
		d.rec.spool.Hollow(d.safeAt)
	}
	return failed
}

// deliver hands over what is due. What fails is tried again, whole: every step of it may be
// repeated.
func (d *delivery) deliver(ctx context.Context, now time.Time) error {
	if err := d.watchEpoch(ctx, now); err != nil {
		return err
	}
	if err := d.elsewhere(ctx, now); err != nil {
		return err
	}
	if done, err := d.catchUp(ctx, now); err != nil || !done {
		return err
	}
	if err := d.purgeForgotten(ctx); err != nil {
		return err
	}
	d.mergeReady()
	due := d.last || !now.Before(d.deliverAt) || len(d.tail.exchanges) >= 4*flushAt || d.tail.held >= tailBytes
	if !due || d.tail.empty() {
		return nil
	}
	if err := d.handOver(ctx, &d.tail); err != nil {
		d.makeRoom(err)
		return err
	}
	d.tail.reset()
	d.deliverAt = now.Add(d.opts.DeliverEvery)
	return nil
}

// mergeReady takes what is put down from the goroutine that does it.
func (d *delivery) mergeReady() {
	d.rec.mu.Lock()
	defer d.rec.mu.Unlock()
	if !d.rec.ready.empty() {
		d.tail.merge(&d.rec.ready)
		d.rec.ready.reset()
	}
}

// catchUp hands over what is in the spool alone, for as long as this may take. It says whether
// nothing is left of it.
func (d *delivery) catchUp(ctx context.Context, now time.Time) (done bool, err error) {
	limit, most := roundLimit, replayBytes
	switch {
	case d.last:
		limit = stopLimit
	case !d.started:
		limit, most = startLimit, startBytes
	}
	for {
		from, lagging := d.backlog()
		if !lagging {
			return true, nil
		}
		if d.opts.Now().Sub(now) > limit {
			return false, nil
		}
		d.state.held.Add(-d.tail.held) // it is read back with the rest
		d.tail = batch{}
		r := reader{from: d.rec.spool.Reader(), most: most, guard: d.guard}
		p, err := r.next(d.delivered.At, from)
		if err != nil {
			return false, err
		}
		if slices.ContainsFunc(p.voids, func(v void) bool { return v.Reason == droppedOptOut }) {
			d.scrubSpool() // a run that was killed did not come to it
		}
		if err := d.handOver(ctx, &p); err != nil {
			return false, err
		}
	}
}

// backlog says up to where what is put down must be read back, if it must.
func (d *delivery) backlog() (from spool.Place, lagging bool) {
	d.rec.mu.Lock()
	defer d.rec.mu.Unlock()
	if d.rec.lagging && !d.delivered.At.Before(d.rec.from) {
		d.rec.lagging = false
		d.state.lagging.Store(false)
		d.state.blind.Store(false)
		d.state.delivered.Store(d.rec.fromFlush)
	}
	return d.rec.from, d.rec.lagging
}

// makeRoom lets go of what the backend does not take and the spool holds anyway, before it crowds
// out what comes in.
func (d *delivery) makeRoom(err error) {
	switch {
	case d.rec.spool == nil:
		d.tail.rows = newestRows(d.tail.rows)
		d.tail.echoes = d.tail.echoes[max(0, len(d.tail.echoes)-maxEchoes):]
	case errors.Is(err, context.Canceled), d.tail.held < d.opts.HoldBytes/4 && len(d.tail.rows) < manyRows:
	default:
		d.rec.mu.Lock()
		defer d.rec.mu.Unlock()
		if !d.rec.lagging {
			d.tail.merge(&d.rec.ready)
			d.rec.ready, d.tail = d.tail, batch{}
			d.rec.leave()
		}
	}
}

// watchEpoch looks whether the backend has lost what it had taken, and goes back to where it was
// safe.
func (d *delivery) watchEpoch(ctx context.Context, now time.Time) error {
	be := d.opts.Fleet
	if be == nil || d.rec.spool == nil || now.Before(d.epochAt) {
		return nil
	}
	epoch, err := be.Epoch(ctx)
	if err != nil {
		return err
	}
	d.epochAt = now.Add(epochEvery)
	if d.epoch != "" && epoch != d.epoch {
		d.rec.mu.Lock()
		d.state.held.Add(-d.tail.held - d.rec.ready.held)
		d.delivered, d.marks, d.synced, d.tail, d.rec.ready = d.safe.clone(), nil, spool.Place{}, batch{}, batch{}
		d.rec.from, _ = d.rec.spool.End()
		d.rec.lagging, d.rec.fromFlush = true, d.rec.flushes
		d.state.lagging.Store(true)
		d.state.blind.Store(true)
		d.rec.mu.Unlock()
	}
	d.epoch = epoch
	return nil
}

// lag tells what still waits.
func (d *delivery) lag() {
	d.rec.mu.Lock()
	defer d.rec.mu.Unlock()
	d.oldest(d.opts.Now())
	n := int64(len(d.rec.next.exchanges) + d.rec.passing)
	if d.rec.spool != nil && d.rec.lagging {
		_, seq := d.rec.spool.End()
		n += max(seq-d.delivered.Admitted-int64(len(d.delivered.Open)), 0)
	} else {
		n += int64(len(d.rec.ready.exchanges) + len(d.tail.exchanges))
	}
	d.rec.in.mu.Lock()
	defer d.rec.in.mu.Unlock()
	d.tally.Pending.Store(n + int64(len(d.rec.in.queue)))
}

// hurry hands over what came, at once.
func (d *delivery) hurry(ctx context.Context) {
	d.rec.mu.Lock()
	d.rec.putAt = time.Time{}
	d.rec.mu.Unlock()
	d.retryAt, d.deliverAt = time.Time{}, time.Time{}
	d.flush(ctx)
}

// unwritten counts the exchanges that stand in memory alone.
func (d *delivery) unwritten() int {
	n := len(d.rec.next.exchanges)
	if d.rec.spool == nil {
		n += len(d.rec.ready.exchanges) + len(d.tail.exchanges)
	}
	return n
}
