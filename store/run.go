package store

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Run is the recorder: a goroutine that puts what comes into the spool, and one that hands it to
// the backend. It returns when ctx is done and everything in memory is written, or could not be. A
// panic in one of their steps costs the step, and what it was taken at is set aside (store/guard).
func (s *Store) Run(ctx context.Context) error {
	defer func() {
		if ctx.Err() != nil { // else it panicked, and is begun anew
			s.drainedOnce.Do(func() { close(s.drained) })
		}
	}()
	var delivery sync.WaitGroup
	delivery.Go(func() { s.runDelivery(ctx) })
	tick := time.NewTicker(flushEvery)
	defer tick.Stop()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-s.inbox.full:
		case <-tick.C:
		}
		s.guard.Step("record", func() { s.recorder.spoolUp(s.opts.Now(), ctx.Err() != nil) })
	}
	delivery.Wait()
	return s.guard.Err("stop", func() (err error) { //nolint:contextcheck // the context has ended; the drain is bounded by itself
		s.Still(func() { err = s.drain() })
		return err
	})
}

// runDelivery hands over what is put down, and looks after what is kept.
func (s *Store) runDelivery(ctx context.Context) {
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
			s.guard.Step("deliver", func() { s.Still(func() { s.delivery.handDown(ctx, s.opts.Now()) }) })
			s.guard.Keep(ctx, s.be)
			s.guard.Step("opt out", func() { s.optouts.keepMarks(ctx) })
			s.guard.Step("sweep", func() { s.live.sweep(s.opts.Now(), s.state.delivered.Load()) })
		case <-tidy.C:
			s.guard.Step("retain", func() { s.Still(func() { s.eraser.retain(ctx) }) })
		}
	}
}

// Drained is closed when Run has written what could be written.
func (s *Store) Drained() <-chan struct{} { return s.drained }

// Still runs f while nothing is handed over, nothing is forgotten and nothing is closed: what f
// reads of a session stays as it is until f returns.
func (s *Store) Still(f func()) {
	s.delivery.handing.Lock()
	defer s.delivery.handing.Unlock()
	f()
}

// Deliver hands over what came, at once.
func (s *Store) Deliver(ctx context.Context) {
	s.guard.Step("deliver", func() {
		s.Still(func() {
			s.deliverAt = time.Time{}
			s.flush(ctx)
		})
	})
}

// drain empties the queue and writes what is left, with one bounded attempt.
func (s *Store) drain() error {
	ctx, cancel := context.WithTimeout(context.Background(), writeLimit)
	defer cancel()
	r, d := s.recorder, s.delivery
	d.last = true
	d.hurry(ctx)
	if r.putErr != nil {
		d.err = errors.Join(d.err, d.pass(ctx))
	}
	s.guard.Keep(ctx, s.be)
	s.keepMarks(ctx)
	if n := d.unwritten(); n > 0 {
		s.opts.Failed("stop", fmt.Errorf("%d exchanges could not be written and are lost: %w", n, errors.Join(r.putErr, d.err)))
	}
	return errors.Join(r.putErr, d.err, d.shut())
}
