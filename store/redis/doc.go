// Package redis is the store for a fleet (several precept processes with the same data): sessions, exchanges, samples,
// feedback and counters in one Redis, which is a single server, a Sentinel group or a Cluster.
//
// A hash of the session id selects the session's shard. The keys in a shard are <prefix>:{SHARD}:TENANT:.... The shard
// also has the counters that the session's settlement (the final count of its reward) changes. Keys without a tenant
// are <prefix>:{precept}:.... A Lua script is atomic within one shard. A call that writes to several shards first
// writes the data that a later step needs, so that a crash loses nothing. After an error the caller repeats the whole
// call.
//
// Redis acknowledges a write before it is on the disk, so a crash or failover can lose the last second's writes. Epoch
// then returns another value, and a writer with a copy of the data (the outbox) writes the data again. maxmemory-policy
// must be noeviction. An error that wraps session.ErrUnavailable is temporary.
package redis
