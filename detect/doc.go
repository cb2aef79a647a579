// Package detect finds, in the traffic of agents, failed tool results, calls that repeat in a loop, the user's
// opinion of an answer, and requests for the agent's own housekeeping.
//
// Classify judges a tool result. It determines the purpose of the call (call.go, shell.go), and looks for a
// refusal or a command that still runs (refusal.go). Then it reads the error flag of the API, the exit code in the
// frame that a harness adds (frame.go), and the fields of a JSON answer (envelope.go). It reads the text last, as a
// single error message or a page (error_message.go), as the answer of a domain tool (domain.go), or as the output
// of a program (output.go), line by line (lines.go).
//
// Results.Loops finds loops. It reads the conversation backwards, step by step (history.go, step.go), and searches
// for the same call (same_call.go) with the same result (same_result.go), up to the first step that may have had
// side effects. If the provider stores the conversation, a checkpoint holds the last steps (checkpoint.go).
//
// The phrases that the functions search for are in phrases.tsv and calls.tsv (phrases.go).
//
// Contract: each judgement names its rule, so that an operator can check the judgement. Flags, exit codes and fields
// take precedence over text. Text counts only at fixed places, such as the first and the last lines. The result of
// a function depends only on the arguments: there is no clock and no hidden state, and no I/O except on the reader
// that Inspect, Explain or Read gets.
//
// Hazard: results quote code, logs and diffs that are full of the word "error". A false alarm inserts a misleading
// warning, but a missed failure costs only one lesson. Therefore precision is more important than recall.
package detect
