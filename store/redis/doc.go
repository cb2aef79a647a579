// Package redis is the store of a fleet: sessions, exchanges, samples, feedback and counters in one Redis (a single
// server, a Sentinel group or a Cluster) that several processes share.
//
// A hash of a session's id selects its shard, <prefix>:{SHARD}:TENANT:..., with the counters that its settlement (the
// final count of its reward) changes. Keys without a tenant are <prefix>:{precept}:.... A script is atomic in a shard.
// A call on several shards writes in an order in which a crash loses nothing, and after an error is repeated as a
// whole.
//
// Redis acknowledges a write before it is on the disk, so a crash or failover may lose the last second. Epoch then
// changes, and a writer with a copy (the outbox) writes again. maxmemory-policy must be noeviction. An error that wraps
// session.ErrUnavailable is temporary.
package redis
