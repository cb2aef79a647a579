// Package inject decides what is put into a request, and where. It is pure: no clock, no randomness
// of its own, no I/O.
//
// Contract: what was inserted once is inserted again, byte for byte, as long as its place stands;
// what was sent once without a block never gets one later. So the list that the upstream sees in
// one turn is a prefix of the list of the next, its prompt cache stays warm, and a session's
// assignment holds. Whatever does not fit together inserts nothing.
//
// Hazard: the session's record is the only memory of what the upstream has seen. Plan changes it
// before anything is sent; when the upstream refuses the changed request, Refused must be called.
package inject
