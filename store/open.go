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

// Open returns a Store. For at most startLimit, it delivers rows that the previous process left in the outbox; Run
// delivers the rest. Open starts no goroutine.
func Open(ctx context.Context, o Options) (*Store, error) {
	if o.LookupTimeout == 0 {
		o.LookupTimeout = defaultLookupTimeout
	}
	if o.AgeNow == nil {
		o.AgeNow = func(context.Context) (earliest, latest time.Time, err error) { return o.Now(), o.Now(), nil }
	}
	if o.MaxSessions <= 0 {
		o.MaxSessions = defaultSessions
	}
	s := &Store{options: &o, state: &state{onRecovery: o.Hooks.OnRecovery, onOutboxRecovery: o.Hooks.OnOutboxRecovery}, done: newDoneSignal()}
	s.guard = guard.New(guard.Options{
		Now: o.Now, OnFailure: o.Hooks.OnFailure, OnPanic: o.Hooks.OnPanic, Before: o.Hooks.Before, SetAsideCount: &s.Metrics.SetAside,
		Clean: func(text string) string { return s.optOuts.newRedactor().Text(text) },
	})
	box, err := s.openOutbox()
	if err != nil {
		return nil, err
	}
	_, s.state.storesNothing = o.Backend.(NullBackend)
	live := newLiveSessions(o.MaxSessions, o.MaxTenantSessions, s.state.storesNothing, o.Replica)

	s.inbox = &inbox{metrics: &s.Metrics, state: s.state, maxBytes: o.Queue.MaxMemoryBytes, stubs: box != nil, wake: make(chan struct{}, 1)}
	s.changes = &changeQueue{heldByRequest: map[string][]session.Echo{}}
	s.rewardQueue = &rewardQueue{refs: map[session.Ref]bool{}}
	s.optOuts = &optOutFilter{live: live, changes: s.changes, marks: s.openMarks(box), metrics: &s.Metrics, onFailure: o.Hooks.OnFailure, cleanTexts: o.Content.CleanTexts}
	s.sessions = &sessions{
		live: live, backend: o.Backend, marks: s.optOuts.marks, state: s.state, now: o.Now, lookupTimeout: o.LookupTimeout, onFailure: o.Hooks.OnFailure,
	}
	feedback := &feedbackWriter{
		backend: o.Backend, sessions: s.sessions, rewardQueue: s.rewardQueue, guard: s.guard, metrics: &s.Metrics, onFailure: o.Hooks.OnFailure,
	}
	tombs := &tombstones{sessions: map[session.ID]tombstone{}, tenants: map[string]tombstone{}}
	undo := &undoer{tombstones: tombs, backend: o.Backend, onFailure: o.Hooks.OnFailure}
	s.poster = &poster{
		backend: o.Backend, sessions: s.sessions, feedback: feedback, optOuts: s.optOuts, changes: s.changes, state: s.state, undoer: undo,
		late: &latePosts{outbox: box, now: o.Now, tombstones: tombs},
	}
	s.publisher = &publisher{optOuts: s.optOuts, changes: s.changes, state: s.state, undoer: undo, onFailure: o.Hooks.OnFailure, onPanic: o.Hooks.OnPanic}

	shared := sharedDeps{now: o.Now, guard: s.guard, metrics: &s.Metrics, state: s.state, onFailure: o.Hooks.OnFailure}
	handoff := &handoff{outbox: box, deps: shared, maxBytes: o.Queue.MaxMemoryBytes}
	s.recorder = &recorder{
		inbox: s.inbox, changes: s.changes, optOuts: s.optOuts, tombstones: tombs, handoff: handoff, guard: s.guard, metrics: &s.Metrics, state: s.state,
		onPanic: o.Hooks.OnPanic, onRecorded: o.Hooks.OnRecorded, sentiment: o.Sentiment,
	}
	s.deliverer = &deliverer{
		backend: o.Backend, handoff: handoff, deps: shared,
		writer: &writer{backend: o.Backend, cache: o.Exchanges, feedback: feedback, tombstones: tombs, guard: s.guard, onFailure: o.Hooks.OnFailure},
		limits: delivererLimits{maxBytes: o.Queue.MaxMemoryBytes, deliverInterval: o.Queue.DeliverEvery},
	}
	s.deleter = &sessionDeleter{
		backend: o.Backend, sessions: s.sessions, changes: s.changes, rewardQueue: s.rewardQueue, posts: s.poster, tombstones: tombs, deliverer: s.deliverer,
		guard: s.guard, metrics: &s.Metrics, options: &o, flushNow: s.flushNow, deletions: make(chan deletion),
	}
	s.deliverer.beforeDelivery = s.deleter.followReplicas
	if o.Fleet != nil {
		s.sessions.sharedMarks, s.publisher.backend, s.deleter.announcer = o.Fleet, o.Backend, o.Fleet
		s.deliverer.epochReader, s.deliverer.tracker.age = o.Fleet, safeAge
	}

	if o.Fleet != nil && box != nil {
		direct := &directWrites{now: o.Now}
		s.deliverer.direct, s.deleter.direct, s.poster.direct, s.optOuts.marks.direct = direct, direct, direct, direct
	}

	s.state.recordWrite(!o.BackendAbsent)
	s.SetRetention(o.Retention)
	s.SetOptOut(o.Content.OptOut)
	s.SetRedactPersonal(o.Content.RedactPersonal)
	if box != nil {
		if err := s.resume(ctx); err != nil {
			return nil, errors.Join(err, box.Close())
		}
	}
	s.deliverer.phase = running
	return s, nil
}

// openOutbox opens the outbox, and imports an earlier release's spool. box is nil if no outbox is configured, or if the
// file cannot be opened. In the latter case, openOutbox calls Hooks.OnFailure. err is set if the import fails, or if a
// newer release has written the outbox.
func (s *Store) openOutbox() (box *outbox.Outbox, err error) {
	o := s.options
	if o.Queue.Path == "" {
		return nil, nil //nolint:nilnil // no outbox is configured
	}
	err = s.guard.RunErr(label.StepOutbox, func() (err error) {
		box, err = outbox.Open(outbox.Options{Path: o.Queue.Path, QuotaBytes: o.Queue.MaxBytes, TenantQuotaBytes: o.Queue.MaxTenantBytes, MultiTenant: o.Queue.MultiTenant, Now: o.Now, OnDamage: func(err error) {
			s.state.mustReread.Store(true)
			o.Hooks.OnFailure(label.StepOutbox, err)
		}})
		return err
	})
	if err == nil {
		err = importSpool(filepath.Join(filepath.Dir(o.Queue.Path), oldSpoolDir), box, s.guard)
		if err != nil {
			err = errors.Join(err, box.Close())
		}
		return box, err
	}
	if errors.Is(err, outbox.ErrNewer) {
		return nil, err
	}
	o.Hooks.OnFailure(label.StepOutbox, fmt.Errorf("the outbox cannot be opened; exchanges wait for the store in memory until the next start: %w", err))
	return nil, nil //nolint:nilnil // see above
}

// openMarks reads the opt-out marks from the outbox. Without an outbox, or if no exchanges are stored, openMarks
// returns an empty list that keeps no mark.
func (s *Store) openMarks(box *outbox.Outbox) *optOutMarks {
	if !s.options.Content.StoreContent {
		box = nil
	}
	marks, err := openMarks(box, s.options.Content.Secret, s.options.Fleet)
	if err != nil {
		s.options.Hooks.OnFailure(label.StepOptOut, err)
	}
	return marks
}

// resume continues where the previous process ended, and delivers the remaining rows for at most startLimit.
func (s *Store) resume(ctx context.Context) (err error) {
	h := s.deliverer.handoff
	if s.deliverer.tracker.epoch, err = h.outbox.Note(epochNote); err != nil {
		return err
	}
	h.lastTaken, h.backlogEnd = h.outbox.Delivered()
	h.ready.lastSequence = h.backlogEnd
	s.state.lagging.Store(h.lastTaken < h.backlogEnd)
	s.state.lookupsMayMiss.Store(h.lastTaken < h.backlogEnd)
	s.deliverDue(ctx)
	return nil
}

// Close closes the outbox and the backend. Call it after Run has returned.
func (s *Store) Close() error {
	s.publisher.writes.Wait()
	s.poster.late.writes.Wait()
	var err error
	if box := s.deliverer.handoff.outbox; box != nil {
		err = box.Close()
	}
	return errors.Join(err, s.options.Backend.Close())
}
