// Package store keeps what precept learns: the sessions in memory, the recorder that writes turns down after they are
// over, the closing of sessions into rewards and counters, and the beliefs that the chooser reads.
//
// Contract: nothing here is on the request path but Acquire, Echoes and Offer. Acquire and Echoes look at memory first
// and ask the backend at most once, within the caller's deadline. Offer never blocks. Everything else happens in the
// recorder, the one goroutine that Run is.
//
// Behind it stands one of two backends, store/sqlite (embedded, the default) or store/redis; store/storetest holds
// both to the same behaviour. A backend that fails is retried: what could not be written waits in memory within
// limits.capture_total_bytes, and what does not fit is counted as dropped, by reason.
//
// Lock order: a session.Record before a live shard; never a backend call under either.
package store
