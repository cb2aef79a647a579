package store

import (
	"sync"
	"time"

	"precept/bandit/feedback"
	"precept/internal/guard"
	"precept/internal/label"
	"precept/internal/redact"
	"precept/internal/sample"
	"precept/internal/session"
)

// Options are what the store is made of. Every field is required unless it says otherwise.
type Options struct {
	Now         func() time.Time
	Backend     Backend
	Fleet       Fleet         // the same backend where replicas share it; nil: it is this process' own
	Lookup      time.Duration // how long a request may wait for the backend; 0: defaultLookup
	Sessions    int           // how many are kept in memory; 0: defaultSessions
	HoldBytes   int64         // of exchanges in memory (limits.capture_total_bytes)
	Outbox      string        // the outbox's file; "": without an outbox, what waits for the backend waits in memory alone
	Secret      []byte        // names the marks of sessions that opted out; none: they are not known after a restart
	OutboxBytes int64         // the most that rows may take in the outbox (limits.outbox_bytes)
	// DeliverEvery is how long the backend may be left alone; what is new waits in the outbox. 0: at
	// every flush.
	DeliverEvery time.Duration
	Learn        bool                             // keep exchanges and samples
	Personal     bool                             // redact personal data besides secrets
	CleanTexts   *redact.CleanTexts               // texts without anything to redact; nil: every text is scanned
	OptOut       *sample.OptOut                   // nil: nobody opted out
	Sentiment    bool                             // the user's words count as an implicit signal
	Retention    time.Duration                    // how long a session is kept after it was last seen; 0: for ever
	Absent       bool                             // the backend could not be used a moment ago
	Failed       func(step label.Step, err error) // told of every failure; it must not block
	Panicked     func(step label.Step, value any)
	// Before is called before each step that an owner takes on a session or, where it has an id, on
	// an exchange of it; nil: by nobody. A test makes a step panic with it.
	Before func(step label.Step, id session.ID, exchange string)
}

// Store is the memory of a running precept. Open makes it, Run is its goroutine, Close ends it. It
// is made of parts, each of which guards its own and is given what it needs; none calls one above:
//
//	eraser                  forgets: in the backend, in the outbox, in memory
//	shipper                 brings what is durable to the backend, and deletes from the outbox what is safe
//	poster, publisher       what is posted of sessions; what other replicas must find at once
//	recorder                takes in what requests leave, redacted
//	handoff                 the way through the outbox
//	inbox, waiting          what requests leave
//	sessions, optouts       which sessions there are, and what may be kept of them
type Store struct {
	Tally Tally

	opts  *Options
	guard *guard.Guard
	state *state

	handoff *handoff
	shipper *shipper

	*inbox
	*waiting
	*optouts
	*sessions
	*recorder
	*eraser
	*poster
	*feedbackWriter
	*publisher
	*touched

	drained     chan struct{} // closed when Run has ended
	drainedOnce sync.Once
}

// Guard takes steps for whoever works on the same sessions: what is set aside is set aside for all.
func (s *Store) Guard() *guard.Guard { return s.guard }

// Archive shows what is kept. reward is the definition that is in force.
func (s *Store) Archive(reward feedback.Definition) *Archive {
	return &Archive{now: s.opts.Now, backend: s.opts.Backend, reward: reward, optOut: &s.optouts.rules, redactor: s.optouts.newRedactor}
}

// Healthy says whether the last write went through.
func (s *Store) Healthy() bool { return !s.state.down.Load() && !s.state.unspooled.Load() }

// Drained is closed when Run has written what could be written.
func (s *Store) Drained() <-chan struct{} { return s.drained }

// Still runs f while nothing is handed over, nothing is forgotten and nothing is closed: what f
// reads of a session stays as it is until f returns.
func (s *Store) Still(f func()) {
	s.shipper.handing.Lock()
	defer s.shipper.handing.Unlock()
	f()
}
