// Package spool is a write-ahead log: what is in it survives the program, and waits until it is
// acknowledged. It knows records of bytes with a kind, numbers them, and keeps a checkpoint beside
// them; what the records say is their writer's.
//
// Contract: [Log.Append] writes all records of a call or none of them, and returns when they are on
// the disk. Each record takes as many sequence numbers as Options.Count says. A [Reader] reads from
// any [Place] on, beside the writer: it hands over every record that is whole, in order, and steps
// over what is damaged. The sequence numbers at the head of each segment and at the end of each
// write tell how much was there. [Log.Keep] writes down how far the reader has come, and deletes
// the segments before the place that is safe; what is read twice after a crash was written once.
//
// Hazard: a directory belongs to one Log at a time; who opens it locks it. Places are of one log.
//
// On the disk: segments of about 64 MiB (0000000000000001.spool), each a head and records; the
// checkpoint (cursor.json), which is replaced whole; quarantine/, copies of damaged stretches for a
// person to look at; ballast, a megabyte that is given up when the disk is full, so that whoever
// reads can write elsewhere what the log then lets go of.
package spool
