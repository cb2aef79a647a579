// Package detect reads the traffic of agents for what nobody wrote down: which tool results failed,
// which calls go round in circles, what a person thought of an answer, which requests are an
// agent's own housekeeping.
//
// A result goes through this until it is an error (classify.go): what is its call for (call.go,
// shell.go)? Did somebody refuse it, or does it go on (refusal.go)? What do the wire's flag, the
// exit code of a frame (frame.go), the fields of an answer (envelope.go) say? Only then is text
// read: as one message (statement.go), a page (page.go), or a program's output (output.go), line by
// line (lines.go).
//
// A call goes through this until it is a loop (loops.go): the conversation is read backwards, step
// by step (history.go, step.go), for the same call (same_call.go) with the same result
// (same_result.go), until something lies between that may have changed the world. Where the
// provider keeps the conversation, a checkpoint holds its last steps (checkpoint.go).
//
// The words that all this listens for are data: phrases.tsv and calls.tsv (phrases.go).
//
// The contract: every judgement names the rule that made it, so that it can be audited; structure
// (flags, exit codes, fields) goes before text; text is read at anchored places only. Everything is
// a pure function of its arguments: no clock, no I/O, no state beyond what the caller carries
// (Inspect reads the reader it is given, nothing else).
//
// The hazard: results quote code, logs and diffs that are full of the word "error". A false alarm
// inserts a warning that misleads a healthy agent, a missed failure costs one lesson. Where the two
// pull apart, precision wins.
package detect
