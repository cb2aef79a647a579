// Package redis is a fleet's store: sessions, exchanges, samples, feedback and counters in one Redis (a single server,
// a Sentinel group or a Cluster) shared by several processes.
//
// A hash of the session id selects the session's shard, <prefix>:{SHARD}:TENANT:.... The shard also has the counters
// that change in the session's settlement (the final count of its reward). Keys without a tenant are
// <prefix>:{precept}:.... A script is atomic in a shard. A call on several shards writes in an order that loses nothing
// in a crash. After an error the whole call is repeated.
//
// Redis acknowledges a write before it is on the disk, so a crash or failover may lose the last second. Epoch then
// changes, and a writer with a copy (the outbox) writes again. maxmemory-policy must be noeviction. An error that wraps
// session.ErrUnavailable is temporary.
package redis
