// Package bank is the one way by which lessons are written: by a person's verb, by the API, by a
// writ, by the distiller, into a directory or into the Redis of a fleet. Bank holds the rules; a
// Place (Directory here, redis.Bank in store/redis) holds the bytes, and banktest holds both kinds
// of place to one behaviour.
//
// What a program writes goes through Propose: the checks run, counts and confidence that its author
// claims are not believed, a state or an approval that it claims is dropped, and the lesson is
// quarantined until a person approves that very text (Act), unless it is the agent's own and for
// itself alone (Proposal.Own).
// Revise edits such a lesson and quarantines it again. Cite adds evidence to any lesson. Withdraw
// takes back what its own scope proposed. Put writes a person's text. Act, Archive and Restore
// change a state. All of them, in one step, regenerate the index and append to the audit log; List,
// Archived and Log read. Whatever they refuse is a *Refused, whose faults have AIP-11's codes,
// ErrNoLesson, or ErrTooMany.
//
// Hazard: the bank may change under our feet, by an editor or another replica. Every write says
// what it expects to find and is tried again from the start when that is no longer there; nothing
// of anybody's is overwritten.
package bank
