package store

import (
	"context"
	"errors"
	"sync"
	"time"

	"precept/internal/label"
	"precept/internal/sample"
	"precept/internal/session"
	"precept/store/outbox"
)

const (
	epochEvery = time.Second
	syncEvery  = 5 * time.Second
	keepEvery  = time.Second
	startLimit = 20 * time.Millisecond  // a start may wait so long for what the last run left behind
	roundLimit = 150 * time.Millisecond // of reading back, before the shipper looks after other things
	stopLimit  = 3 * time.Second        // a stop may wait so long for a backlog, which stays in the outbox
	tailBytes  = 2 << 20                // of exchanges, beyond which the backend is not left alone any longer
	readBytes  = 4 << 20                // read back for one delivery
	startBytes = 1 << 17                // the same while a start waits
	// safeAge is how old a delivery to a server must be before its rows leave the outbox: a server
	// may lose what it acknowledged in its last seconds.
	safeAge = 15 * time.Second
)

// epochNote is the name of the note that holds the backend's epoch.
const epochNote = "epoch"

// epochs is a backend of a fleet. The epoch changes when the backend has lost something that it had
// taken.
type epochs interface {
	Epoch(ctx context.Context) (string, error)
}

// shipper brings what is durable to the backend, and deletes from the outbox what is safe there. It
// belongs to the owner of handing: one at a time delivers, forgets or closes.
type shipper struct {
	be      syncer
	fleet   epochs // nil: the backend is this process' own
	handoff *handoff
	writer  *writer
	tools   tools
	limits  shipperLimits
	// before is called before anything is delivered: what other replicas have forgotten must not be
	// written again.
	before func(ctx context.Context, now time.Time) error

	handing sync.Mutex

	tail  batch // taken from the handoff, and not delivered
	err   error // of the last attempt
	due   shipperDue
	safe  safety
	phase shipperPhase
}

// shipperLimits are what a shipper keeps within.
type shipperLimits struct {
	hold  int64         // bytes of exchanges in memory
	every time.Duration // how long the backend may be left alone
}

// shipperDue is when each work is due.
type shipperDue struct{ deliver, retry, epoch, sync, keep time.Time }

// shipperPhase is where a shipper is in its life.
type shipperPhase uint8

const (
	starting shipperPhase = iota // Open waits, a moment
	running
	stopping // nothing waits any longer
	volatile // the backend keeps nothing
)

// ship delivers what is due, and looks after the outbox. A failure leaves the recorder alone: it
// appends to the outbox meanwhile.
func (d *shipper) ship(ctx context.Context, now time.Time) {
	if now.Before(d.due.retry) {
		return
	}
	// A stop must not tear a write that is under way: the write is bounded by itself.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeLimit)
	defer cancel()
	d.err = d.tools.guard.Err(label.StepDeliver, func() error {
		if err := d.deliver(ctx, now); err != nil || d.phase == stopping {
			return err
		}
		return d.passBy(ctx)
	})
	tight := d.handoff.outbox != nil && errors.Is(d.err, session.ErrDiskFull)
	if tight {
		d.handoff.giveWay(now)
	}
	if failed := d.err; d.phase != starting { // a start does not wait for the disk
		d.err = d.tools.guard.Err(label.StepSecure, func() error { return d.secure(ctx, now, failed, tight) })
	}
	if d.err != nil && !errors.Is(d.err, ErrVolatile) {
		d.tools.tally.WriteErrors.Add(1)
		d.tools.failed(stepOf(d.err), d.err)
		d.due.retry = now.Add(retryAfter)
	}
}

// deliver hands over what is due. After a failure everything is tried again: each step may be
// repeated.
func (d *shipper) deliver(ctx context.Context, now time.Time) error {
	if err := d.watchEpoch(ctx, now); err != nil {
		return err
	}
	if err := d.before(ctx, now); err != nil {
		return err
	}
	if done, err := d.catchUp(ctx, now); err != nil || !done {
		return err
	}
	d.handoff.take(&d.tail)
	due := d.phase == stopping || !now.Before(d.due.deliver) || len(d.tail.exchanges) >= 4*flushAt || d.tail.held >= tailBytes
	if !due || d.tail.empty() {
		return nil
	}
	if err := d.handOver(ctx, &d.tail); err != nil {
		d.makeRoom(err)
		return err
	}
	d.tail.reset()
	d.due.deliver = now.Add(d.limits.every)
	return nil
}

// watchEpoch looks whether the backend has lost what it had taken. Then every row that is left is
// delivered again.
func (d *shipper) watchEpoch(ctx context.Context, now time.Time) error {
	if d.fleet == nil || d.handoff.outbox == nil || now.Before(d.due.epoch) {
		return nil
	}
	epoch, err := d.fleet.Epoch(ctx)
	if err != nil {
		return err
	}
	d.due.epoch = now.Add(epochEvery)
	if epoch == d.safe.epoch {
		return nil
	}
	if d.safe.epoch != "" {
		if err := d.handoff.outbox.Rewind(); err != nil {
			return &stepError{label.StepSpool, err}
		}
		d.safe.marks, d.safe.synced = nil, 0
		d.dropTail()
		d.handoff.readAgain()
	}
	d.safe.epoch = epoch
	if err := d.handoff.outbox.SetNote(epochNote, epoch); err != nil { // a restart then delivers more than it must
		d.tools.failed(label.StepSpool, err)
	}
	return nil
}

// dropTail lets go of what was taken: it is read back with the rest.
func (d *shipper) dropTail() {
	d.tools.state.held.Add(-d.tail.held)
	d.tail = batch{}
}

// catchUp delivers what is in the outbox alone, for as long as this may take. It reports whether
// nothing is left of that.
func (d *shipper) catchUp(ctx context.Context, now time.Time) (done bool, err error) {
	limit, most := roundLimit, int64(readBytes)
	switch d.phase {
	case stopping:
		limit = stopLimit
	case starting:
		limit, most = startLimit, startBytes
	default:
	}
	if d.tools.state.reread.Swap(false) {
		d.dropTail()
		d.handoff.readAgain()
	}
	for {
		until, lagging := d.handoff.backlog()
		if !lagging {
			return true, nil
		}
		if d.tools.now().Sub(now) > limit {
			return false, nil
		}
		d.dropTail()
		at, _ := d.handoff.outbox.Delivered()
		rows, err := d.handoff.outbox.Read(at, until, most)
		if err != nil {
			return false, &stepError{label.StepReadBack, err}
		}
		if len(rows) == 0 { // what stood there is lost, and counted
			d.handoff.arrived(until)
			continue
		}
		var b batch
		for i := range rows {
			b.add(&rows[i], d.tools.guard)
		}
		if err := d.handOver(ctx, &b); err != nil {
			return false, err
		}
	}
}

// makeRoom lets go of what the backend does not take and the outbox holds anyway.
func (d *shipper) makeRoom(err error) {
	switch {
	case d.handoff.outbox == nil:
		d.tail.rows = newestRows(d.tail.rows)
		d.tail.echoes = d.tail.echoes[max(0, len(d.tail.echoes)-maxEchoes):]
	case errors.Is(err, context.Canceled), d.tail.held < d.limits.hold/4 && len(d.tail.rows) < manyRows:
	default:
		d.handoff.putBack(&d.tail)
	}
}

// handOver gives a batch to the backend, and notes that in the account.
func (d *shipper) handOver(ctx context.Context, b *batch) error {
	stubs := d.writer.tombs.left(session.Batch{Exchanges: b.stubs})
	if err := d.writer.put(ctx, stubs); err != nil {
		return &stepError{label.StepWrite, err}
	}
	err := d.writer.write(ctx, b)
	if errors.Is(err, ErrVolatile) { // nobody else knows the sessions: they stay within reach
		d.tools.tally.DroppedReadOnly.Add(int64(len(b.exchanges)))
		d.tools.state.held.Add(-b.held)
		d.tools.state.delivered.Store(b.flush)
		d.phase = volatile
		d.tools.state.healthy(false)
		return nil
	}
	if err != nil {
		return err
	}
	refused := d.count(b)
	d.tools.tally.Incomplete.Add(int64(len(stubs.Exchanges)))
	if d.handoff.outbox != nil {
		d.handoff.outbox.Advance(b.last, int64(len(b.exchanges))+b.counted+b.damaged, refused)
		d.handoff.arrived(b.last)
	}
	return nil
}

// count counts a batch that the backend has, and returns how many of its exchanges are dropped, by
// reason.
func (d *shipper) count(b *batch) (refused map[string]int64) {
	refused = map[string]int64{}
	if b.damaged > 0 {
		refused[outbox.DroppedDamaged] = b.damaged
	}
	for i := range b.exchanges {
		switch b.exchanges[i].Outcome {
		case refusedOutcome:
			refused[droppedBad]++
			d.tools.tally.DroppedBad.Add(1)
			continue
		case sample.Complete:
		default:
			d.tools.tally.Incomplete.Add(1)
		}
		d.tools.tally.Exchanges.Add(1)
	}
	d.tools.state.held.Add(-b.held)
	if b.flush > 0 {
		d.tools.state.delivered.Store(b.flush)
	}
	d.tools.state.healthy(true)
	return refused
}
