// Package outbox is the durable queue between the proxy and the store. It is one local SQLite file that holds rows
// until the store can no longer lose them.
//
// Contract: [Outbox.Append] writes all changes of a [Flush] or none, and returns after the changes are on the disk.
// Rows get ascending sequence numbers. [Outbox.Read] returns rows in order, even during a write. [Outbox.MarkDelivered]
// records that the store has rows. [Outbox.Release] deletes rows that the store can no longer lose. [Outbox.Rewind]
// makes all remaining rows undelivered again. A [Stub] records a turn in progress. If the stub remains at the next
// start, the turn never ended, and Open replaces the stub by a row of [KindStub].
//
// The account counts exchanges. It is written in the same transaction as the rows, so that after any crash
// Admitted = Stored + Spooled + Incomplete + Dropped. Spooled counts exchanges that the store does not have yet.
//
// Full disk: a second file, the ballast, reserves the space that Release needs to delete rows. Append returns [ErrFull]
// if the ballast is missing and cannot be created.
//
// Damaged file: the file is renamed, and the readable rows with a valid checksum are copied to a new file. The missing
// exchanges are counted as dropped.
//
// Hazard: two Outboxes must not open the same file. The caller locks the directory.
package outbox
