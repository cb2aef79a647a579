// Package store keeps what precept learns from: the sessions in memory, the recorder that writes
// turns down after they are over, the feedback on them, and what is shown of them. What follows
// from it (rewards, counters, samples, beliefs) is package learn, which stands above.
//
// Contract: nothing here is on the request path but Acquire, Echoes and Offer. Acquire and Echoes
// look at memory first and ask the backend at most once, within the caller's deadline. Offer never
// blocks. Everything else happens in the recorder, which Run is: one goroutine puts what comes into
// the outbox, whatever the backend does, another one hands it to the backend.
//
// Behind it stands one of two backends, store/sqlite (embedded, the default) or store/redis;
// store/storetest holds both to the same behaviour. A backend that fails is retried: what it could
// not take waits in the outbox, in memory only within limits.capture_total_bytes, and what does not
// fit is counted as dropped, by reason.
//
// Who reads of a session what must not change meanwhile does so in Still: nothing is handed over or
// forgotten then.
//
// In reading order: inbox.go, waiting.go (what requests leave), recorder.go (what comes in),
// handoff.go, batch.go (the way through the outbox), deliver.go (to the backend), run.go (who calls
// whom, and when); posts.go and feedback.go (what is said of sessions); erase.go (what is
// forgotten); archive.go (what is shown).
//
// Lock order: shipper.handing before handoff.mu before a session.Record before the list of live
// sessions; what guards the inbox, what waits, what is touched and the tombstones is a leaf. A
// backend is called under the first alone.
package store
