package store

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"precept/feedback"
	"precept/sample"
	"precept/session"
	"precept/store/guard"
	"precept/store/spool"
)

// defaultLookup bounds the one question to the backend that a request may wait for.
const defaultLookup = 45 * time.Millisecond

// Options are what the store is made of. Every field is required unless it says otherwise.
type Options struct {
	Now        func() time.Time
	Backend    Backend
	Fleet      Fleet         // the same backend where replicas share it; nil: it is this process' own
	Lookup     time.Duration // how long a request may wait for the backend; 0: defaultLookup
	Sessions   int           // how many are kept in memory; 0: defaultSessions
	HoldBytes  int64         // of exchanges in memory (limits.capture_total_bytes)
	SpoolDir   string        // "": without a spool, what waits for the backend waits in memory alone
	Secret     []byte        // names the marks of sessions that opted out; none: they are not known after a restart
	SpoolBytes int64         // at most so many wait in it
	// DeliverEvery is how long the backend may be left alone; what is new waits in the spool. 0: at
	// every flush.
	DeliverEvery time.Duration
	Learn        bool                         // keep exchanges and samples
	Personal     bool                         // redact personal data besides secrets
	OptOut       *sample.OptOut               // nil: nobody opted out
	Sentiment    bool                         // the user's words count as an implicit signal
	Retention    time.Duration                // how long a session is kept after it was last seen; 0: for ever
	Absent       bool                         // the backend could not be used a moment ago
	Failed       func(step string, err error) // told of every failure; it must not block
	Panicked     func(step string, value any)
	// Before is called before each step that an owner takes on a session or, where it has an id, on
	// an exchange of it; nil: by nobody. A test makes a step panic with it.
	Before func(step string, id session.ID, exchange string)
}

// Store is the memory of a running precept. Open makes it, Run is its goroutine, Close ends it. It
// is made of parts, each of which guards its own; an arrow goes to what a part calls:
//
//	requests -> inbox, waiting, optouts, publisher   what a turn leaves, before anybody waits
//	recorder -> inbox, waiting, optouts              puts it into the spool
//	delivery -> recorder, poster                     hands it to the backend
//	eraser   -> delivery, recorder, waiting          forgets it
//	poster   -> optouts, waiting, touched            takes in what is said of sessions
type Store struct {
	Tally Tally

	kit
	*inbox
	*waiting
	*optouts
	*recorder
	*delivery
	*eraser
	*poster
	*publisher
	*touched

	drained     chan struct{} // closed when Run has ended
	drainedOnce sync.Once
}

// Open reads what the last run left in the spool. It starts nothing.
func Open(ctx context.Context, o Options) (*Store, error) {
	if o.Lookup == 0 {
		o.Lookup = defaultLookup
	}
	if o.Sessions <= 0 {
		o.Sessions = defaultSessions
	}
	s := assemble(&o)
	s.state.healthy(!o.Absent)
	s.SetRetention(o.Retention)
	s.SetOptOut(o.OptOut)
	s.SetPersonal(o.Personal)
	err := s.openSpool(ctx)
	s.openMarks()
	if err != nil {
		return nil, err
	}
	return s, nil
}

// assemble puts the parts together.
func assemble(o *Options) *Store {
	_, keeps := o.Backend.(Volatile)
	s := &Store{drained: make(chan struct{})}
	s.kit = kit{opts: o, be: o.Backend, live: newLive(o.Sessions, keeps), tally: &s.Tally, state: &state{}}
	s.guard = guard.New(guard.Options{
		Now: o.Now, Failed: o.Failed, Panicked: o.Panicked, Before: o.Before, Count: &s.Tally.SetAside,
		Clean: func(text string) string { return s.newRedactor().Text(text) },
	})
	tombs := &tombstones{sessions: map[session.ID]time.Time{}, tenants: map[string]time.Time{}}
	s.touched = &touched{of: map[session.Ref]bool{}}
	s.inbox = &inbox{kit: s.kit, full: make(chan struct{}, 1)}
	s.waiting = &waiting{held: map[string][]session.Echo{}}
	s.optouts = &optouts{kit: s.kit, waiting: s.waiting}
	s.publisher = &publisher{kit: s.kit, out: s.optouts, waiting: s.waiting}
	s.poster = &poster{kit: s.kit, out: s.optouts, waiting: s.waiting, touched: s.touched}
	s.recorder = &recorder{kit: s.kit, in: s.inbox, waiting: s.waiting, out: s.optouts, tombs: tombs}
	s.delivery = &delivery{kit: s.kit, rec: s.recorder, posts: s.poster, tombs: tombs}
	s.eraser = &eraser{
		kit: s.kit, rec: s.recorder, deliver: s.delivery, waiting: s.waiting, touched: s.touched, tombs: tombs, chores: make(chan chore),
	}
	s.delivery.elsewhere = s.eraser.watch
	return s
}

// openMarks reads the marks of sessions that opted out. They lie beside the spool; where there is
// none, or nothing is kept, there are none either.
func (s *Store) openMarks() {
	dir := s.opts.SpoolDir
	if s.spool == nil || !s.opts.Learn {
		dir = ""
	}
	var err error
	if s.optouts.marks, err = openMarks(dir, s.opts.Secret); err != nil {
		s.opts.Failed("opt out", err)
	}
}

// openSpool opens the spool and hands over what the last run left in it, for as long as a start may
// wait. Where none can be had, precept goes on without: what waits for the backend then waits in
// memory.
func (s *Store) openSpool(ctx context.Context) error {
	defer func() { s.delivery.started = true }()
	if s.opts.SpoolDir == "" {
		return nil
	}
	var log *spool.Log
	var c spool.Checkpoint
	err := s.guard.Err("spool", func() (err error) {
		o := spool.Options{Quota: s.opts.SpoolBytes, Now: s.opts.Now(), Count: admittedBy}
		log, c, err = spool.Open(s.opts.SpoolDir, o)
		return err
	})
	if errors.Is(err, spool.ErrNewer) {
		return err
	}
	if err != nil {
		s.opts.Failed("spool", fmt.Errorf("there is no spool, and what waits for the store waits in memory until the next start: %w", err))
		return nil
	}
	end, _ := log.End()
	s.recorder.spool, s.inbox.stubs, s.delivery.epoch, s.recorder.from = log, true, c.Epoch, end
	s.delivery.delivered, s.delivery.safe = progressOf(c.Delivered), progressOf(c.Safe)
	s.recorder.next.crashed, s.recorder.lagging = true, s.delivery.delivered.At.Before(end)
	s.state.lagging.Store(s.recorder.lagging)
	s.state.blind.Store(s.recorder.lagging)
	s.delivery.handDown(ctx, s.opts.Now())
	return nil
}

// Close ends the store, after Run has returned.
func (s *Store) Close() error {
	s.publisher.writes.Wait()
	var err error
	if s.recorder.spool != nil {
		err = s.recorder.spool.Close()
	}
	return errors.Join(err, s.be.Close())
}

// Guard takes steps for whoever works on the same sessions: what is set aside is set aside for all.
func (s *Store) Guard() *guard.Guard { return s.guard }

// Archive shows what is kept. reward is the definition that is in force.
func (s *Store) Archive(reward feedback.Definition) *Archive {
	return &Archive{now: s.opts.Now, be: s.be, reward: reward, optOut: &s.optouts.rules, redactor: s.optouts.newRedactor}
}

// Healthy says whether the last write went through.
func (s *Store) Healthy() bool { return !s.state.down.Load() && !s.state.unspooled.Load() }

// Sessions is the number of sessions in memory.
func (s *Store) Sessions() int { return s.live.count() }

// Acquire pins the session with that id: from memory, else from the backend, within Options.Lookup.
// It is nil when there is none. late says that the backend could not answer in time: the session
// may exist, so whatever is made now is no part of the experiment.
func (s *Store) Acquire(ctx context.Context, tenant string, id session.ID) (ses *Session, late bool) {
	if ses = s.live.get(id, s.opts.Now()); ses != nil {
		return ses, false
	}
	ctx, cancel := context.WithTimeout(ctx, s.opts.Lookup)
	defer cancel()
	row, ok, err := s.be.Session(ctx, tenant, id)
	if err != nil {
		s.opts.Failed("lookup", err)
		return nil, true
	}
	if !ok {
		return nil, s.inTheDark() // it may stand in the spool
	}
	rec, err := session.Decode(id, row.Data)
	if err != nil {
		s.opts.Failed("decode", err)
		return nil, true
	}
	return s.live.put(rec, true, s.opts.Now(), s.state.delivered.Load()), false
}

// Resident pins a session that is in memory, nil when it is not.
func (s *Store) Resident(id session.ID) *Session { return s.live.get(id, s.opts.Now()) }

// Add pins a new record; when another request made it a moment ago, that one is returned.
func (s *Store) Add(rec *session.Record) *Session {
	s.optouts.marks.recall(rec)
	ses := s.live.put(rec, false, s.opts.Now(), s.state.delivered.Load())
	if ses.Record == rec && rec.StandIn {
		ses.unsure.Store(true)
	}
	return ses
}

// Echoes asks the backend which sessions these keys went by in, within Options.Lookup.
func (s *Store) Echoes(ctx context.Context, tenant string, keys []session.EchoKey) map[session.EchoKey][]session.ID {
	if len(keys) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, s.opts.Lookup)
	defer cancel()
	m, err := s.be.FindEcho(ctx, tenant, keys)
	if err != nil {
		s.opts.Failed("lookup", err)
		return nil
	}
	return m
}
