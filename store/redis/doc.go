// Package redis is the store of a fleet: sessions, echoes, exchanges, samples, feedback, counters
// and priors in one Redis that several precepts share. The Redis is a single server, a Sentinel
// group or a Cluster.
//
// Package store/storetest declares the methods of a store, and is the conformance suite of this
// package and of store/sqlite. Further methods are for a fleet: Ping, Epoch (changes when Redis may
// have lost data), Moved, OpenFeedback and Settled (counts and feedback of other replicas),
// Announce and Erasures (forgotten sessions), KeepOptOuts and OptOutOf (opted-out sessions), PutAnswer,
// Answer and Clear (an answer for the replica of the next turn), Consult, and Bank (the lessons of a
// fleet).
//
// # Keys and atomicity
//
// A store has 256 shards. The number is in <prefix>:{precept}:shards, is written when the store is
// created, and stays. The shard of a session, with the session's row, exchanges, samples, feedback and
// the counters that its settlement changes, is the remainder of a hash of the session's id; a run is a
// session under the id of the run. Keys of a tenant are <prefix>:{SHARD}:TENANT:..., and lists of the
// sessions of all tenants are <prefix>:{SHARD}:all:.... All keys of a shard are in one slot of a
// Cluster, so that each script is atomic. A step changes one session, hence a settlement is one
// script. The counters of a tenant are the sums over the shards. Values that a tenant has once (maxima,
// priors, notes, parked feedback) are in the shard of the tenant's name. Keys without a tenant are in
// <prefix>:{precept}:.... A store of an earlier release has one shard for each tenant,
// <prefix>:{TENANT}:..., until Migrate.
//
// A large call is several scripts. Each script may be repeated. After an error a part of the call may
// be stored, so the caller repeats the whole call. A call that reaches several shards has an order in
// which a crash loses nothing:
//
//   - Write: index entries (echoes, sessions of samples) are in the shards of their own keys, and are
//     written before the session. An index entry without a session finds nothing. The session lists its
//     entries, so that they are deleted with the session.
//   - Forget: the deletion of a session moves the list of its index entries to a list of unfinished
//     deletions. The entries are deleted next, and the list last. Retain ends unfinished deletions.
//   - Join: parked feedback, which arrived before its session, is added to the session, and is then
//     removed from the parked feedback.
//   - WriteNotes: notes of sessions are stored with the notes of the tenant in one step, where
//     SessionNote finds the notes, and then move to the sessions.
//
// Each script declares a second key that never exists. While a slot moves to another node, Redis then
// refuses the script as a whole (TRYAGAIN, a temporary error) instead of running the script on a part
// of the keys.
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
