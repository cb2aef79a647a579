// Package bank writes the lessons of people, API clients, agents and the distiller into a directory or into
// the Redis of a fleet. A Bank checks the lessons. A Storage (Directory here, redis.Bank in store/redis)
// stores the texts, and package banktest is the conformance suite of storages.
//
// A program writes a lesson with Propose. The lesson is checked, and claims of its author about counts, state
// and approval are dropped. The lesson is quarantined until a person approves its text with Act. Only a lesson
// that an agent writes for itself alone can be active at once (Proposal.ActivateNow). Revise replaces the text of a
// program's lesson and quarantines the lesson again. Cite adds evidence to any lesson. Withdraw archives a lesson
// of the program's own scope. Put writes a hand-written text, and Act carries out an operator's decision. Each of these
// operations rewrites the index and appends to the audit log in the same step. A write that is not accepted
// returns *Refused, ErrNoLesson, ErrTooMany or ErrTenantLessons.
//
// The hazard: an editor or another replica may change the bank at any time. Every write names the texts that it
// replaces. If these texts have changed, the write starts again from the current texts. No concurrent change is
// overwritten.
package bank
