// Package inject decides which text is inserted into a request, and where. The package reads no clock, draws no random
// numbers, and does no I/O.
//
// A block is the inserted text. A pick is a lesson chosen for a session. A coin is the random decision that injects or
// withholds the pick. A unit is a session, or a run of sessions that share coins (package trial).
//
// The contract: a block's anchor is the message to which the block was attached. As long as the anchor exists, the same
// bytes are inserted again in each turn. A message that was sent without a block never gets one. So each turn's
// messages are a prefix of the next turn's messages, and the prompt cache stays valid.
//
// The hazard: only the session's record knows what the upstream received. Plan changes the record before the request is
// sent. If the upstream refuses the request, the caller must call RecordRefusal.
package inject
