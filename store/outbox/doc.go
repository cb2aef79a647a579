// Package outbox is the durable queue before the store: one local SQLite file that holds rows until
// the store has them for good.
//
// Contract: [Outbox.Append] writes all changes of a [Flush] or none of them, and returns when they
// are on the disk. Rows get ascending sequence numbers. [Outbox.Read] returns rows in their order,
// beside a writer. [Outbox.Advance] notes which rows the store has taken, [Outbox.Release] deletes
// the rows that the store cannot lose any more, and [Outbox.Rewind] makes all rows that are left
// undelivered again. Rows of [Outbox.Begin] that are left when a file is opened belong to turns that
// never ended: Open turns them into rows of [KindStub].
//
// The account counts exchanges, and changes in the transaction that changes the rows. After any
// crash Admitted = Stored + Spooled + Incomplete + Dropped.
//
// A full disk: the ballast beside the file keeps the last megabyte for Release, so that the queue
// can shrink. While the ballast cannot be made, Append refuses.
//
// A damaged file is renamed whole, and a new one begins with the rows that can still be read and
// whose checksum is right. The exchanges that are missing are counted as dropped.
//
// Hazard: one Outbox at a time may have a file open; the owner locks the directory.
package outbox
