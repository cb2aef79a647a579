package store

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"precept/internal/guard"
	"precept/internal/label"
	"precept/internal/session"
	"precept/store/outbox"
)

// Open opens the outbox, and hands over what the last run left in it, for as long as a start may
// wait. It starts nothing.
func Open(ctx context.Context, o Options) (*Store, error) {
	if o.Lookup == 0 {
		o.Lookup = defaultLookup
	}
	if o.Sessions <= 0 {
		o.Sessions = defaultSessions
	}
	s := &Store{opts: &o, state: &state{}, drained: make(chan struct{})}
	s.guard = guard.New(guard.Options{
		Now: o.Now, Failed: o.Failed, Panicked: o.Panicked, Before: o.Before, Count: &s.Tally.SetAside,
		Clean: func(text string) string { return s.newRedactor().Text(text) },
	})
	box, err := s.openOutbox()
	if err != nil {
		return nil, err
	}
	s.takeIn(box)
	s.handOn(box)
	s.state.healthy(!o.Absent)
	s.SetRetention(o.Retention)
	s.SetOptOut(o.OptOut)
	s.SetPersonal(o.Personal)
	if box != nil {
		if err := s.resume(ctx); err != nil {
			return nil, errors.Join(err, box.Close())
		}
	}
	s.shipper.phase = running
	return s, nil
}

// openOutbox opens the outbox. Where there can be none, what waits for the backend waits in memory.
func (s *Store) openOutbox() (box *outbox.Outbox, err error) {
	o := s.opts
	if o.Outbox == "" {
		return nil, nil //nolint:nilnil // there is none
	}
	err = s.guard.Err(label.StepSpool, func() (err error) {
		box, err = outbox.Open(outbox.Options{Path: o.Outbox, Quota: o.OutboxBytes, Now: o.Now, Damaged: func(err error) {
			s.state.reread.Store(true)
			o.Failed(label.StepSpool, err)
		}})
		return err
	})
	if err == nil {
		err = drainSpool(filepath.Join(filepath.Dir(o.Outbox), oldSpoolDir), box, s.guard)
		if err != nil {
			err = errors.Join(err, box.Close())
		}
		return box, err
	}
	if errors.Is(err, outbox.ErrNewer) {
		return nil, err
	}
	o.Failed(label.StepSpool, fmt.Errorf("there is no outbox, and what waits for the store waits in memory until the next start: %w", err))
	return nil, nil //nolint:nilnil // see above
}

// takeIn makes the parts that requests meet, and what takes in what they leave.
func (s *Store) takeIn(box *outbox.Outbox) {
	o := s.opts
	_, volatile := o.Backend.(Volatile)
	live := newLive(o.Sessions, volatile)
	s.inbox = &inbox{tally: &s.Tally, state: s.state, hold: o.HoldBytes, stubs: box != nil, full: make(chan struct{}, 1)}
	s.waiting = &waiting{held: map[string][]session.Echo{}}
	s.touched = &touched{of: map[session.Ref]bool{}}
	s.optouts = &optouts{live: live, waiting: s.waiting, marks: s.openMarks(box), tally: &s.Tally, failed: o.Failed, clean: o.CleanTexts}
	s.sessions = &sessions{
		live: live, be: o.Backend, marks: s.optouts.marks, state: s.state, now: o.Now, lookup: o.Lookup, failed: o.Failed,
	}
	s.publisher = &publisher{out: s.optouts, waiting: s.waiting, state: s.state, failed: o.Failed, panicked: o.Panicked}
	if o.Fleet != nil {
		s.sessions.fleet, s.publisher.be = o.Fleet, o.Backend
	}
	s.feedbackWriter = &feedbackWriter{
		be: o.Backend, sessions: s.sessions, touched: s.touched, guard: s.guard, tally: &s.Tally, failed: o.Failed,
	}
	s.poster = &poster{
		be: o.Backend, sessions: s.sessions, feedback: s.feedbackWriter, out: s.optouts, waiting: s.waiting, state: s.state,
	}
}

// handOn makes the parts that bring to the backend what was taken in.
func (s *Store) handOn(box *outbox.Outbox) {
	o := s.opts
	tombs := &tombstones{sessions: map[session.ID]time.Time{}, tenants: map[string]time.Time{}}
	s.handoff = &handoff{outbox: box, guard: s.guard, tally: &s.Tally, state: s.state, hold: o.HoldBytes, failed: o.Failed}
	s.recorder = &recorder{
		in: s.inbox, waiting: s.waiting, out: s.optouts, tombs: tombs, handoff: s.handoff, guard: s.guard, tally: &s.Tally, state: s.state,
		panicked: o.Panicked, sentiment: o.Sentiment,
	}
	s.shipper = &shipper{
		be: o.Backend, handoff: s.handoff, guard: s.guard, tally: &s.Tally, state: s.state, now: o.Now, failed: o.Failed,
		writer: &writer{be: o.Backend, feedback: s.feedbackWriter, tombs: tombs, guard: s.guard, failed: o.Failed},
		limits: shipperLimits{hold: o.HoldBytes, every: o.DeliverEvery},
	}
	s.eraser = &eraser{
		be: o.Backend, sessions: s.sessions, waiting: s.waiting, touched: s.touched, tombs: tombs, handoff: s.handoff, shipper: s.shipper,
		guard: s.guard, tally: &s.Tally, now: o.Now, failed: o.Failed, hurry: s.hurry, chores: make(chan chore),
	}
	if o.Fleet != nil {
		s.shipper.fleet, s.shipper.safe.age, s.eraser.fleet = o.Fleet, safeAge, o.Fleet
	}
	s.shipper.before = s.eraser.watch
}

// openMarks reads the marks of sessions that opted out. They lie in the outbox; where there is
// none, or nothing is kept, there are none either.
func (s *Store) openMarks(box *outbox.Outbox) *optOutMarks {
	if !s.opts.Learn {
		box = nil
	}
	marks, err := openMarks(box, s.opts.Secret, s.opts.Fleet)
	if err != nil {
		s.opts.Failed(label.StepOptOut, err)
	}
	return marks
}

// resume begins with what the last run left in the outbox.
func (s *Store) resume(ctx context.Context) (err error) {
	h := s.handoff
	if s.shipper.safe.epoch, err = h.outbox.Note(epochNote); err != nil {
		return err
	}
	h.reached, h.from = h.outbox.Delivered()
	h.ready.last = h.from
	s.state.lagging.Store(h.reached < h.from)
	s.state.blind.Store(h.reached < h.from)
	s.ship(ctx)
	return nil
}

// Close ends the store, after Run has returned.
func (s *Store) Close() error {
	s.publisher.writes.Wait()
	var err error
	if s.handoff.outbox != nil {
		err = s.handoff.outbox.Close()
	}
	return errors.Join(err, s.opts.Backend.Close())
}
