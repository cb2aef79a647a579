package store

import (
	"sync"
	"sync/atomic"
	"time"

	"precept/internal/guard"
	"precept/internal/label"
)

// deps holds the dependencies that several parts of a Store share.
type deps struct {
	now       func() time.Time
	guard     *guard.Guard
	metrics   *Metrics
	state     *state
	onFailure func(step label.Step, err error) // reports a failure; does not block
}

// state holds the progress and the health of recorder and shipper. The fields are atomic, so that readers do not wait
// for the locks of recorder and shipper.
type state struct {
	delivered         atomic.Int64 // number of the newest flush that the backend has
	durable           atomic.Int64 // number of the newest flush that the outbox has
	lagging           atomic.Bool  // some rows are only in the outbox, and must be read back
	lookupsMayMiss    atomic.Bool  // rows of an unknown number of sessions are only in the outbox, and look-ups may miss these sessions
	heldBytes         atomic.Int64 // bytes of the exchanges in memory, in the inbox and in batches
	oldestUndelivered atomic.Int64 // end of the oldest exchange or post that the backend does not have, in Unix microseconds; 0 means the backend has all
	outboxBytes       atomic.Int64 // size of the rows of the outbox on the disk
	mustReread        atomic.Bool  // the outbox was damaged, and the shipper must read all undelivered rows again
	backendDown       atomic.Bool  // the last write to the backend failed
	outboxFailed      atomic.Bool  // the last write to the outbox failed
	outboxFull        atomic.Bool  // the outbox had no room for the newest exchanges
	storesNothing     bool         // the backend stores nothing; set by Open
	onRecovery        func()       // called when a write to the backend succeeds after a failed one; may be nil
	onOutboxRecovery  func()       // called when the outbox accepts exchanges after a failure; may be nil
}

// recordWrite records whether the last write to the backend succeeded.
func (s *state) recordWrite(ok bool) {
	ok = ok && !s.storesNothing
	if wasDown := s.backendDown.Swap(!ok); wasDown && ok && s.onRecovery != nil {
		s.onRecovery()
	}
}

// recordAppend records a successful write to the outbox. full reports that the outbox had no room for
// some exchanges.
func (s *state) recordAppend(full bool) {
	failed := s.outboxFailed.Swap(false)
	if wasFull := s.outboxFull.Swap(full); !full && (failed || wasFull) && s.onOutboxRecovery != nil {
		s.onOutboxRecovery()
	}
}

// progress returns the newest flushes that the backend and the outbox have. They decide which sessions may leave
// memory. While the backend accepts writes, only a session whose row the backend has may leave, because a look-up
// then finds the session again.
func (s *state) progress() progress {
	p := progress{delivered: s.delivered.Load()}
	if s.backendDown.Load() {
		p.inOutbox = s.durable.Load()
	}
	return p
}

// doneSignal is a channel that is closed once.
type doneSignal struct {
	done chan struct{}
	once sync.Once
}

func newDoneSignal() *doneSignal { return &doneSignal{done: make(chan struct{})} }

func (d *doneSignal) close() { d.once.Do(func() { close(d.done) }) }

// Metrics counts the work of a store, for metrics and for precept doctor. All fields except Pending only increase.
type Metrics struct {
	Exchanges       atomic.Int64  // exchanges written to the backend
	Incomplete      atomic.Int64  // written exchanges that were cut, aborted or failed
	OptedOut        atomic.Int64  // exchanges that opted out
	DroppedFull     atomic.Int64  // exchanges dropped because the queue or the memory for exchanges was full
	CopiesCut       atomic.Int64  // replies whose copy did not fit into limits.capture_total_bytes; their exchanges are kept
	DroppedBad      atomic.Int64  // exchanges that do not encode, or at which a step panicked
	DroppedQuota    atomic.Int64  // exchanges dropped because the outbox was at limits.outbox_bytes
	DroppedTenant   atomic.Int64  // exchanges dropped because their tenant had limits.tenant_bytes in the outbox
	DroppedReadOnly atomic.Int64  // exchanges dropped because the data directory cannot be written
	WriteErrors     atomic.Int64  // failed writes; each write is repeated
	Pending         atomic.Int64  // exchanges that wait for the backend
	FeedbackFull    atomic.Int64  // entries of implicit feedback that were dropped because the session had limits.feedback entries
	Redactions      atomic.Int64  // redacted secrets and personal data
	Expired         atomic.Int64  // sessions deleted by age
	SetAside        atomic.Int64  // sessions and exchanges at which a step panicked
	Late            LateMetrics   // posted feedback that waited in the outbox and was dropped
	Signals         SignalMetrics // implicit feedback that was dropped because the outbox was at a limit
}

// SignalMetrics counts implicit feedback that was dropped, by reason.
type SignalMetrics struct {
	Quota  atomic.Int64 // the outbox was at limits.outbox_bytes
	Tenant atomic.Int64 // the tenant had limits.tenant_bytes in the outbox
}

// The reasons for which exchanges are dropped, in metrics and in the account.
const (
	droppedFull     = "full"      // the queue or the memory for exchanges was full
	droppedBad      = "bad"       // the exchange does not encode, or the backend can never store the exchange
	droppedReadOnly = "read_only" // the data directory cannot be written
	droppedQuota    = "quota"     // the outbox was at limits.outbox_bytes
	droppedTenant   = "tenant"    // the tenant had limits.tenant_bytes in the outbox
	droppedDamaged  = "damaged"   // the outbox was damaged
	droppedOptOut   = "opted_out" // the exchange names an opted-out path
)
