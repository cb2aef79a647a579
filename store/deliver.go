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
	epochEvery       = time.Second            // pause between epoch checks (see epochReader)
	syncEvery        = 5 * time.Second        // pause between backend syncs
	releaseEvery     = time.Second            // pause between deletions of rows that the backend can no longer lose
	startLimit       = 20 * time.Millisecond  // longest delivery in Open, for rows from the previous process
	roundLimit       = 150 * time.Millisecond // longest time to read rows in one round
	stopLimit        = 3 * time.Second        // longest delivery when stopping; the rest stays in the outbox
	deliverNowBytes  = 2 << 20                // undelivered bytes that start a delivery without a pause
	readBytes        = 4 << 20                // most bytes read back for one delivery
	minReadBytes     = 1 << 12                // smallest maxRead, after deliveries that took too long
	startBytes       = 1 << 17                // most bytes read back for one delivery in Open
	otherTenantBytes = 1 << 20                // bytes read per deliverOtherTenants call
	growAfter        = 8                      // timely deliveries after which maxRead grows again
	otherTenantRows  = 10_000                 // rows examined per deliverOtherTenants call
	// safeAge is the age at which delivered rows are deleted from the outbox. A backend server that dies can lose the
	// writes of its last few seconds.
	safeAge = 15 * time.Second
)

// epochNote is the outbox note with the backend's last seen epoch.
const epochNote = "epoch"

// epochReader reveals when a shared backend has lost acknowledged data: Epoch returns a different value after each
// loss.
type epochReader interface {
	Epoch(ctx context.Context) (string, error)
}

// deliverer writes outbox rows to the backend, and deletes safe rows, those that the backend can no longer lose. Only
// the holder of deliveryMu delivers rows, deletes sessions or closes sessions.
type deliverer struct {
	backend     syncer
	epochReader epochReader // nil means this process owns the backend
	handoff     *handoff
	writer      *writer
	deps        sharedDeps
	limits      delivererLimits
	direct      *directWrites
	// beforeDelivery repeats other replicas' deletions before each delivery.
	beforeDelivery func(ctx context.Context, now time.Time) error

	deliveryMu sync.Mutex

	undelivered         batch // rows from the handoff
	err                 error
	readReductions      int   // how many times readBytes is divided by 4
	timelyDeliveries    int   // since the last change of readReductions
	deliveredOutOfOrder int64 // last row read by deliverOtherTenants; catchUp delivers these rows again in order
	due                 delivererDue
	tracker             syncTracker
	phase               delivererPhase
}

type delivererLimits struct {
	maxBytes        int64         // largest total size for exchanges in memory
	deliverInterval time.Duration // longest pause between deliveries (QueueOptions.DeliverEvery)
}

// delivererDue holds the earliest time for the next run of each step. After a failure, no step runs before retry.
type delivererDue struct{ deliver, retry, epoch, sync, release time.Time }

type delivererPhase uint8

const (
	starting delivererPhase = iota // Open waits, for at most startLimit
	running                        // rows wait for the next due delivery
	stopping                       // rows are delivered without delay
)

// runRound delivers due rows, then syncs the backend and deletes safe rows. After a failure, it does nothing until
// due.retry.
func (s *deliverer) runRound(ctx context.Context, now time.Time) {
	if now.Before(s.due.retry) {
		return
	}
	// A shutdown must not interrupt a write in progress; the write has a time limit.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeLimit)
	defer cancel()
	s.err = s.deps.guard.RunErr(label.StepDeliver, func() error {
		if err := s.deliver(ctx, now); err != nil || s.phase == stopping {
			return err
		}
		return s.bypassFullDisk(ctx)
	})
	diskFull := s.handoff.outbox != nil && errors.Is(s.err, session.ErrDiskFull)
	if diskFull {
		s.handoff.pauseAppends(now)
	}
	if deliveryErr := s.err; s.phase != starting { // Open does not wait for the disk
		s.err = s.deps.guard.RunErr(label.StepCheckpoint, func() error { return s.syncAndRelease(ctx, now, deliveryErr, diskFull) })
	}
	if s.err != nil && !errors.Is(s.err, ErrNullBackend) {
		s.deps.metrics.WriteErrors.Add(1)
		s.deps.onFailure(failedStep(s.err), s.err)
		s.due.retry = now.Add(retryAfter)
	}
}

// deliver writes the backlog (rows that only the outbox has) to the backend, then the handoff's rows if a delivery is
// due. After a failure the next call repeats all steps.
func (s *deliverer) deliver(ctx context.Context, now time.Time) error {
	if err := s.checkEpoch(ctx, now); err != nil {
		return err
	}
	if err := s.beforeDelivery(ctx, now); err != nil {
		return err
	}
	if done, err := s.catchUp(ctx, now); err != nil || !done {
		return err
	}
	s.handoff.takeReady(&s.undelivered)
	due := s.phase == stopping || !now.Before(s.due.deliver) || len(s.undelivered.exchanges) >= 4*flushAt || s.undelivered.heldBytes >= deliverNowBytes
	if !due || s.undelivered.isEmpty() {
		return nil
	}
	if err := s.writeBatch(ctx, &s.undelivered); err != nil {
		s.makeRoom(err)
		return err
	}
	s.undelivered.reset()
	s.due.deliver = now.Add(s.limits.deliverInterval)
	return nil
}

// checkEpoch checks whether the backend's epoch has changed, which means that the backend has lost acknowledged data.
// If so, checkEpoch marks all outbox rows as undelivered, and repeats the direct writes.
func (s *deliverer) checkEpoch(ctx context.Context, now time.Time) error {
	if s.epochReader == nil || s.handoff.outbox == nil || now.Before(s.due.epoch) {
		return nil
	}
	epoch, err := s.epochReader.Epoch(ctx)
	if err != nil {
		return err
	}
	s.due.epoch = now.Add(epochEvery)
	if epoch == s.tracker.epoch {
		s.direct.drop(func(w *directWrite) bool { return now.Sub(w.at) > safeAge })
		return nil
	}
	if s.tracker.epoch != "" {
		if err := s.handoff.outbox.Rewind(); err != nil {
			return &stepError{label.StepOutbox, err}
		}
		s.tracker.syncPoints, s.tracker.synced, s.deliveredOutOfOrder = nil, 0, 0
		s.dropUndelivered()
		s.handoff.rereadAll()
		s.direct.repeat(ctx)
	}
	s.tracker.epoch = epoch
	if err := s.handoff.outbox.SetNote(epochNote, epoch); err != nil { // without the note, a restart delivers some rows twice
		s.deps.onFailure(label.StepOutbox, err)
	}
	return nil
}

func (s *deliverer) dropUndelivered() {
	s.deps.state.heldBytes.Add(-s.undelivered.heldBytes)
	s.undelivered = batch{}
}

// catchUp delivers rows that only the outbox has. done is false if the time limit ended the delivery first.
func (s *deliverer) catchUp(ctx context.Context, now time.Time) (done bool, err error) {
	limit, maxBytes := roundLimit, int64(readBytes)
	switch s.phase {
	case stopping:
		limit = stopLimit
	case starting:
		limit, maxBytes = startLimit, startBytes
	default:
	}
	if s.deps.state.mustReread.Swap(false) {
		s.dropUndelivered()
		s.handoff.rereadAll()
	}
	for {
		until, lagging := s.handoff.backlog()
		if !lagging {
			return true, nil
		}
		if s.deps.now().Sub(now) > limit {
			return false, nil
		}
		s.dropUndelivered()
		delivered, _ := s.handoff.outbox.Delivered()
		rows, err := s.handoff.outbox.Read(delivered, until, min(maxBytes, s.maxRead()))
		if err != nil {
			return false, &stepError{label.StepReadBack, err}
		}
		if len(rows) == 0 { // the rows were lost with a damaged file; the outbox has counted the loss
			s.handoff.setTaken(until)
			continue
		}
		var b batch
		for i := range rows {
			b.addRow(&rows[i], s.deps.guard)
		}
		if err := s.writeBatch(ctx, &b); err != nil {
			return false, err
		}
		if s.phase == running {
			if err := s.deliverOtherTenants(ctx, until); err != nil {
				return false, err
			}
		}
	}
}

// deliverOtherTenants delivers rows from tenants without a large backlog, out of order. Otherwise one tenant's 900 MB
// backlog would delay all tenants by half a minute. catchUp later delivers these rows again, without effect, and counts
// the exchanges.
func (s *deliverer) deliverOtherTenants(ctx context.Context, until int64) error {
	crowdingTenants := s.handoff.outbox.LargestTenants(readBytes)
	if len(crowdingTenants) == 0 {
		return nil
	}
	if delivered, last := s.handoff.outbox.Delivered(); s.deliveredOutOfOrder < delivered || s.deliveredOutOfOrder > last {
		s.deliveredOutOfOrder = delivered
	}
	rows, lastRead, err := s.handoff.outbox.ReadExcept(s.deliveredOutOfOrder, min(until, s.deliveredOutOfOrder+otherTenantRows), min(otherTenantBytes, s.maxRead()), crowdingTenants)
	if err != nil {
		return &stepError{label.StepReadBack, err}
	}
	var b batch
	for i := range rows {
		b.addRow(&rows[i], s.deps.guard)
	}
	if err := s.writer.write(ctx, &b); err != nil && !errors.Is(err, ErrNullBackend) {
		s.adjustMaxRead(err)
		return err
	}
	s.deliveredOutOfOrder = lastRead
	return nil
}

// makeRoom frees memory after a failed delivery. With an outbox, rows leave memory if they are too large or took too
// long to deliver. Without one, makeRoom drops each session's older rows and the oldest echo keys.
func (s *deliverer) makeRoom(err error) {
	if s.handoff.outbox == nil {
		s.undelivered.rows = newestRows(s.undelivered.rows)
		s.undelivered.echoes = s.undelivered.echoes[max(0, len(s.undelivered.echoes)-maxEchoes):]
		return
	}
	tooSlow := isTimeout(err) && s.undelivered.heldBytes > s.maxRead()
	tooLarge := s.undelivered.heldBytes >= s.limits.maxBytes/4 || len(s.undelivered.rows) >= maxHeldRows
	if tooSlow || tooLarge && !errors.Is(err, context.Canceled) {
		s.handoff.dropFromMemory(&s.undelivered) // to be read back in smaller batches
	}
}

// maxRead returns how many bytes to read back for one delivery. The limit shrinks after slow deliveries.
func (s *deliverer) maxRead() int64 { return max(minReadBytes, int64(readBytes)>>(2*s.readReductions)) }

// adjustMaxRead divides maxRead by 4 after a timeout, and multiplies it by 4 after growAfter timely deliveries.
func (s *deliverer) adjustMaxRead(err error) {
	switch {
	case isTimeout(err):
		s.readReductions, s.timelyDeliveries = min(s.readReductions+1, 5), 0
	case err == nil && s.readReductions > 0:
		if s.timelyDeliveries++; s.timelyDeliveries == growAfter {
			s.readReductions, s.timelyDeliveries = s.readReductions-1, 0
		}
	}
}

func isTimeout(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded)
}

// writeBatch writes a batch to the backend, and counts the exchanges in the metrics and in the outbox's account.
func (s *deliverer) writeBatch(ctx context.Context, b *batch) error {
	stubs := s.writer.tombstones.withoutDeleted(session.Batch{Exchanges: b.interruptedTurns})
	if err := s.writer.writeSessions(ctx, stubs); err != nil {
		return &stepError{label.StepWrite, err}
	}
	err := s.writer.write(ctx, b)
	s.adjustMaxRead(err)
	if errors.Is(err, ErrNullBackend) { // all exchanges are dropped
		s.deps.metrics.DroppedReadOnly.Add(int64(len(b.exchanges)))
		s.deps.state.heldBytes.Add(-b.heldBytes)
		s.deps.state.delivered.Store(b.flushNumber)
		return nil
	}
	if err != nil {
		return err
	}
	refused := s.countDelivered(b)
	s.deps.metrics.Incomplete.Add(int64(len(stubs.Exchanges)))
	if s.handoff.outbox != nil {
		s.handoff.outbox.MarkDelivered(b.lastSequence, int64(len(b.exchanges))+b.forgottenCount+b.damagedCount, refused)
		s.handoff.outbox.DropIncomplete(b.undecodableStubCount)
		s.handoff.setTaken(b.lastSequence)
	}
	return nil
}

func (s *deliverer) countDelivered(b *batch) (refused map[string]int64) {
	refused = map[string]int64{}
	if b.damagedCount > 0 {
		refused[outbox.DroppedDamaged] = b.damagedCount
	}
	for i := range b.exchanges {
		switch b.exchanges[i].Outcome {
		case refusedOutcome:
			refused[droppedBad]++
			s.deps.metrics.DroppedBad.Add(1)
			continue
		case sample.Complete:
		default:
			s.deps.metrics.Incomplete.Add(1)
		}
		s.deps.metrics.Exchanges.Add(1)
	}
	s.deps.state.heldBytes.Add(-b.heldBytes)
	if b.flushNumber > 0 {
		s.deps.state.delivered.Store(b.flushNumber)
	}
	s.deps.state.recordWrite(true)
	return refused
}
