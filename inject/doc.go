// Package inject decides which text is inserted into a request, and where. The package reads no clock, draws no random
// numbers of its own, and does no I/O.
//
// The terms are those of package trial. A pick is a lesson that the chooser selected for a session. A coin is a random
// decision, such as whether a pick is injected or withheld. A unit is a session, or a run whose sessions share coins.
//
// The contract: a block that was inserted once is inserted again, byte for byte, while its anchor exists. A message
// that was sent once without a block never gets a block later. The messages that the upstream receives in one turn are
// therefore a prefix of the messages of the next turn, so the prompt cache stays warm, and no later turn undoes a
// decision of the session.
//
// The hazard: only the session's record knows which text the upstream has received. Plan changes the record before the
// request is sent. If the upstream refuses the changed request, the caller must call RecordRefusal.
package inject
