// Package store holds the sessions of a running precept in memory, records exchanges, and takes feedback. Package learn
// computes rewards, counters and samples from them.
//
// On the request path, Acquire looks for a session in memory, then in the backend, within Options.LookupTimeout.
// BeginTurn, Offer and Release never block.
//
// Run has two goroutines. The recorder redacts offered turns, and appends them to the outbox, a file. The deliverer
// writes the rows of the outbox to the backend in batches, and deletes sessions. A failed write is repeated; meanwhile
// turns wait in the outbox, within a limit.
//
// store/sqlite is the backend of one process, store/redis that of several replicas, and store/storetest the test suite
// of both.
//
// Lock order: deliverer.deliveryMu, handoff.mu, the mutex of a session.Record, liveSessions.mu. The mutexes of inbox,
// changeQueue, rewardQueue and tombstones are leaves. During a call of the backend only deliveryMu may be held.
package store
