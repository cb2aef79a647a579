package store

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"precept/internal/label"
)

const (
	flushEvery = 50 * time.Millisecond // pause between recorder runs, and between deliverer runs
	purgeEvery = time.Second           // pause between checks for old sessions
)

// Run records offered turns in the outbox, and delivers the outbox to the backend. After ctx ends, Run writes
// everything in memory; the error reports rows that could not be written. After a panic, Run continues without the
// session or exchange that caused it.
func (s *Store) Run(ctx context.Context) error {
	defer func() {
		if ctx.Err() != nil { // else a panic ended Run, and the caller calls Run again
			s.done.close()
		}
	}()
	var shipping sync.WaitGroup
	shipping.Go(func() { s.runDeliverer(ctx) })
	tick := time.NewTicker(flushEvery)
	defer tick.Stop()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-s.inbox.wake:
		case <-tick.C:
		}
		s.guard.Run(label.StepRecord, func() { s.recorder.record(s.options.Now(), ctx.Err() != nil) })
	}
	shipping.Wait()
	return s.guard.RunErr(label.StepStop, func() (err error) { //nolint:contextcheck // the context has ended; drain sets a time limit
		s.WithDeliveryPaused(func() { err = s.drain() })
		return err
	})
}

func (s *Store) runDeliverer(ctx context.Context) {
	tick := time.NewTicker(flushEvery)
	defer tick.Stop()
	retain := time.NewTicker(purgeEvery)
	defer retain.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case request := <-s.deleter.deletions:
			s.WithDeliveryPaused(func() { s.deleter.runDeletion(ctx, request) })
		case <-tick.C:
			s.guard.Run(label.StepDeliver, func() { s.WithDeliveryPaused(func() { s.deliverDue(ctx) }) })
			s.guard.StorePending(ctx, s.options.Backend)
			s.guard.Run(label.StepOptOut, func() { s.optOuts.writeMarks(ctx) })
			s.guard.Run(label.StepSweep, func() { s.sessions.live.sweep(s.options.Now(), s.state.progress()) })
		case tick := <-retain.C:
			s.guard.Run(label.StepRetain, func() { s.WithDeliveryPaused(func() { s.deleter.deleteByAge(ctx, tick) }) })
		}
	}
}

// Deliver records and delivers everything now, without waiting for QueueOptions.DeliverEvery.
func (s *Store) Deliver(ctx context.Context) {
	s.guard.Run(label.StepDeliver, func() {
		s.WithDeliveryPaused(func() {
			s.deliverer.due.deliver = time.Time{}
			s.flush(ctx)
		})
	})
}

// flush records new turns, and delivers due rows. The caller holds deliverer.deliveryMu.
func (s *Store) flush(ctx context.Context) {
	s.recorder.record(s.options.Now(), ctx.Err() != nil || s.deliverer.phase == stopping)
	s.deliverDue(ctx)
}

// deliverDue delivers due rows, then late posts. The caller holds deliverer.deliveryMu.
func (s *Store) deliverDue(ctx context.Context) {
	now := s.options.Now()
	s.deliverer.runRound(ctx, now)
	s.poster.deliverLate(ctx, now, s.deliverer.phase != starting && s.deliverer.err == nil && !s.state.lagging.Load())
	s.updateLag()
}

// flushNow is like flush, but does not wait for the pauses after a failure and between deliveries.
func (s *Store) flushNow(ctx context.Context) {
	h := s.deliverer.handoff
	h.mu.Lock()
	h.nextAppend = time.Time{}
	h.mu.Unlock()
	s.deliverer.due.retry, s.deliverer.due.deliver, s.poster.late.nextDelivery = time.Time{}, time.Time{}, time.Time{}
	s.flush(ctx)
}

// drain writes everything in memory within writeLimit, and closes the outbox.
func (s *Store) drain() error {
	ctx, cancel := context.WithTimeout(context.Background(), writeLimit)
	defer cancel()
	d := s.deliverer
	d.phase = stopping
	s.flushNow(ctx)
	_, appendErr := s.deliverer.handoff.lagAndAppendError()
	if appendErr != nil {
		d.err = errors.Join(d.err, d.bypass(ctx))
		_, appendErr = s.deliverer.handoff.lagAndAppendError()
	}
	s.guard.StorePending(ctx, s.options.Backend)
	s.optOuts.writeMarks(ctx)
	s.awaitReplicas(ctx)
	if n := s.countInMemory(); n > 0 {
		s.options.Hooks.OnFailure(label.StepStop, fmt.Errorf("%d exchanges could not be written and are lost: %w", n, errors.Join(appendErr, d.err)))
	}
	return errors.Join(appendErr, d.err, d.close())
}

// awaitReplicas waits until a failover of the backend would lose none of the writes that the next process cannot
// repeat: the direct writes or, without an outbox, all writes.
func (s *Store) awaitReplicas(ctx context.Context) {
	o := s.options
	if o.Fleet == nil || s.deliverer.handoff.outbox != nil && s.deliverer.direct.isEmpty() {
		return
	}
	if err := o.Fleet.AwaitReplicas(ctx); err != nil && o.Hooks.OnUnreplicated != nil {
		o.Hooks.OnUnreplicated(err)
	}
}
