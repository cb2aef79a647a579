// Package detect reads the traffic of agents for what nobody wrote down: which tool results failed,
// which calls go round in circles, what a person thought of an answer, which requests are an
// agent's own housekeeping.
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
