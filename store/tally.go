package store

import "sync/atomic"

// Tally counts what the store did, for metrics and doctor. Its fields only grow, but Pending.
type Tally struct {
	Exchanges       atomic.Int64 // written
	Incomplete      atomic.Int64 // of the exchanges: cut, aborted or failed
	OptedOut        atomic.Int64 // exchanges that were not kept because somebody said so
	DroppedFull     atomic.Int64 // exchanges that found the queue or the memory bound full
	CopiesCut       atomic.Int64 // replies whose copy did not fit into limits.capture_total_bytes; their exchanges are kept
	DroppedBad      atomic.Int64 // exchanges that could not be encoded, or made a step of ours panic
	DroppedQuota    atomic.Int64 // exchanges that found the outbox full
	DroppedReadOnly atomic.Int64 // exchanges that came while precept ran from memory
	WriteErrors     atomic.Int64 // failed attempts to write; what they held was kept for the next one
	Pending         atomic.Int64 // exchanges in memory, waiting
	FeedbackLeft    atomic.Int64 // feedback entries that found a set full, where nobody waited for an answer
	Redactions      atomic.Int64
	Retired         atomic.Int64 // sessions deleted because they were older than the retention
	SetAside        atomic.Int64 // sessions and exchanges at which a step of an owner panicked
}

// The reasons why exchanges are dropped.
const (
	droppedFull     = "full"      // the queue or the memory for waiting exchanges was full
	droppedBad      = "bad"       // it could not be encoded, or the store can never take it
	droppedReadOnly = "read_only" // precept ran from memory
	droppedQuota    = "quota"     // the outbox had reached limits.outbox_bytes
	droppedDamaged  = "damaged"   // the outbox was damaged where it stood
	droppedOptOut   = "opted_out" // a call of its reply named a path of which nothing may be kept
)
