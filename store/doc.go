// Package store holds the sessions of a running precept in memory, records exchanges, and takes feedback. Package learn
// computes rewards, counters and samples from them.
//
// On the request path, Acquire looks for a session in memory, then in the backend, within Options.LookupTimeout.
// BeginTurn, Offer and Release never block.
//
// Run has two goroutines. The recorder redacts offered turns, and appends them to the outbox, a file. The deliverer
// writes outbox rows to the backend in batches, and deletes sessions. A failed write is repeated; meanwhile turns wait
// in the outbox, within a limit.
//
// store/sqlite is the backend for one process, store/redis the backend for several replicas, and store/storetest the
// test suite for both.
//
// Lock order: deliverer.deliveryMu, handoff.mu, session.Record.Mutex, liveSessions.mu. The mutexes in inbox,
// changeQueue, rewardQueue and tombstones are leaves. Only deliveryMu may be held during a backend call.
package store
