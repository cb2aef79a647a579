// Package outbox is the durable queue between the proxy and the store: one local SQLite file that
// holds rows until the store cannot lose the rows any more.
//
// Contract: [Outbox.Append] writes all changes of a [Flush] or none, and returns after the disk has
// the changes. Rows get ascending sequence numbers. [Outbox.Read] returns rows in order, also
// during a write. [Outbox.Advance] records the rows that the store has, [Outbox.Release] deletes rows
// that the store cannot lose any more, and [Outbox.Rewind] makes all remaining rows undelivered
// again. A [Stub] that remains at the next start belongs to a turn that never ended: Open replaces the
// stub by a row of [KindStub].
//
// The account counts exchanges, and changes in the transaction of the rows. After any crash
// Admitted = Stored + Spooled + Incomplete + Dropped. Spooled counts exchanges that the store does not
// have yet.
//
// Full disk: the ballast, a second file, reserves space for Release, so that the queue can shrink.
// Append returns [ErrFull] if the ballast is missing and cannot be created.
//
// Damaged file: the file is renamed, and a new file gets the readable rows with a right checksum. The
// missing exchanges are counted as dropped.
//
// Hazard: two Outboxes must not open one file. The caller locks the directory.
package outbox
