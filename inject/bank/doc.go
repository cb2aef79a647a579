// Package bank writes lessons of people, API clients, agents and the distiller into a directory or into
// the Redis of a fleet. Bank checks the lessons. A Place (Directory here, redis.Bank in store/redis)
// stores the texts, and banktest is the conformance suite of places.
//
// A program writes with Propose: the checks run, claimed counts, confidence, state and approval are
// dropped, and the lesson is quarantined until a person approves this text (Act), unless the lesson
// is the agent's own and for this agent alone (Proposal.Own). Revise edits a program's lesson and
// quarantines the lesson again. Cite adds evidence to any lesson. Withdraw archives a lesson of the
// program's own scope. Put writes a person's text. Act changes a state. Each of
// these operations regenerates the index and appends to the audit log in the same step. List,
// Archived and Log read. A refused write returns *Refused, whose faults have AIP-11's codes,
// ErrNoLesson, ErrTooMany, or ErrTenantLessons.
//
// The hazard: an editor or another replica may change the bank at any time. Every write states the
// texts that it expects, and starts again if the texts have changed, so that no concurrent change
// is overwritten.
package bank
