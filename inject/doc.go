// Package inject decides which text is inserted into a request, and where. The package is pure: no
// clock, no randomness of its own, no I/O.
//
// The contract: a block that was inserted once is inserted again, byte for byte, while its anchor
// exists. Content that was sent once without a block never gets a block later. The list that the
// upstream receives in one turn is therefore a prefix of the list of the next turn, the prompt
// cache stays warm, and no later turn undoes a decision of the session. If one edit of a plan does
// not fit the request, none of the edits is made.
//
// The hazard: the session's record is the only memory of the text that the upstream has received.
// Plan changes the record before the request is sent. If the upstream refuses the changed request,
// the caller must call RecordRefusal.
package inject
