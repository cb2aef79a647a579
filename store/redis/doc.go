// Package redis is the store of a fleet. It stores sessions, echo keys, exchanges, samples, feedback, counters and
// priors in one Redis that several precept processes share. The Redis is a single server, a Sentinel group or a
// Cluster.
//
// Package store/storetest declares the methods of a store, and is the conformance suite of this
// package and of store/sqlite. Further methods are for a fleet: Ping, Epoch (changes when Redis may
// have lost data), Moved, RatedOpenSessions and Settled (counts and feedback of other replicas),
// Announce and Erasures (forgotten sessions), PutOptOutMarks and OptOutMark (opted-out sessions), PutAnswer,
// Answer and Clear (an answer for the replica of the next turn), Consult, and Bank (the lessons of a
// fleet).
//
// # Keys and atomicity
//
// A store has 256 shards by default. The number is written to <prefix>:{precept}:shards when the store is created, and
// does not change. A hash of the session's id selects the shard of a session. The shard holds the session's row,
// exchanges, samples and feedback, and the counters that its settlement changes. A run is stored as a session under the
// id of the run. Values that a tenant has once (maxima, priors, notes, parked feedback) are in the shard that a hash of
// the tenant's name selects. The counters of a tenant are the sums over all shards.
//
// The keys of a tenant are <prefix>:{SHARD}:TENANT:..., and the lists of the sessions of all tenants are
// <prefix>:{SHARD}:all:.... Keys without a tenant are <prefix>:{precept}:.... All keys of a shard are in one slot of a
// Cluster, so that each script is atomic. A settlement changes one session, and is therefore one script. A store of an
// earlier release has one shard for each tenant, <prefix>:{TENANT}:..., until Migrate.
//
// A large call runs several scripts. Each script may be repeated. After an error a part of the call may be stored, and
// the caller repeats the whole call. A call that reaches several shards writes in an order in which a crash loses
// nothing:
//
//   - Write: index entries, by which an echo key or a sample id finds its session, are in the shards of their own keys,
//     and are written before the session. An index entry without a session has no effect. Each session has a list of
//     its index entries, so that they are deleted with the session.
//   - Forget: the deletion of a session moves the list of its index entries to the unfinished deletions. Then the index
//     entries are deleted, and last the list. Retain completes unfinished deletions.
//   - Join: parked feedback, which arrived before its session, is added to the session, and is then
//     removed from the parked feedback.
//   - WriteNotes: notes of sessions and of the tenant are first stored together, under keys of the tenant, in one step.
//     SessionNote finds them there. The notes of sessions then move to the sessions.
//
// Each script declares a second key that never exists. While a slot moves to another node, Redis then
// refuses the script as a whole (TRYAGAIN, a temporary error) instead of running the script on a part
// of the keys.
//
// # Errors
//
// Test errors with errors.Is. session.ErrUnavailable reports that Redis is unreachable, full or read-only, or refuses
// precept. The caller then keeps the data and retries. After session.ErrInvalid a retry fails again. After a call that
// did not reach Redis, further calls fail at once until a probe succeeds. While Redis is down, only one call in each
// period therefore waits, for a bounded time.
//
// # Hazards
//
// Redis acknowledges a write before the data is on the disk. With appendfsync everysec, a crash loses the writes of the
// last second, and a failover loses writes that were not replicated. Epoch then changes, and a writer with a copy (the
// outbox) writes again. maxmemory-policy must be noeviction, because a Redis that evicts keys loses sessions and
// counters at random. Opening a store switches off the logger of the client library for the whole process.
package redis
