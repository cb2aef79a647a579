// Package sqlite is the embedded store: sessions, echoes, exchanges, samples, feedback, counters
// and priors in one SQLite file in WAL mode.
//
// Contract: the groups of methods that store/storetest declares, and holds this package to:
//
//	sessions  Session, FindEcho, Due, Write (one transaction, repeatable at will)
//	feedback  AddFeedback, Feedback, Heard, Unsettled; Park, Join, PurgeParked for what
//	          comes too early
//	counters  Applied, Settle (compare and swap a version), Counters, Tenants
//	models    Raise, Maxima, Priors, PutPriors; Meta, InitMeta for the program's
//	          own values
//	samples   Exchanges, SampleSession, EachSample, EachSession (walks of bounded memory)
//	lists     Newest, NewestSamples, by pages
//	aside     SetAside, Readmit, DeadLetters, Unsampled (what a step panicked at)
//	jottings  Mark, Note, EachNote, Jot, Claim, Unclaim (the distiller's own)
//	keeping   Forget, ForgetTenant, Retain, Stats, Sync, Close
//
// Beside them stand Open, which sets a garbage file aside and says so in Notice, and Lock, with
// which a process claims a data directory before it opens anything in it.
//
// Every write is one transaction, atomic under kill -9 at any point, and every call ends when its
// context does. An error is for errors.Is: after ErrBusy, session.ErrDiskFull and the end of a
// context the same write may be tried again, session.ErrInvalid never succeeds, after ErrCorrupt
// the store has to be opened anew. Times are kept to the microsecond, in UTC.
//
// Hazards. A commit is not an fsync: after a power cut the last transactions may be missing, whole,
// unless Sync came after them. A call that a context ended may still have been carried out; all
// writes can be repeated, and Settle's versions tell. The file must lie on a local disk: WAL needs
// shared memory, and file locks of network mounts lie.
package sqlite
