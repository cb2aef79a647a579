package store

import "sync/atomic"

// state is how far the recorder and the shipper have come, for readers that must not wait for their
// locks.
type state struct {
	delivered atomic.Int64 // the flush up to which the backend has everything
	lagging   atomic.Bool  // something of what was said in sessions is in the outbox alone
	blind     atomic.Bool  // the same, and the sessions are not in memory either
	held      atomic.Int64 // bytes of exchanges in memory
	since     atomic.Int64 // when the oldest exchange that waits for the backend ended, in microseconds since 1970; 0: none waits
	bytes     atomic.Int64 // of the outbox
	reread    atomic.Bool  // the outbox was damaged: what the shipper has in memory is to be read again
	down      atomic.Bool  // the last write to the backend failed
	unspooled atomic.Bool  // the last write to the outbox failed
}

func (s *state) healthy(ok bool) { s.down.Store(!ok) }
