// Package detect reads the traffic of agents: failed tool results, calls that repeat in a loop, the
// opinion of a person about an answer, and requests for the agent's own housekeeping.
//
// A result passes these steps (classify.go): the purpose of the call (call.go, shell.go), refusals
// and running commands (refusal.go), then the flag of the wire, the exit code in a frame (frame.go)
// and the fields of an answer (envelope.go). Text comes last: as one message or a page
// (statement.go), as the answer of a tool of a domain (domain.go), or as the output of a program
// (output.go), line by line (lines.go).
//
// A loop (loops.go) is found by reading the conversation backwards, step by step (history.go,
// step.go), for the same call (same_call.go) with the same result (same_result.go), up to the first
// step that may have had side effects. Where the provider keeps the conversation, a checkpoint
// holds the last steps (checkpoint.go).
//
// All wordings are data: phrases.tsv and calls.tsv (phrases.go).
//
// Contract: each judgement names its rule, so that the judgement can be checked. Structure (flags,
// exit codes, fields) goes before text. Text is read at anchored places only. Each function depends
// on its arguments only: no clock, no I/O, no hidden state. Inspect reads the given reader.
//
// Hazard: results quote code, logs and diffs that are full of the word "error". A false alarm
// inserts a misleading warning; a missed failure costs one lesson. Where precision and recall
// conflict, precision wins.
package detect
