// Package outbox is the durable queue before the store: one local SQLite file that holds rows until
// the store cannot lose the rows any more.
//
// Contract: [Outbox.Append] writes all changes of a [Flush] or none, and returns after the disk has
// the changes. Rows get ascending sequence numbers. [Outbox.Read] returns rows in order, also
// during a write. [Outbox.Advance] notes the rows that the store has, [Outbox.Release] deletes rows
// that the store cannot lose any more, and [Outbox.Rewind] makes all remaining rows undelivered
// again. A row of [Outbox.Begin] that remains at the next start belongs to a turn without an end:
// Open makes a row of [KindStub] from the row.
//
// The account counts exchanges, and changes in the transaction of the rows. After any crash
// Admitted = Stored + Spooled + Incomplete + Dropped.
//
// Full disk: the ballast beside the file reserves the last megabyte for Release, so that the queue
// can shrink. Without a ballast, Append refuses.
//
// Damaged file: the file is renamed whole, and a new file begins with the readable rows whose
// checksum is right. The missing exchanges are counted as dropped.
//
// Hazard: two Outboxes must not open one file; the owner locks the directory.
package outbox
