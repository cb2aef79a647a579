// Package outbox is the durable queue between the proxy and the store: one local SQLite file that holds rows until the
// store can no longer lose them.
//
// [Outbox.Append] writes all changes in a [Flush] or none, and returns when they are on the disk. [Outbox.Read] returns
// rows in order, and [Outbox.Release] deletes rows. A [Stub] records a turn in progress; a stub left at the next start
// becomes a [KindStub] row.
//
// The account counts exchanges in the same transaction as the rows. A second file, the ballast, reserves the space that
// Release needs on a full disk. A damaged file is renamed, and the readable rows are copied to a new file.
//
// Two Outboxes must not open the same file. The caller locks the directory.
package outbox
