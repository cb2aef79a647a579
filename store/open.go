package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"precept/internal/guard"
	"precept/internal/label"
	"precept/internal/session"
	"precept/store/spool"
)

// Open opens the spool, and hands over what the last run left in it, for as long as a start may
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
	log, from, err := openSpool(&o, s.guard)
	if err != nil {
		return nil, err
	}
	s.takeIn(log)
	s.handOn(log)
	s.state.healthy(!o.Absent)
	s.SetRetention(o.Retention)
	s.SetOptOut(o.OptOut)
	s.SetPersonal(o.Personal)
	if log != nil {
		s.goOn(ctx, from)
	}
	s.delivery.started = true
	return s, nil
}

// openSpool opens the spool. Where none can be had, precept goes on without: what waits for the
// backend then waits in memory.
func openSpool(o *Options, g *guard.Guard) (log *spool.Log, from spool.Checkpoint, err error) {
	if o.SpoolDir == "" {
		return nil, from, nil
	}
	err = g.Err(label.StepSpool, func() (err error) {
		log, from, err = spool.Open(o.SpoolDir, spool.Options{Quota: o.SpoolBytes, Now: o.Now(), Count: admittedBy})
		return err
	})
	if errors.Is(err, spool.ErrNewer) {
		return nil, from, err
	}
	if err != nil {
		o.Failed(label.StepSpool, fmt.Errorf("there is no spool, and what waits for the store waits in memory until the next start: %w", err))
		return nil, from, nil
	}
	return log, from, nil
}

// takeIn makes the parts that requests meet, and what takes in what they leave.
func (s *Store) takeIn(log *spool.Log) {
	o := s.opts
	_, volatile := o.Backend.(Volatile)
	live := newLive(o.Sessions, volatile)
	s.inbox = &inbox{tally: &s.Tally, state: s.state, hold: o.HoldBytes, stubs: log != nil, full: make(chan struct{}, 1)}
	s.waiting = &waiting{held: map[string][]session.Echo{}}
	s.touched = &touched{of: map[session.Ref]bool{}}
	s.optouts = &optouts{live: live, waiting: s.waiting, marks: s.openMarks(log != nil), tally: &s.Tally, failed: o.Failed, clean: o.CleanTexts}
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
func (s *Store) handOn(log *spool.Log) {
	o := s.opts
	tombs := &tombstones{sessions: map[session.ID]time.Time{}, tenants: map[string]time.Time{}}
	s.journal = &journal{spool: log, guard: s.guard, tally: &s.Tally, state: s.state, hold: o.HoldBytes, failed: o.Failed}
	s.recorder = &recorder{
		in: s.inbox, waiting: s.waiting, out: s.optouts, tombs: tombs, journal: s.journal, guard: s.guard, tally: &s.Tally, state: s.state,
		panicked: o.Panicked, sentiment: o.Sentiment,
	}
	s.delivery = &delivery{
		checkpoints: checkpoints{be: o.Backend}, journal: s.journal,
		writer: &writer{be: o.Backend, feedback: s.feedbackWriter, tombs: tombs, guard: s.guard, failed: o.Failed},
		guard:  s.guard, tally: &s.Tally, state: s.state, hold: o.HoldBytes, every: o.DeliverEvery, now: o.Now, failed: o.Failed,
	}
	s.eraser = &eraser{
		be: o.Backend, sessions: s.sessions, waiting: s.waiting, touched: s.touched, tombs: tombs, journal: s.journal, delivery: s.delivery,
		guard: s.guard, tally: &s.Tally, now: o.Now, failed: o.Failed, hurry: s.hurry, chores: make(chan chore),
	}
	if o.Fleet != nil {
		s.delivery.fleet, s.delivery.age, s.eraser.fleet = o.Fleet, safeAge, o.Fleet
	}
	s.delivery.before, s.delivery.caughtUp = s.eraser.watch, s.eraser.purgeLeftovers
}

// openMarks reads the marks of sessions that opted out. They lie beside the spool; where there is
// none, or nothing is kept, there are none either.
func (s *Store) openMarks(spooled bool) *optOutMarks {
	dir := s.opts.SpoolDir
	if !spooled || !s.opts.Learn {
		dir = ""
	}
	marks, err := openMarks(dir, s.opts.Secret, s.opts.Fleet)
	if err != nil {
		s.opts.Failed(label.StepOptOut, err)
	}
	return marks
}

// goOn takes up the spool where the last run left it.
func (s *Store) goOn(ctx context.Context, from spool.Checkpoint) {
	j := s.journal
	s.delivery.load(from)
	j.from, _ = j.spool.End()
	j.next.crashed, j.lagging = true, s.delivery.delivered.At.Before(j.from)
	s.state.lagging.Store(j.lagging)
	s.state.blind.Store(j.lagging)
	s.handDown(ctx)
}

// Close ends the store, after Run has returned.
func (s *Store) Close() error {
	s.publisher.writes.Wait()
	var err error
	if s.journal.spool != nil {
		err = s.journal.spool.Close()
	}
	return errors.Join(err, s.opts.Backend.Close())
}
