// Package redis is the store for a fleet: sessions, echoes, exchanges, samples, feedback, counters
// and priors in one Redis that several precepts share, be it a single server, a Sentinel group or a
// Cluster.
//
// Contract: the groups of methods that store/storetest declares, and holds this package to, like
// store/sqlite. Beside them stands what only a fleet needs: Ping (can it be reached), Epoch (may
// data have been lost), Moved, OpenFeedback and Settled (what others have counted and heard),
// Announce and Erasures (what is forgotten), KeepOptOuts and OptOutOf, Leave and Take (a text for
// whoever serves the next turn), Consult, and Bank (the lessons of a fleet).
//
// All that belongs to a tenant lies in one slot, <prefix>:{<tag>}:..., so that each script is
// atomic there; what belongs to nobody lies in <prefix>:{precept}:.... A call that touches several
// tenants is one script a tenant, and a large one is several: it is not atomic as a whole, but each
// part is, every part can be repeated, and a settlement is one part. So an error says that some of
// it may not have been stored, and the cure is always the same: do it again.
//
// Errors are for errors.Is. session.ErrUnavailable means that Redis is away, full, read-only or
// refuses us: keep what you have and try again. session.ErrInvalid never succeeds. After a call
// that could not reach Redis the next ones fail at once, until a probe got through: a dead Redis
// costs one bounded wait a period.
//
// Hazards. Redis answers before it has written to disk: with appendfsync everysec, a crash takes
// back the last second, and a failover what had not been replicated. Epoch changes then; who keeps
// his own copy (a write-ahead spool) replays it. A Redis that evicts keys loses sessions and
// counters at random: maxmemory-policy must be noeviction. The client library's logger, one for the
// whole process, is switched off.
package redis
