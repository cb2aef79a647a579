package store

import (
	"sync"
	"sync/atomic"
	"time"

	"precept/internal/guard"
	"precept/internal/label"
)

// sharedDeps holds what both the handoff and the deliverer need.
type sharedDeps struct {
	now       func() time.Time
	guard     *guard.Guard
	metrics   *Metrics
	state     *state
	onFailure func(step label.Step, err error) // does not block
}

// state holds the recorder's and deliverer's progress and health. The fields are atomic, so that readers do not wait
// for locks.
type state struct {
	delivered         atomic.Int64 // number of the newest flush (recorder run) in the backend
	durable           atomic.Int64 // number of the newest flush in the outbox
	lagging           atomic.Bool  // some rows exist only in the outbox and must be read back
	lookupsMayMiss    atomic.Bool  // look-ups can miss sessions with rows only in the outbox
	heldBytes         atomic.Int64 // bytes of exchanges in the inbox and in batches
	oldestUndelivered atomic.Int64 // end of the oldest undelivered exchange or feedback, Unix microseconds; 0: none
	outboxBytes       atomic.Int64
	mustReread        atomic.Bool // the outbox was damaged, so all undelivered rows must be read again
	backendDown       atomic.Bool // the last write to the backend failed
	outboxFailed      atomic.Bool // the last write to the outbox failed
	outboxFull        atomic.Bool // the outbox had no room for the newest exchanges
	storesNothing     bool        // set by Open
	onRecovery        func()      // called when a write succeeds after a failed one; may be nil
	onOutboxRecovery  func()      // called when the outbox accepts exchanges after a failure; may be nil
}

func (s *state) recordWrite(ok bool) {
	ok = ok && !s.storesNothing
	if wasDown := s.backendDown.Swap(!ok); wasDown && ok && s.onRecovery != nil {
		s.onRecovery()
	}
}

// recordAppend records a successful write to the outbox. If full is true, the outbox had no room for some exchanges.
func (s *state) recordAppend(full bool) {
	failed := s.outboxFailed.Swap(false)
	if wasFull := s.outboxFull.Swap(full); !full && (failed || wasFull) && s.onOutboxRecovery != nil {
		s.onOutboxRecovery()
	}
}

// progress returns the numbers of the newest stored flushes. While the backend is up, a flush counts as stored only
// when it is in the backend, because look-ups read only the backend. While the backend is down, the outbox suffices.
func (s *state) progress() progress {
	p := progress{delivered: s.delivered.Load()}
	if s.backendDown.Load() {
		p.inOutbox = s.durable.Load()
	}
	return p
}

type doneSignal struct {
	done chan struct{}
	once sync.Once
}

func newDoneSignal() *doneSignal { return &doneSignal{done: make(chan struct{})} }

func (d *doneSignal) close() { d.once.Do(func() { close(d.done) }) }

// Metrics counts a store's work. All fields except Pending only increase.
type Metrics struct {
	Exchanges       atomic.Int64  // written to the backend
	Incomplete      atomic.Int64  // written, with a reply that was cut, aborted or failed
	OptedOut        atomic.Int64  // exchanges that opted out
	DroppedFull     atomic.Int64  // the queue or the memory for exchanges was full
	CopiesCut       atomic.Int64  // reply copies cut because of limits.capture_total_bytes; the exchanges are kept
	DroppedBad      atomic.Int64  // the exchange cannot be encoded, or a step panicked
	DroppedQuota    atomic.Int64  // the outbox had reached limits.outbox_bytes
	DroppedTenant   atomic.Int64  // the tenant's rows in the outbox had reached limits.tenant_bytes
	DroppedReadOnly atomic.Int64  // the data directory is not writable
	WriteErrors     atomic.Int64  // failed writes; each is retried later
	Pending         atomic.Int64  // exchanges waiting for the backend
	FeedbackFull    atomic.Int64  // implicit feedback beyond a session's limits.feedback entries
	Redactions      atomic.Int64  // redacted secrets and personal data
	Expired         atomic.Int64  // sessions deleted by age
	SetAside        atomic.Int64  // sessions and exchanges set aside after a panic
	Late            LateMetrics   // posted feedback dropped after waiting in the outbox
	Signals         SignalMetrics // implicit feedback beyond an outbox limit
}

// SignalMetrics counts dropped implicit feedback, by reason.
type SignalMetrics struct {
	Quota  atomic.Int64 // the outbox had reached limits.outbox_bytes
	Tenant atomic.Int64 // the tenant's rows in the outbox had reached limits.tenant_bytes
}

// The reasons for dropped exchanges, in metrics and in Account.
const (
	droppedFull     = "full"      // the queue or the memory for exchanges was full
	droppedBad      = "bad"       // cannot be encoded, or the backend always refuses it
	droppedReadOnly = "read_only" // the data directory is not writable
	droppedQuota    = "quota"     // the outbox had reached limits.outbox_bytes
	droppedTenant   = "tenant"    // the tenant's rows in the outbox had reached limits.tenant_bytes
	droppedDamaged  = "damaged"   // the outbox was damaged
	droppedOptOut   = "opted_out" // the exchange names an opted-out path
)
