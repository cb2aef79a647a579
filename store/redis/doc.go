// Package redis is the store of a fleet: sessions, echoes, exchanges, samples, feedback, counters
// and priors in one Redis that several precepts share. The Redis is a single server, a Sentinel
// group or a Cluster.
//
// Package store/storetest declares the methods of a store, and is the conformance suite of this
// package and of store/sqlite. Further methods are for a fleet: Ping, Epoch (changes when Redis may
// have lost data), Moved, OpenFeedback and Settled (counts and feedback of other replicas),
// Announce and Erasures (forgotten sessions), KeepOptOuts and OptOutOf (opted-out sessions), Leave
// and Take (a text for the replica of the next turn), Consult, and Bank (the lessons of a fleet).
//
// # Keys and atomicity
//
// All keys of a tenant are in one slot, <prefix>:{<tag>}:..., so that each script is atomic. Keys
// without a tenant are in <prefix>:{precept}:.... A call for several tenants is one script for each
// tenant, and a large call is several scripts. Each script is atomic and may be repeated, and a
// settlement is one script. After an error a part of the call may be stored, so the caller repeats
// the whole call.
//
// # Errors
//
// Test errors with errors.Is. session.ErrUnavailable reports that Redis is unreachable, full,
// read-only or refuses precept: the caller keeps the data and retries. After session.ErrInvalid a
// retry fails again. After a call that did not reach Redis, further calls fail at once until a
// probe succeeds, so that a dead Redis costs one bounded wait in each period.
//
// # Hazards
//
// Redis answers before data is on the disk: with appendfsync everysec, a crash loses the last
// second, and a failover loses writes that were not replicated. Epoch then changes, and a writer
// with a copy (the outbox) writes again. A Redis that evicts keys loses sessions and counters at
// random: maxmemory-policy must be noeviction. The logger of the client library is switched off for
// the whole process.
package redis
