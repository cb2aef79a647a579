// Package store holds the sessions of a running precept in memory, and stores feedback and exchanges (an exchange is a
// request and its reply). Package learn computes rewards, counters and samples from this data.
//
// On the request path, Acquire looks for a session in memory, then in the backend, within Options.LookupTimeout.
// BeginTurn, Offer and Release never block.
//
// Run has two goroutines. The recorder redacts offered turns, and appends them to the outbox, a file; one run of the
// recorder is a flush. The deliverer writes outbox rows to the backend in batches, and deletes sessions. A failed write
// is retried. Until a retry succeeds, turns wait in the outbox, up to QueueOptions.MaxBytes.
//
// An echo key is a hash of an id or text, by which feedback and later requests find a session. A unit is a run or a
// parent session; its sessions share a reward and the random lesson assignment. Posted feedback on an unknown session
// is parked: the backend keeps it until the session is known. The account counts exchanges by result since the data
// directory was first used.
//
// store/sqlite is the backend for one process, store/redis the backend for several replicas, and store/storetest the
// test suite for both.
//
// Lock order: deliverer.deliveryMu, handoff.mu, session.Record.Mutex, liveSessions.mu. A goroutine that holds a mutex
// in inbox, changeQueue, rewardQueue or tombstones takes no further lock. Only deliveryMu may be held during a backend
// call.
package store
