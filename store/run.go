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
	flushEvery = 50 * time.Millisecond
	tidyEvery  = time.Second // how often it is asked whether something is too old
)

// Run is the recorder: a goroutine that writes what comes to the outbox, and one that ships it to
// the backend. It returns when ctx is done and everything in memory is written, or could not be. A
// panic in one of their steps costs the step, and what it was taken at is set aside (store/guard).
func (s *Store) Run(ctx context.Context) error {
	defer func() {
		if ctx.Err() != nil { // else it panicked, and is begun anew
			s.drainedOnce.Do(func() { close(s.drained) })
		}
	}()
	var shipping sync.WaitGroup
	shipping.Go(func() { s.runShipper(ctx) })
	tick := time.NewTicker(flushEvery)
	defer tick.Stop()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-s.inbox.full:
		case <-tick.C:
		}
		s.guard.Step(label.StepRecord, func() { s.recorder.record(s.opts.Now(), ctx.Err() != nil) })
	}
	shipping.Wait()
	return s.guard.Err(label.StepStop, func() (err error) { //nolint:contextcheck // the context has ended; the drain is bounded by itself
		s.Still(func() { err = s.drain() })
		return err
	})
}

// runShipper ships what is durable, and looks after what is kept.
func (s *Store) runShipper(ctx context.Context) {
	tick := time.NewTicker(flushEvery)
	defer tick.Stop()
	tidy := time.NewTicker(tidyEvery)
	defer tidy.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case c := <-s.eraser.chores:
			s.Still(func() { s.eraser.do(ctx, c) })
		case <-tick.C:
			s.guard.Step(label.StepDeliver, func() { s.Still(func() { s.ship(ctx) }) })
			s.guard.Keep(ctx, s.opts.Backend)
			s.guard.Step(label.StepOptOut, func() { s.optouts.keepMarks(ctx) })
			s.guard.Step(label.StepSweep, func() { s.sessions.live.sweep(s.opts.Now(), s.state.delivered.Load()) })
		case <-tidy.C:
			s.guard.Step(label.StepRetain, func() { s.Still(func() { s.eraser.retain(ctx) }) })
		}
	}
}

// Deliver hands over what came, at once.
func (s *Store) Deliver(ctx context.Context) {
	s.guard.Step(label.StepDeliver, func() {
		s.Still(func() {
			s.shipper.due.deliver = time.Time{}
			s.flush(ctx)
		})
	})
}

// flush writes what is new to the outbox, and ships what is due to the backend.
func (s *Store) flush(ctx context.Context) {
	s.recorder.record(s.opts.Now(), ctx.Err() != nil || s.shipper.phase == stopping)
	s.ship(ctx)
}

// ship ships what is due to the backend, and looks what still waits.
func (s *Store) ship(ctx context.Context) {
	s.shipper.ship(ctx, s.opts.Now())
	s.look()
}

// hurry hands over what came, at once, also to a backend that failed a moment ago.
func (s *Store) hurry(ctx context.Context) {
	s.handoff.mu.Lock()
	s.handoff.putAt = time.Time{}
	s.handoff.mu.Unlock()
	s.shipper.due.retry, s.shipper.due.deliver = time.Time{}, time.Time{}
	s.flush(ctx)
}

// drain empties the queue and writes what is left, with one bounded attempt.
func (s *Store) drain() error {
	ctx, cancel := context.WithTimeout(context.Background(), writeLimit)
	defer cancel()
	d := s.shipper
	d.phase = stopping
	s.hurry(ctx)
	_, putErr := s.handoff.trouble()
	if putErr != nil {
		d.err = errors.Join(d.err, d.pass(ctx))
		_, putErr = s.handoff.trouble()
	}
	s.guard.Keep(ctx, s.opts.Backend)
	s.keepMarks(ctx)
	if n := s.unwritten(); n > 0 {
		s.opts.Failed(label.StepStop, fmt.Errorf("%d exchanges could not be written and are lost: %w", n, errors.Join(putErr, d.err)))
	}
	return errors.Join(putErr, d.err, d.shut())
}
