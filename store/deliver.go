package store

import (
	"context"
	"errors"
	"os"
	"sync"
	"time"

	"precept/internal/label"
	"precept/internal/sample"
	"precept/internal/session"
	"precept/store/outbox"
)

const (
	epochEvery    = time.Second            // pause between two checks of the backend's epoch
	syncEvery     = 5 * time.Second        // pause between two syncs of the backend
	releaseEvery  = time.Second            // pause between two deletions of safe rows
	startLimit    = 20 * time.Millisecond  // maximum time that a start waits for the rows of the previous run
	roundLimit    = 150 * time.Millisecond // maximum time to read rows back in one round of the shipper
	stopLimit     = 3 * time.Second        // maximum time to deliver a backlog at a stop; the rest stays in the outbox
	tailBytes     = 2 << 20                // bytes of undelivered exchanges at which a delivery starts without a pause
	readBytes     = 4 << 20                // maximum bytes read back from the outbox for one delivery
	minReadBytes  = 1 << 12                // bytes read back for one delivery after deliveries that took too long
	startBytes    = 1 << 17                // maximum bytes read back for one delivery during a start
	overtakeBytes = 1 << 20                // maximum bytes read back for one call of overtake
	raiseAfter    = 8                      // deliveries in time after which the next deliveries may be larger
	overtakeRows  = 10_000                 // maximum number of rows that one call of overtake examines
	// safeAge is the time between a delivery to a backend server and the deletion of its rows from the outbox. A
	// server that dies may lose the writes that it acknowledged in its last seconds.
	safeAge = 15 * time.Second
)

// epochNote is the key under which the outbox keeps the backend's epoch.
const epochNote = "epoch"

// epochs is the part of a shared backend that reveals a loss of acknowledged data. After a loss, Epoch returns
// another value.
type epochs interface {
	Epoch(ctx context.Context) (string, error)
}

// shipper writes rows of the outbox to the backend, and deletes safe rows from the outbox. A row is safe
// when the backend cannot lose the row any more. Only the holder of deliveryMu uses the shipper: one
// goroutine at a time delivers rows, deletes sessions or closes sessions.
type shipper struct {
	backend syncer
	fleet   epochs // nil means this process owns the backend
	handoff *handoff
	writer  *writer
	deps    deps
	limits  shipperLimits
	// before runs before each delivery, and repeats the deletions of other replicas. Otherwise the
	// delivery would write deleted sessions again.
	beforeDelivery func(ctx context.Context, now time.Time) error

	deliveryMu sync.Mutex

	undelivered batch // rows that the shipper took from the handoff and has not delivered
	err         error // error of the last delivery
	slow        int   // divisions of maxRead by 4, because deliveries took too long
	inTime      int   // deliveries in time since the last change of slow
	overtakenTo int64 // sequence number up to which overtake has delivered rows; these rows are later delivered again in order
	due         shipperDue
	safe        safety
	phase       shipperPhase
}

// shipperLimits are the limits of a shipper.
type shipperLimits struct {
	bytes int64         // maximum size of the exchanges in memory
	every time.Duration // longest pause between two deliveries (QueueOptions.DeliverEvery)
}

// shipperDue holds the next time of each periodic task.
type shipperDue struct{ deliver, retry, epoch, sync, release time.Time }

// shipperPhase is the progress in the life of a shipper.
type shipperPhase uint8

const (
	starting shipperPhase = iota // in Open, which waits for at most startLimit
	running                      // rows wait for the next due delivery
	stopping                     // rows are shipped without delay
)

// ship delivers due rows, and deletes safe rows from the outbox. A failure does not affect the
// recorder, which appends to the outbox meanwhile.
func (d *shipper) ship(ctx context.Context, now time.Time) {
	if now.Before(d.due.retry) {
		return
	}
	// A stop must not interrupt a write in progress. The write has its own time limit.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeLimit)
	defer cancel()
	d.err = d.deps.guard.Err(label.StepDeliver, func() error {
		if err := d.deliver(ctx, now); err != nil || d.phase == stopping {
			return err
		}
		return d.bypassFullDisk(ctx)
	})
	diskFull := d.handoff.outbox != nil && errors.Is(d.err, session.ErrDiskFull)
	if diskFull {
		d.handoff.yieldDisk(now)
	}
	if failed := d.err; d.phase != starting { // a start does not wait for the disk
		d.err = d.deps.guard.Err(label.StepSecure, func() error { return d.secure(ctx, now, failed, diskFull) })
	}
	if d.err != nil && !errors.Is(d.err, ErrVolatile) {
		d.deps.tally.WriteErrors.Add(1)
		d.deps.failed(stepOf(d.err), d.err)
		d.due.retry = now.Add(retryAfter)
	}
}

// deliver writes the backlog to the backend, then the rows of the handoff if a delivery is due. Each step is
// idempotent, and after a failure the next call repeats all steps.
func (d *shipper) deliver(ctx context.Context, now time.Time) error {
	if err := d.watchEpoch(ctx, now); err != nil {
		return err
	}
	if err := d.beforeDelivery(ctx, now); err != nil {
		return err
	}
	if done, err := d.catchUp(ctx, now); err != nil || !done {
		return err
	}
	d.handoff.takeReady(&d.undelivered)
	due := d.phase == stopping || !now.Before(d.due.deliver) || len(d.undelivered.exchanges) >= 4*flushAt || d.undelivered.heldBytes >= tailBytes
	if !due || d.undelivered.isEmpty() {
		return nil
	}
	if err := d.writeBatch(ctx, &d.undelivered); err != nil {
		d.makeRoom(err)
		return err
	}
	d.undelivered.reset()
	d.due.deliver = now.Add(d.limits.every)
	return nil
}

// watchEpoch checks whether the backend has lost acknowledged data. If so, every remaining row is
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
		d.safe.syncPoints, d.safe.synced, d.overtakenTo = nil, 0, 0
		d.dropUndelivered()
		d.handoff.rereadAll()
	}
	d.safe.epoch = epoch
	if err := d.handoff.outbox.SetNote(epochNote, epoch); err != nil { // without the note, a restart delivers some rows twice
		d.deps.failed(label.StepSpool, err)
	}
	return nil
}

// dropUndelivered removes the undelivered rows from memory. The shipper reads the rows back from the outbox later.
func (d *shipper) dropUndelivered() {
	d.deps.state.heldBytes.Add(-d.undelivered.heldBytes)
	d.undelivered = batch{}
}

// catchUp delivers the backlog, the rows that only the outbox has, within a time limit. done reports
// whether the backlog is empty.
func (d *shipper) catchUp(ctx context.Context, now time.Time) (done bool, err error) {
	limit, maxBytes := roundLimit, int64(readBytes)
	switch d.phase {
	case stopping:
		limit = stopLimit
	case starting:
		limit, maxBytes = startLimit, startBytes
	default:
	}
	if d.deps.state.mustReread.Swap(false) {
		d.dropUndelivered()
		d.handoff.rereadAll()
	}
	for {
		until, lagging := d.handoff.backlog()
		if !lagging {
			return true, nil
		}
		if d.deps.now().Sub(now) > limit {
			return false, nil
		}
		d.dropUndelivered()
		delivered, _ := d.handoff.outbox.Delivered()
		rows, err := d.handoff.outbox.Read(delivered, until, min(maxBytes, d.maxRead()))
		if err != nil {
			return false, &stepError{label.StepReadBack, err}
		}
		if len(rows) == 0 { // the rows were lost with a damaged file, and the outbox has counted the loss
			d.handoff.setTaken(until)
			continue
		}
		var b batch
		for i := range rows {
			b.addRow(&rows[i], d.deps.guard)
		}
		if err := d.writeBatch(ctx, &b); err != nil {
			return false, err
		}
		if d.phase == running {
			if err := d.overtake(ctx, until); err != nil {
				return false, err
			}
		}
	}
}

// overtake delivers rows of other tenants before the rows of tenants with a large backlog. Otherwise the exchanges of
// all tenants would wait for this backlog: half a minute for a backlog of 900 MB. overtake does not advance the
// delivered position of the outbox. When their turn comes, the rows are delivered again, without effect, and counted
// in the account.
func (d *shipper) overtake(ctx context.Context, until int64) error {
	crowdingTenants := d.handoff.outbox.Crowding(readBytes)
	if len(crowdingTenants) == 0 {
		return nil
	}
	if delivered, last := d.handoff.outbox.Delivered(); d.overtakenTo < delivered || d.overtakenTo > last {
		d.overtakenTo = delivered
	}
	rows, ahead, err := d.handoff.outbox.ReadOthers(d.overtakenTo, min(until, d.overtakenTo+overtakeRows), min(overtakeBytes, d.maxRead()), crowdingTenants)
	if err != nil {
		return &stepError{label.StepReadBack, err}
	}
	var b batch
	for i := range rows {
		b.addRow(&rows[i], d.deps.guard)
	}
	if err := d.writer.write(ctx, &b); err != nil && !errors.Is(err, ErrVolatile) {
		d.adjustMaxRead(err)
		return err
	}
	d.overtakenTo = ahead
	return nil
}

// makeRoom frees memory after a failed delivery. With an outbox, the undelivered rows leave memory if they take too
// much of it, or if their delivery took too long. Without an outbox, the older rows of each session and the oldest echo
// keys are dropped.
func (d *shipper) makeRoom(err error) {
	if d.handoff.outbox == nil {
		d.undelivered.rows = newestRows(d.undelivered.rows)
		d.undelivered.echoes = d.undelivered.echoes[max(0, len(d.undelivered.echoes)-maxEchoes):]
		return
	}
	tooSlow := isTimeout(err) && d.undelivered.heldBytes > d.maxRead()
	tooLarge := d.undelivered.heldBytes >= d.limits.bytes/4 || len(d.undelivered.rows) >= manyRows
	if tooSlow || tooLarge && !errors.Is(err, context.Canceled) {
		d.handoff.returnBatch(&d.undelivered) // the shipper reads the rows back in smaller batches
	}
}

// maxRead returns the maximum number of bytes read back for one delivery. Deliveries that take too long reduce the
// maximum, because the same batch would take too long again. A delivery has at least one row, of about pieceBytes at
// most.
func (d *shipper) maxRead() int64 { return max(minReadBytes, int64(readBytes)>>(2*d.slow)) }

// adjustMaxRead adjusts maxRead to the result of a delivery.
func (d *shipper) adjustMaxRead(err error) {
	switch {
	case isTimeout(err):
		d.slow, d.inTime = min(d.slow+1, 5), 0
	case err == nil && d.slow > 0:
		if d.inTime++; d.inTime == raiseAfter {
			d.slow, d.inTime = d.slow-1, 0
		}
	}
}

// isTimeout reports whether a call ended at writeLimit or at the time limit of a connection.
func isTimeout(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded)
}

// writeBatch writes a batch to the backend, and counts its exchanges in the tally and in the account of the
// outbox (outbox.Account).
func (d *shipper) writeBatch(ctx context.Context, b *batch) error {
	stubs := d.writer.tombstones.withoutDeleted(session.Batch{Exchanges: b.interrupted})
	if err := d.writer.writeSessions(ctx, stubs); err != nil {
		return &stepError{label.StepWrite, err}
	}
	err := d.writer.write(ctx, b)
	d.adjustMaxRead(err)
	if errors.Is(err, ErrVolatile) { // without a backend, the sessions must stay in memory
		d.deps.tally.DroppedReadOnly.Add(int64(len(b.exchanges)))
		d.deps.state.heldBytes.Add(-b.heldBytes)
		d.deps.state.delivered.Store(b.flushNumber)
		return nil
	}
	if err != nil {
		return err
	}
	refused := d.countDelivered(b)
	d.deps.tally.Incomplete.Add(int64(len(stubs.Exchanges)))
	if d.handoff.outbox != nil {
		d.handoff.outbox.Advance(b.lastSequence, int64(len(b.exchanges))+b.forgotten+b.damaged, refused)
		d.handoff.outbox.DropIncomplete(b.undecodableStubs)
		d.handoff.setTaken(b.lastSequence)
	}
	return nil
}

// countDelivered updates tally and state after the delivery of a batch. refused is the number of exchanges of the
// batch that were not stored, by reason.
func (d *shipper) countDelivered(b *batch) (refused map[string]int64) {
	refused = map[string]int64{}
	if b.damaged > 0 {
		refused[outbox.DroppedDamaged] = b.damaged
	}
	for i := range b.exchanges {
		switch b.exchanges[i].Outcome {
		case refusedOutcome:
			refused[droppedBad]++
			d.deps.tally.DroppedBad.Add(1)
			continue
		case sample.Complete:
		default:
			d.deps.tally.Incomplete.Add(1)
		}
		d.deps.tally.Exchanges.Add(1)
	}
	d.deps.state.heldBytes.Add(-b.heldBytes)
	if b.flushNumber > 0 {
		d.deps.state.delivered.Store(b.flushNumber)
	}
	d.deps.state.recordWrite(true)
	return refused
}
