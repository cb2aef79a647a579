// Package store holds the sessions of a running precept in memory, records exchanges, and takes
// feedback. Package learn computes rewards, counters and samples from the exchanges and the feedback.
//
// # On the request path
//
// Requests call Acquire, Echoes, Begin, Offer and Release. Acquire looks for the session in memory first.
// Acquire and Echoes call the backend at most once, within Options.LookupTimeout. Begin, Offer and Release never
// block.
//
// # In the background
//
// Run has two goroutines. The recorder redacts offered turns, and appends the turns to the outbox, a
// file on the disk. The shipper writes the rows of the outbox to the backend in batches, and deletes
// sessions on request and by age. A failed write to the backend is repeated: turns wait in the outbox
// within a limit, and a dropped turn is counted by reason. ReadAccount returns the counts.
//
// # Backends
//
// store/sqlite is the embedded backend and the default; store/redis is the backend of a fleet of
// replicas. store/storetest is the conformance suite of both.
//
// # Reading order
//
// store.go (the API), open.go and run.go (the parts, and who calls whom), sessions.go and live.go
// (sessions in memory), inbox.go and change_queue.go (from requests to the recorder), recorder.go, handoff.go and
// batch.go (into the outbox), deliver.go, write.go and secure.go (to the backend), posts.go and
// feedback.go, optout.go and redact.go, erase.go, archive.go and exchanges.go (the read side).
//
// # Lock order
//
// shipper.deliveryMu, handoff.mu, the mutex of a session.Record, the mutex of the sessions in memory.
// The mutexes of inbox, changeQueue, rewardQueue and tombstones are leaves. Of all these locks, only
// shipper.deliveryMu may be held during a call of the backend.
package store
