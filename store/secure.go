package store

import (
	"context"
	"errors"
	"time"

	"precept/internal/label"
	"precept/store/outbox"
)

// syncer writes a backend's acknowledged data to the disk. Data written before Sync survives a power failure.
type syncer interface {
	Sync(ctx context.Context) error
}

// syncTracker finds the safe rows, those that the backend synced to the disk at least age ago. Rows are identified by
// their sequence numbers in the outbox.
type syncTracker struct {
	age        time.Duration // a row is safe when it was synced this long ago
	syncPoints []syncPoint
	synced     int64  // last row covered by a sync
	lastSafe   int64  // last safe row
	epoch      string // backend's last seen epoch
}

type syncPoint struct {
	at      time.Time
	lastRow int64
}

// syncAndRelease syncs the backend, and deletes safe rows from the outbox. If the backend's disk is full (diskFull), it
// syncs even after a failed delivery, and frees the disk space that the outbox reserves. The error joins deliveryErr
// and the sync error or, if both are nil, comes from deleting the rows.
func (s *deliverer) syncAndRelease(ctx context.Context, now time.Time, deliveryErr error, diskFull bool) error {
	firstErr := deliveryErr
	box := s.handoff.outbox
	releaseNow := s.handoff.takeReleaseRequest() // the outbox had no room since the last call
	due := box != nil && (!now.Before(s.due.sync) || releaseNow)
	if due && (firstErr == nil || diskFull) {
		if err := s.sync(ctx, now); err != nil {
			firstErr = errors.Join(firstErr, &stepError{label.StepSync, err})
		}
	}
	if firstErr != nil {
		s.deps.state.recordWrite(false)
	} else if s.undelivered.isEmpty() { // an outage is over even if no row was written after it
		s.deps.state.recordWrite(true)
	}
	if box == nil {
		return firstErr
	}
	var err error
	if !now.Before(s.due.release) || releaseNow || s.phase == stopping {
		s.due.release = now.Add(releaseEvery)
		err = box.Release(s.tracker.lastSafe)
	}
	if err == nil && due {
		err = box.Tidy()
	}
	if diskFull {
		box.FreeSpace()
	}
	if err != nil && firstErr == nil {
		firstErr = &stepError{label.StepOutbox, err}
	}
	return firstErr
}

func (s *deliverer) sync(ctx context.Context, now time.Time) error {
	s.due.sync = now.Add(syncEvery)
	safe := &s.tracker
	if to, _ := s.handoff.outbox.Delivered(); to != safe.synced {
		if err := s.backend.Sync(ctx); err != nil {
			return err
		}
		safe.synced = to
		safe.syncPoints = append(safe.syncPoints, syncPoint{now, to})
	}
	for len(safe.syncPoints) > 0 && now.Sub(safe.syncPoints[0].at) >= safe.age {
		safe.lastSafe, safe.syncPoints = safe.syncPoints[0].lastRow, safe.syncPoints[1:]
	}
	return nil
}

// close deletes safe rows, and closes the outbox; closing writes the exchange counts (the account).
func (s *deliverer) close() error {
	if s.handoff.outbox == nil {
		return nil
	}
	return errors.Join(s.handoff.outbox.Release(s.tracker.lastSafe), s.handoff.outbox.Close())
}

// lagError returns why rows are missing from the backend. It returns nil if none are missing, or if the backend stores
// nothing.
func (s *deliverer) lagError() error {
	lagging, appendErr := s.handoff.lagAndAppendError()
	switch {
	case errors.Is(s.err, ErrNullBackend):
		return nil
	case appendErr == nil && s.err == nil && lagging:
		return errBacklog
	}
	return errors.Join(appendErr, s.err)
}

// bypassFullDisk delivers rows to a shared backend without the outbox, if this machine's disk is full. If the backend
// loses these rows, no copy is left.
func (s *deliverer) bypassFullDisk(ctx context.Context) error {
	if s.epochReader == nil || s.handoff.outbox == nil {
		return nil
	}
	if _, err := s.handoff.lagAndAppendError(); !errors.Is(err, outbox.ErrFull) {
		return nil
	}
	return s.bypass(ctx)
}

// bypass delivers the rows that do not fit into the outbox, once all outbox rows are delivered. Appends pause during
// this delivery, so that the rows stay in order.
func (s *deliverer) bypass(ctx context.Context) error {
	if s.handoff.outbox == nil || !s.undelivered.isEmpty() {
		return nil
	}
	b, ok := s.handoff.takeForBypass()
	if !ok {
		return nil
	}
	err := s.writer.write(ctx, &b)
	s.handoff.endBypass(&b, err)
	if err != nil {
		return err
	}
	refused := s.countDelivered(&b)
	f := outbox.Flush{Ended: b.endedIDs, Dropped: b.dropped, Scrub: b.scrub}
	for reason, n := range refused {
		if f.Dropped == nil {
			f.Dropped = map[string]int64{}
		}
		f.Dropped[reason] += n
	}
	s.handoff.outbox.CountBypassed(int64(len(b.exchanges))+b.forgottenCount-refused[droppedBad], &f)
	return nil
}
