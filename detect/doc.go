// Package detect finds failed tool results, loops of repeated calls, the user's opinion of an answer, and side requests
// (an agent's own housekeeping, such as asking for a title).
//
// Classify judges a tool result. It determines the call's purpose (call.go). Then it looks for a refusal (refusal.go),
// an error flag, an exit code (frame.go), JSON fields that report the outcome (envelope.go), and finally for words in
// the text.
//
// Results.Loops finds loops. It reads the conversation backwards (history.go) and searches for the newest call
// (same_call.go) with an equal result (same_result.go). The search ends at a step that may have had side effects. If
// the provider stores the conversation, a checkpoint has the last steps (checkpoint.go).
//
// The words that the rules search for are in phrases.tsv and calls.tsv (phrases.go).
//
// Contract: each judgement names the deciding rule, so that an operator can check it. Error flags and exit codes take
// precedence over text.
//
// Hazard: results quote code and logs with many errors. A false alarm inserts a misleading warning into a request,
// whereas a missed failure only means that a lesson is not shown. Therefore precision is more important than recall.
package detect
